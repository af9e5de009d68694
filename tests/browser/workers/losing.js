// The package's worker, with a GPU device that is lost when the page says so.

import '/pkg/worker.js';

const { prototype } = GPUAdapter;
const { requestDevice } = prototype;
let last;
prototype.requestDevice = async function (descriptor) {
  last = await requestDevice.call(this, descriptor);
  return last;
};
new BroadcastChannel('lose').onmessage = () => last?.destroy();
