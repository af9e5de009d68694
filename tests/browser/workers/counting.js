// The package's worker, with each finished step of the engine told on the channel `steps`, and
// how each generation ended on the channel `ends`.
// Static imports: a worker that awaits at its top level loses the messages that come meanwhile.

import { Engine } from '/pkg/engine.js';
import '/pkg/worker.js';

const channel = new BroadcastChannel('steps');
const { step } = Engine.prototype;
Engine.prototype.step = async function (id) {
  const result = await step.call(this, id);
  channel.postMessage(result.kind);
  return result;
};

const ends = new BroadcastChannel('ends');
const { end } = Engine.prototype;
Engine.prototype.end = function (id, reason) {
  const stats = end.call(this, id, reason);
  ends.postMessage(stats.finishReason);
  return stats;
};
