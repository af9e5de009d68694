// The package's worker on a software adapter that passes for hardware; with `?fault`, one that
// computes square roots where their inverses are asked for.

import '/pkg/worker.js';

const names = { vendor: 'acme', architecture: 'one', device: '', description: 'Acme One' };

function disguise(prototype, key) {
  const { get } = Object.getOwnPropertyDescriptor(prototype, key);
  Object.defineProperty(prototype, key, {
    get() {
      const { subgroupMinSize, subgroupMaxSize } = get.call(this);
      return { ...names, subgroupMinSize, subgroupMaxSize, isFallbackAdapter: false };
    },
  });
}

disguise(GPUAdapter.prototype, 'info');
disguise(GPUDevice.prototype, 'adapterInfo');

if (new URL(import.meta.url).searchParams.has('fault')) {
  const { prototype } = GPUDevice;
  const { createShaderModule } = prototype;
  prototype.createShaderModule = function (descriptor) {
    const code = descriptor.code.replaceAll('inverseSqrt(', 'sqrt(');
    return createShaderModule.call(this, { ...descriptor, code });
  };
}
