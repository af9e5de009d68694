// The package's worker, with each finished step of the engine told on the channel `steps`.
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
