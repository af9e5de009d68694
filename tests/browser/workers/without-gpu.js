// The package's worker in a browser that has no WebGPU.

import '/pkg/worker.js';

Object.defineProperty(navigator, 'gpu', { value: undefined });
