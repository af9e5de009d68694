// The worker's side of the protocol: one load, then calls. It knows nothing of the global
// scope it runs in, so that it can be driven over any pair of ports.

import type { Engine } from './engine.js';
import { Engines } from './engines.js';
import type { EngineModules } from './engines.js';
import { toWire } from './errors.js';
import { loadModel } from './loader.js';
import { planModel } from './planner.js';
import type { FromWorker, LoadMessage, PlanMessage, ToWorker } from './protocol.js';
import { Scheduler } from './scheduler.js';
import { openStore } from './store/store.js';
import type { Store } from './store/store.js';
import { DEFAULT_TUNING } from './store/tuning.js';
import type { Tuning } from './store/tuning.js';
import type { ModelInfo } from './types.js';

export interface Port {
  postMessage(message: FromWorker): void;
  addEventListener(type: 'message', listener: (event: { data: ToWorker }) => void): void;
}

/** What serves a model. */
export interface Serving extends EngineModules {
  /** How patient downloads are. */
  tuning?: Tuning | undefined;
}

/** Serves one model to `port`. */
export function serve(port: Port, modules: Serving): void {
  const post = (message: FromWorker): void => port.postMessage(message);
  let scheduler: Scheduler | undefined;
  port.addEventListener('message', ({ data }) => {
    if (data.type === 'load') {
      const engines = new Engines(data, modules);
      const ready = engines.first();
      // The load hears of it, once it has come so far.
      ready.catch(() => undefined);
      const { tuning = DEFAULT_TUNING } = modules;
      const store =
        data.cache === 'none' ? "the option `cache` is 'none'" : openStore(tuning);
      const means = { store, engines };
      load(data, means, post).then(
        (engine) => {
          scheduler = new Scheduler({
            engine,
            reload: () => load(data, means, () => undefined),
            post,
            clockOffsetMs: performance.timeOrigin - data.pageTimeOrigin,
            turn: messageTurn(),
          });
          Promise.resolve(store).then((store) => {
            const { threadsReason } = engines;
            const info = { ...engine.info(), threadsReason, ...cacheInfo(store, data) };
            post({ type: 'loaded', info });
          });
        },
        (error: unknown) => post({ type: 'load-failed', error: toWire(error) }),
      );
    } else if (data.type === 'plan') {
      const { files, settings, headers, cache } = data;
      const engines = new Engines(data, modules);
      planModel({ files, settings, headers, cache, engines }).then(
        (plan) => post({ type: 'planned', plan }),
        (error: unknown) => post({ type: 'load-failed', error: toWire(error) }),
      );
    } else if (scheduler !== undefined) {
      dispatch(scheduler, data);
    }
  });
}

function dispatch(
  scheduler: Scheduler,
  message: Exclude<ToWorker, LoadMessage | PlanMessage>,
): void {
  switch (message.type) {
    case 'call':
      return scheduler.call(message.id, message.call);
    case 'score':
      return scheduler.score(message.id, message.input);
    case 'embed':
      return scheduler.embed(message.id, message.texts, message.options);
    case 'generate':
      return scheduler.generate(message.id, message.input, message.options, message.calledAtMs);
    case 'exchange':
      return scheduler.exchange(message.id, message.request, message.calledAtMs);
    case 'credit':
      return scheduler.credit(message.id, message.total);
    case 'cancel':
      return scheduler.cancel(message.id);
  }
}

interface Means {
  engines: Engines;
  /** Where models are kept, or why they are not. */
  store: Store | string | Promise<Store | string>;
}

async function load(
  message: LoadMessage,
  { store, engines }: Means,
  post: (message: FromWorker) => void,
): Promise<Engine> {
  const opened = await store;
  return loadModel({
    files: message.files,
    tokenizer: message.tokenizer,
    settings: message.settings,
    headers: message.headers,
    sha256: message.sha256,
    store: typeof opened === 'string' ? undefined : opened,
    engines,
    report: (progress) => post({ type: 'progress', progress }),
  });
}

function cacheInfo(
  store: Store | string,
  { files }: LoadMessage,
): Pick<ModelInfo, 'cache' | 'cacheReason'> {
  if (typeof store === 'string') return { cache: 'none', cacheReason: store };
  if (files.some((file) => typeof file === 'string' && /^https?:/.test(file))) {
    return { cache: 'opfs', cacheReason: 'it is kept in the storage of this origin' };
  }
  return { cache: 'none', cacheReason: 'what is here already is not copied' };
}

/** A turn of the event loop without the 4 ms that nested timers wait at least. */
function messageTurn(): () => Promise<void> {
  const { port1, port2 } = new MessageChannel();
  let resume: (() => void) | undefined;
  port1.onmessage = () => resume?.();
  return () =>
    new Promise<void>((resolve) => {
      resume = resolve;
      port2.postMessage(null);
    });
}
