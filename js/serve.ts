// The worker's side of the protocol: one load, then calls. It knows nothing of the global
// scope it runs in, so that it can be driven over any pair of ports.

import type { Engine } from './engine.js';
import { TokenbrookError, toWire } from './errors.js';
import { publicUrl } from './address.js';
import { loadModel } from './loader.js';
import type { LoadRequest, LoaderClass } from './loader.js';
import { planModel } from './planner.js';
import type { FromWorker, LoadMessage, PlanMessage, ToWorker } from './protocol.js';
import { Scheduler } from './scheduler.js';
import { openStore } from './store/store.js';
import type { Store } from './store/store.js';
import { DEFAULT_TUNING } from './store/tuning.js';
import type { Tuning } from './store/tuning.js';
import type { ModelInfo } from './types.js';

/** The exports of `engine.js`. */
export interface EngineModule {
  default: (options: { module_or_path: Response }) => Promise<unknown>;
  Loader: LoaderClass;
  /** Types that this browser multiplies otherwise than plain code would. */
  differingKernels?: () => string[];
}

export interface Port {
  postMessage(message: FromWorker): void;
  addEventListener(type: 'message', listener: (event: { data: ToWorker }) => void): void;
}

/** The engines of the package; each is asked for when it is needed. */
export interface EngineModules {
  engine: () => Promise<EngineModule>;
  /** The same engine for this browser's better instructions; `undefined` where it has none. */
  relaxed?: (() => Promise<EngineModule>) | undefined;
  compat: () => Promise<EngineModule>;
  /** How patient downloads are. */
  tuning?: Tuning | undefined;
}

/** Serves one model to `port`. */
export function serve(port: Port, modules: EngineModules): void {
  const post = (message: FromWorker): void => port.postMessage(message);
  let scheduler: Scheduler | undefined;
  port.addEventListener('message', ({ data }) => {
    if (data.type === 'load') {
      const ready = start(data, modules);
      // The load hears of it, once it has come so far.
      ready.catch(() => undefined);
      let other: Promise<EngineModule['Loader']> | undefined;
      const { tuning = DEFAULT_TUNING } = modules;
      const store =
        data.cache === 'none' ? "the option `cache` is 'none'" : openStore(tuning);
      const engines = {
        store,
        engine: ready,
        compat: () =>
          (other ??= instantiate(data.compatWasmUrl, modules.compat).then(({ Loader }) => Loader)),
      };
      load(data, engines, post).then(
        (engine) => {
          scheduler = new Scheduler({
            engine,
            reload: () => load(data, engines, () => undefined),
            post,
            clockOffsetMs: performance.timeOrigin - data.pageTimeOrigin,
            turn: messageTurn(),
          });
          Promise.resolve(store).then((store) => {
            post({ type: 'loaded', info: { ...engine.info(), ...cacheInfo(store, data) } });
          });
        },
        (error: unknown) => post({ type: 'load-failed', error: toWire(error) }),
      );
    } else if (data.type === 'plan') {
      const { files, settings, headers, cache } = data;
      const engine = start(data, modules);
      planModel({ files, settings, headers, cache, engine }).then(
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

interface Engines extends Pick<LoadRequest, 'engine' | 'compat'> {
  /** Where models are kept, or why they are not. */
  store: Store | string | Promise<Store | string>;
}

async function load(
  message: LoadMessage,
  { store, ...engines }: Engines,
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
    ...engines,
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

/**
 * The better engine where there is one and it computes right: a site may have left it out, and what
 * relaxed instructions give is in part the browser's choice.
 */
async function start(
  data: LoadMessage | PlanMessage,
  modules: EngineModules,
): Promise<LoaderClass> {
  const { relaxed } = modules;
  if (relaxed !== undefined && data.relaxedWasmUrl !== undefined) {
    try {
      const { Loader, differingKernels } = await instantiate(data.relaxedWasmUrl, relaxed);
      if (differingKernels === undefined || differingKernels().length === 0) return Loader;
    } catch {
      // The one that runs everywhere tells what is wrong, if that is not here either.
    }
  }
  return (await instantiate(data.wasmUrl, modules.engine)).Loader;
}

async function instantiate(
  wasmUrl: string,
  module: () => Promise<EngineModule>,
): Promise<EngineModule> {
  // Both are on their way at once.
  const script = module();
  script.catch(() => undefined);
  const url = publicUrl(wasmUrl);
  let response: Response;
  try {
    response = await fetch(wasmUrl);
  } catch (cause) {
    throw new TokenbrookError('download-failed', `The engine ${url} could not be fetched.`, {
      cause,
      url,
    });
  }
  if (!response.ok) {
    const { status } = response;
    const message = `The engine ${url} answered HTTP ${status}: set \`wasmUrl\` to where it is.`;
    throw new TokenbrookError('download-failed', message, { url, status });
  }
  let engineModule: EngineModule;
  try {
    engineModule = await script;
    await engineModule.default({ module_or_path: response });
  } catch (cause) {
    // Often a page that a server gives for unknown addresses.
    const message = `${url} is not an engine that this browser runs: check \`wasmUrl\`.`;
    throw new TokenbrookError('download-failed', message, { cause, url });
  }
  return engineModule;
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
