// The package's worker where the private file system is refused, as in private windows.

Object.defineProperty(StorageManager.prototype, 'getDirectory', {
  value: async () => {
    throw new DOMException('The operation is insecure.', 'SecurityError');
  },
});

// What arrives before the worker listens has to arrive again.
const early = [];
const keep = (event) => early.push(event.data);
addEventListener('message', keep);
await import('/pkg/worker.js');
removeEventListener('message', keep);
for (const data of early) dispatchEvent(new MessageEvent('message', { data }));
