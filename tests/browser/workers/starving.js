// The package's worker, with an engine whose address space is used up: at the first bytes of
// the model, `?left=BYTES` are left to it. What is taken is never written, so it costs nothing.

import { Loader, initSync } from '/pkg/engine.js';
import '/pkg/worker.js';

const PAGE_BYTES = 65_536;
const ADDRESS_SPACE_PAGES = 65_536; // 4 GiB: all that 32 bits reach

const left = Number(new URL(import.meta.url).searchParams.get('left'));
const { push } = Loader.prototype;
let starved = false;
Loader.prototype.push = function (bytes) {
  if (!starved) {
    starved = true;
    // Already initialized: this only hands out the exports.
    const { memory } = initSync();
    const used = memory.buffer.byteLength / PAGE_BYTES;
    memory.grow(ADDRESS_SPACE_PAGES - used - Math.ceil(left / PAGE_BYTES));
  }
  return push.call(this, bytes);
};
