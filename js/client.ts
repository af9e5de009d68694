// The entry `tokenbrook/client`: one `fetch` over several providers.

import { ClientRun } from './client-run.js';
import type { Shared } from './client-run.js';
import { checkClientOptions } from './client-options.js';
import type { Client, ClientMeters, ClientOptions } from './client-options.js';
import { invalidOption } from './errors.js';
import { whenReady } from './ready.js';

export { ready } from './ready.js';
export { TokenbrookError } from './errors.js';
export type { ErrorCode } from './errors.js';
export type {
  Alert,
  Attempt,
  CachedReply,
  Client,
  ClientMeters,
  ClientOptions,
  EvalCase,
  Provider,
  ReplyCache,
} from './client-options.js';

/**
 * A client that asks the first provider, asks again where that is safe, falls to the next where
 * it is not or does not help, and to a cached reply at the end.
 *
 * Throws `invalid-option`.
 */
export function createClient(options: ClientOptions): Client {
  const checked = checkClientOptions(options);
  let shared: Promise<Shared> | undefined;
  const share = (): Promise<Shared> => {
    shared ??= whenReady().then(({ ClientCore }) => ({
      ...checked,
      core: new ClientCore(checked.settings),
    }));
    // A failed download is tried again by the next call.
    shared.catch(() => (shared = undefined));
    return shared;
  };
  const evaluate = async (): Promise<number> => {
    const { core, evals, providers } = await share();
    if (evals === undefined) throw invalidOption('evals', 'a set of cases to evaluate');
    let passed = 0;
    for (const { body, passes } of evals.cases) {
      const text = await textOf(providers[0], body);
      const isRight = text !== undefined && passes(text);
      core.recordEval(isRight);
      passed += isRight ? 1 : 0;
    }
    return passed / evals.cases.length;
  };
  let stop = (): void => undefined;
  const schedule = (everyMs: number): void => {
    const { timers } = checked;
    stop = timers.at(timers.nowMs() + everyMs, () => {
      schedule(everyMs);
      evaluate().catch(() => undefined);
    });
  };
  if (checked.evals?.everyMs !== undefined) schedule(checked.evals.everyMs);
  return {
    fetch: async (input, init) => {
      const request = new Request(input, init);
      request.signal.throwIfAborted();
      return ClientRun.start(await share(), request);
    },
    meters: async () => (await share()).core.meters() as ClientMeters,
    evaluate,
    rollBack: (name) => {
      const provider = checked.providers.find((provider) => provider.name === name);
      const { previousModel } = provider ?? {};
      if (provider === undefined || previousModel === undefined) {
        throw invalidOption('name', 'a provider with a `previousModel`');
      }
      [provider.model, provider.previousModel] = [previousModel, provider.model];
    },
    dispose: () => stop(),
  };
}

/** What the first provider answers to a question; nothing where it fails. */
async function textOf(
  provider: Shared['providers'][number] | undefined,
  body: object,
): Promise<string | undefined> {
  if (provider === undefined) return undefined;
  const { fetch, baseUrl = 'http://local/v1', headers, model } = provider;
  const answer = await fetch(`${String(baseUrl).replace(/\/$/, '')}/chat/completions`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, ...(model && { model }), stream: false }),
  }).catch(() => undefined);
  if (!answer?.ok) return undefined;
  const reply = (await answer.json().catch(() => undefined)) as
    | { choices?: { message?: { content?: unknown } }[] }
    | undefined;
  const content = reply?.choices?.[0]?.message?.content;
  return typeof content === 'string' ? content : undefined;
}
