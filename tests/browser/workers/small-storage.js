// The package's worker where the browser says that little can be stored. Chromium itself tells
// every page of the same quota, whatever it has.

StorageManager.prototype.estimate = async () => ({ quota: 100_000, usage: 20_000 });

// What arrives before the worker listens has to arrive again.
const early = [];
const keep = (event) => early.push(event.data);
addEventListener('message', keep);
await import('/pkg/worker.js');
removeEventListener('message', keep);
for (const data of early) dispatchEvent(new MessageEvent('message', { data }));
