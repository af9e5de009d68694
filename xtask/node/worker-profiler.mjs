// V8's profiler in the workers of a page: how long each function was on top of the stack.

/** Microseconds between two looks. */
const INTERVAL = 200;

/** Profiles the workers that a page has, and will have; `{ start(), stop() }`. */
export async function profileWorkers(page) {
  const session = await page.context().newCDPSession(page);
  const workers = new Set();
  const answers = new Map();
  let lastId = 0;
  session.on('Target.attachedToTarget', ({ sessionId, targetInfo }) => {
    if (targetInfo.type === 'worker') workers.add(sessionId);
  });
  session.on('Target.detachedFromTarget', ({ sessionId }) => workers.delete(sessionId));
  session.on('Target.receivedMessageFromTarget', ({ message }) => {
    const { id, result, error } = JSON.parse(message);
    if (id === undefined) return;
    const { resolve, reject } = answers.get(id);
    answers.delete(id);
    if (error) reject(new Error(error.message));
    else resolve(result);
  });
  // Unflattened: this session's own channel then carries the workers' messages.
  await session.send('Target.setAutoAttach', {
    autoAttach: true,
    waitForDebuggerOnStart: false,
    flatten: false,
  });
  const askAll = (method, params) =>
    Promise.all(
      [...workers].map(async (sessionId) => {
        const id = ++lastId;
        const answer = new Promise((resolve, reject) => answers.set(id, { resolve, reject }));
        const message = JSON.stringify({ id, method, params });
        await session.send('Target.sendMessageToTarget', { sessionId, message });
        return answer;
      }),
    );
  return {
    async start() {
      await askAll('Profiler.enable');
      await askAll('Profiler.setSamplingInterval', { interval: INTERVAL });
      await askAll('Profiler.start');
    },
    /** Milliseconds by the name of a function, of all workers. */
    async stop() {
      const times = {};
      for (const { profile } of await askAll('Profiler.stop')) addTimes(profile, times);
      return times;
    },
  };
}

function addTimes({ nodes, samples, timeDeltas }, times) {
  const names = new Map(nodes.map(({ id, callFrame }) => [id, callFrame.functionName]));
  for (const [i, id] of samples.entries()) {
    const name = names.get(id);
    if (name !== '(idle)') times[name] = (times[name] ?? 0) + timeDeltas[i] / 1000;
  }
}
