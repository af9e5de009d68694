// The package's worker, with an engine that traps: `?export=NAME&after=N` lets N calls pass.

import { Engine, Loader } from '/pkg/engine.js';
import '/pkg/worker.js';

const query = new URL(import.meta.url).searchParams;
const name = query.get('export');
let left = Number(query.get('after'));
const { prototype } = name in Loader.prototype ? Loader : Engine;
const original = prototype[name];
prototype[name] = function (...args) {
  if (left === 0) throw new WebAssembly.RuntimeError('unreachable');
  left -= 1;
  return original.apply(this, args);
};
