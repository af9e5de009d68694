// The calls of a run: all at once to the mock, in turn to the model on this device.
import type { Model } from 'tokenbrook';
import type { Scenario } from 'tokenbrook/mock';
import { mockPlace, playScenario } from './mock-link.js';
import { arrivalsOf } from './replay-model.js';
import { measure, type Timeline, type TimelineEvent } from 'tokenbrook/measure';
import type { Mode, WaitCall, WaitRun } from './wait-run.js';

export interface WaitPlan {
  calls: number;
  scenario: Scenario;
  signal: AbortSignal;
  /** The first call leaves. */
  onStart(): void;
  /** Of the first call of each mode, as it comes. */
  onEvent(mode: Mode, event: TimelineEvent, sinceMs: number): void;
  onCall(done: number, all: number): void;
}

/** What the first requests cost a worker and a page is no part of a reply. */
const WARM_UPS = 2;
const WARM_UP: Scenario = { text: { kind: 'seeded', tokens: 4 }, pace: { kind: 'fixed', ms: 2 } };

async function warmUp(calls: number): Promise<void> {
  await playScenario(WARM_UP, async (play) => {
    for (let round = 0; round < WARM_UPS; round += 1) {
      await Promise.all(Array.from({ length: calls * 2 }, (_, at) =>
        measure('warm-up', { fetch: () => play.fetch(at < calls ? '/lab/stream' : '/lab/wait') })));
    }
  });
  // What all that left to be painted is painted.
  await new Promise((settled) => setTimeout(settled, 100));
}

/** Both modes, all calls at once, through the mock. */
export async function runMock(plan: WaitPlan): Promise<WaitRun> {
  const { calls, scenario, signal } = plan;
  const at = new Date().toISOString();
  const place = `the mock in ${await mockPlace()}`;
  await warmUp(calls);
  const done = await playScenario(scenario, async (play) => {
    let count = 0;
    const one = async (mode: Mode, index: number): Promise<WaitCall> => {
      const startMs = performance.timeOrigin + performance.now();
      const timeline = await measure(`/lab/${mode}`, {
        fetch: (_, init) => play.fetch(`/lab/${mode}`, init),
        init: { signal },
        generator: play,
        ...(index === 0 && {
          onEvent: (event: TimelineEvent) => plan.onEvent(mode, event, event.atMs - startMs),
        }),
      });
      plan.onCall((count += 1), calls * 2);
      return callOf(mode, timeline);
    };
    plan.onStart();
    // A worker takes requests one by one. The waits, which see nothing for long, go behind.
    return Promise.all((['stream', 'wait'] as const).flatMap((mode) =>
      Array.from({ length: calls }, (_, index) => one(mode, index))));
  });
  signal.throwIfAborted();
  return { at, place, calls: done };
}

/** Both modes by turns: an engine takes one call after the other. */
export async function runLocal(
  model: Model, prompt: string, maxTokens: number, plan: WaitPlan,
): Promise<WaitRun> {
  const at = new Date().toISOString();
  const done: WaitCall[] = [];
  const one = async (mode: Mode, onEvent?: (event: TimelineEvent) => void): Promise<WaitCall> => {
    const body = {
      model: 'local',
      messages: [{ role: 'user', content: prompt }],
      stream: mode === 'stream',
      max_tokens: maxTokens,
      temperature: 0,
    };
    const timeline = await measure('http://local/v1/chat/completions', {
      fetch: model.fetch,
      init: {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
        signal: plan.signal,
      },
      ...(onEvent !== undefined && { onEvent }),
    });
    return callOf(mode, timeline);
  };
  // The first call computes the prompt, the others find it in the cache: it counts for neither.
  await one('stream');
  plan.onStart();
  for (let index = 0; index < plan.calls; index += 1) {
    for (const mode of ['wait', 'stream'] as const) {
      plan.signal.throwIfAborted();
      const startMs = performance.timeOrigin + performance.now();
      done.push(await one(mode, index > 0 ? undefined : (event) =>
        plan.onEvent(mode, event, event.atMs - startMs)));
      plan.onCall(done.length, plan.calls * 2);
    }
  }
  plan.signal.throwIfAborted();
  return { at, place: `${model.info.name} on this device`, calls: done };
}

function callOf(mode: Mode, timeline: Timeline): WaitCall {
  const { requestMs, closedMs, outcome, bodyBytes } = timeline;
  const since = (atMs: number | null): number | null => (atMs === null ? null : atMs - requestMs);
  const events = timeline.events.map(({ text, atMs }) => ({ text, atMs: atMs - requestMs }));
  return {
    mode,
    complete: outcome === 'complete',
    headersMs: since(timeline.headersMs),
    firstTokenMs: since(timeline.firstTokenMs),
    firstTextMs: since(timeline.firstTextMs),
    totalMs: (closedMs ?? requestMs) - requestMs,
    bodyBytes,
    arrivals: arrivalsOf(events),
  };
}
