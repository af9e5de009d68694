// The package's worker, with an engine that fails at the fifth token of each generation.

import { Engine } from '/pkg/engine.js';
import '/pkg/worker.js';

const made = new Map();
const { step } = Engine.prototype;
Engine.prototype.step = async function (id) {
  const tokens = made.get(id) ?? 0;
  if (tokens === 4) {
    throw Object.assign(new Error('There is no memory left.'), { code: 'out-of-memory' });
  }
  const result = await step.call(this, id);
  if (result.kind === 'token') made.set(id, tokens + 1);
  return result;
};
