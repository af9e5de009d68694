// The run: each engine is loaded, its tokens are checked, then it is timed through its own
// `fetch`, by the stopwatch that times the mock and real servers too.
import { load, type Memory, type Model, type ModelInfo, type Progress } from 'tokenbrook';
import { measure, type Timeline } from 'tokenbrook/measure';
import workerUrl from 'tokenbrook/worker?worker&url';
import { describeFailure } from '../shared/format.js';
import type { ModelChoice } from '../shared/models.js';
import type { Plan, Setup } from './plan.js';
import { Prompts } from './prompts.js';
import { judge, knownReference, type Check, type Reference } from './reference.js';

/** All samples of one kind. */
export interface Series {
  promptTokens: number;
  outputTokens: number;
  timelines: Timeline[];
}

/** What was measured of one engine. */
export interface Measured {
  setup: Setup;
  info: ModelInfo;
  /** From the call to a model that answers; the file was on this device where it can be kept. */
  loadMs: number;
  loadedFrom: 'storage' | 'file' | 'network';
  check: Check;
  memory: Memory;
  /** One token each: what reading a prompt takes. */
  prompts: Series[];
  reply: Series;
}

/** An engine that this device does not have, or that failed. */
export interface Missing {
  setup: Setup;
  failure: string;
}

export type Outcome = Measured | Missing;

export interface Watcher {
  signal: AbortSignal;
  /** Something begins; `loading` while the load view shows how far it is. */
  step(what: string): void;
  loading(setup: Setup): void;
  progress(progress: Progress): void;
  loaded(): void;
  outcome(outcome: Outcome): void;
}

const CHECK_TOKENS = 16;
const CHECK_TEXT = 'The capital of France is';

/** Measures one engine after the other. Rejects with the signal's reason. */
export async function runBench(
  choice: ModelChoice, plan: Plan, watcher: Watcher,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  const session: Session = { made: undefined, isFetched: false };
  for (const setup of plan.setups) {
    let outcome: Outcome;
    try {
      outcome = await measureSetup(choice, plan, setup, session, watcher);
    } catch (thrown) {
      watcher.signal.throwIfAborted();
      outcome = { setup, failure: describeFailure(thrown).message };
    }
    outcomes.push(outcome);
    watcher.outcome(outcome);
  }
  return outcomes;
}

/** What the engines of one run share. */
interface Session {
  /** Of a model that is not known, the first engine's tokens are the reference. */
  made: Reference | undefined;
  /** The file has been loaded before: it comes from storage where that keeps it. */
  isFetched: boolean;
}

async function measureSetup(
  choice: ModelChoice, plan: Plan, setup: Setup, session: Session, watcher: Watcher,
): Promise<Measured> {
  const { signal } = watcher;
  watcher.loading(setup);
  let { model, loadMs } = await timedLoad(choice, plan, setup, watcher);
  const isKept = model.info.cache === 'opfs';
  if (isKept && !session.isFetched) {
    // It may have been a download.
    session.isFetched = true;
    await model.dispose();
    ({ model, loadMs } = await timedLoad(choice, plan, setup, watcher));
  }
  watcher.loaded();
  try {
    watcher.step(`${setup.name}: checking tokens`);
    const check = await checked(model, session, setup, signal);
    const { prompts, reply } = await timed(model, plan, setup, watcher);
    const loadedFrom = isKept ? 'storage' : typeof choice.source === 'string' ? 'network' : 'file';
    const memory = await model.memory();
    return { setup, info: model.info, loadMs, loadedFrom, check, memory, prompts, reply };
  } finally {
    await model.dispose();
  }
}

async function timedLoad(
  choice: ModelChoice, plan: Plan, setup: Setup, watcher: Watcher,
): Promise<{ model: Model; loadMs: number }> {
  const { signal } = watcher;
  signal.throwIfAborted();
  const held = new URL(workerUrl, document.baseURI);
  held.searchParams.set('wasm', setup.wasm ?? '');
  const startMs = performance.now();
  const model = await load(choice.source, {
    backend: setup.backend,
    precision: plan.precision,
    contextLength: plan.contextLength,
    signal,
    onProgress: (progress) => watcher.progress(progress),
    ...(setup.wasm !== undefined && { workerUrl: held }),
  });
  return { model, loadMs: performance.now() - startMs };
}

async function checked(
  model: Model, session: Session, setup: Setup, signal: AbortSignal,
): Promise<Check> {
  const { info } = model;
  const reference = knownReference(info) ?? session.made;
  if (reference === undefined) {
    session.made = await madeBy(model, setup, signal);
    return { against: 'nothing: it is the first', agrees: true, worstNats: 0, limitNats: 0 };
  }
  const score = await model.score([...reference.promptIds, ...reference.ids]);
  signal.throwIfAborted();
  return judge(reference, score, info.precision);
}

async function madeBy(model: Model, setup: Setup, signal: AbortSignal): Promise<Reference> {
  const options = { maxTokens: CHECK_TOKENS, temperature: 0, ignoreEos: true, signal };
  const stream = model.generate(CHECK_TEXT, options);
  const ids: number[] = [];
  for await (const { id } of stream) ids.push(id);
  return { of: setup.name, promptIds: Array.from(await stream.promptIds), ids };
}

/** Kinds take turns, so that a device that warms up slows all of them alike. */
async function timed(
  model: Model, plan: Plan, setup: Setup, watcher: Watcher,
): Promise<Pick<Measured, 'prompts' | 'reply'>> {
  const { lengths, samples, tokens } = plan;
  const { signal } = watcher;
  const texts = new Prompts(model, await addedBy(model, signal));
  const [shortest = 2] = lengths;
  await once(model, await texts.next(shortest), 4, signal);
  const prompts = lengths.map((promptTokens): Series =>
    ({ promptTokens, outputTokens: 1, timelines: [] }));
  const reply: Series = { promptTokens: shortest, outputTokens: tokens, timelines: [] };
  for (let sample = 1; sample <= samples; sample += 1) {
    for (const series of [...prompts, reply]) {
      const { promptTokens, outputTokens, timelines } = series;
      const what = series === reply ? `a reply of ${tokens} tokens`
        : `a prompt of ${promptTokens} tokens`;
      watcher.step(`${setup.name}: ${what}, ${sample} of ${samples}`);
      const text = await texts.next(promptTokens);
      timelines.push(await once(model, text, outputTokens, signal));
    }
  }
  return { prompts, reply };
}

/** Tokens that the model puts before a text. */
async function addedBy(model: Model, signal: AbortSignal): Promise<number> {
  const stream = model.generate('x', { maxTokens: 1, temperature: 0, signal });
  for await (const _ of stream);
  return (await stream.promptIds).length - (await model.tokenize('x')).length;
}

async function once(
  model: Model, prompt: string, tokens: number, signal: AbortSignal,
): Promise<Timeline> {
  const body = {
    prompt, max_tokens: tokens, temperature: 0, ignore_eos: true, stream: true,
    stream_options: { include_usage: true },
  };
  const timeline = await measure('http://local/v1/completions', {
    fetch: model.fetch,
    init: { method: 'POST', body: JSON.stringify(body), signal },
  });
  signal.throwIfAborted();
  if (timeline.outcome !== 'complete' || timeline.outputTokens !== tokens) {
    const made = timeline.outputTokens ?? timeline.tokens;
    const why = timeline.failure ?? timeline.outcome;
    throw new Error(`It made ${made} of ${tokens} tokens: ${why}.`);
  }
  return timeline;
}
