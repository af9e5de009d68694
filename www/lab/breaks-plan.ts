// Switches of the section on broken streams, and the scenario that they make.
import type { Scenario, ScenarioFaults, ScenarioHop } from 'tokenbrook/mock';
import type { Diagnosis, HopName } from 'tokenbrook/measure';
import { amount, choice, count, flag, type Values } from '../shared/fields.js';

export const HOP_FIELDS = {
  proxy: flag('Reverse proxy', false),
  proxyBytes: count('Its buffer', 4096, [16, 1_000_000], { unit: 'bytes' }),
  compression: flag('Compression', false),
  blockBytes: count('Its block', 8192, [16, 1_000_000], { unit: 'bytes' }),
  cdn: flag('CDN or load balancer', false),
  framework: flag('Framework that holds the body', false),
  client: flag('Client that awaits the whole body', false),
  idle: flag('Idle timeout', false),
  idleMs: count('Closes after', 500, [10, 600_000], { unit: 'ms' }),
  narrow: flag('Narrow path', false),
  bytesPerSecond: count('Passes', 2000, [10, 10_000_000], { unit: 'bytes/s' }),
};

export const FAULT_FIELDS = {
  fault: choice('Fault', 'none', {
    none: 'None',
    refuse: 'Error before the first byte',
    fail: 'Error event',
    marker: 'No finish, no marker',
    cut: 'Clean end within the body',
    reset: 'Connection reset',
    stall: 'The generator stalls',
    type: 'Wrong content type',
    utf8: 'Characters split in two',
  }),
  at: count('At token', 40, [1, 100_000]),
  stallMs: count('For', 2000, [1, 600_000], { unit: 'ms' }),
};

export const SOURCE_FIELDS = {
  tokens: count('Tokens', 120, [1, 2000]),
  pace: amount('Time per token', 33, [1, 1000], { unit: 'ms' }),
  framing: choice('Framing', 'dialect', { dialect: 'OpenAI dialect', bare: 'Bare events' }),
  render: choice('Rendering', 'append', {
    append: 'Append, once a frame', reparse: 'Parse all again, each token',
  }),
  busy: flag('Busy page', false, 'Its thread is blocked for 200 ms of every second.'),
};

export const BREAK_FIELDS = { ...HOP_FIELDS, ...FAULT_FIELDS, ...SOURCE_FIELDS };
export type BreakValues = Values<typeof BREAK_FIELDS>;

/** A switch and the field that it opens. */
export const OPENS = [
  ['proxy', 'proxyBytes'],
  ['compression', 'blockBytes'],
  ['idle', 'idleMs'],
  ['narrow', 'bytesPerSecond'],
] as const;

/** Bytes of an event of each framing, about: where a fault counts bytes, not tokens. */
const EVENT_BYTES = { dialect: 190, bare: 16 };

export function hopsOf(values: BreakValues): ScenarioHop[] {
  const hops: ScenarioHop[] = [];
  if (values.framework) hops.push({ kind: 'framework' });
  if (values.compression) hops.push({ kind: 'compression', blockBytes: values.blockBytes });
  if (values.proxy) hops.push({ kind: 'proxy', bufferBytes: values.proxyBytes });
  if (values.cdn) hops.push({ kind: 'cdn' });
  if (values.idle) hops.push({ kind: 'idle', ms: values.idleMs, reset: false });
  if (values.narrow) hops.push({ kind: 'narrow', bytesPerSecond: values.bytesPerSecond });
  if (values.client) hops.push({ kind: 'client' });
  return hops;
}

function faultsOf({ fault, at, framing }: BreakValues): ScenarioFaults | undefined {
  const byte = at * EVENT_BYTES[framing] + 7;
  switch (fault) {
    case 'refuse':
      return { failBefore: { status: 503, retryAfterSeconds: 2 } };
    case 'fail':
      return { failAt: { token: at } };
    case 'marker':
      return { omit: 'all' };
    case 'cut':
      return { cut: { byte } };
    case 'reset':
      return { cut: { byte, reset: true } };
    case 'type':
      return { contentType: 'text/plain' };
    case 'utf8':
      return { splitUtf8Ms: 20 };
    default:
      return undefined;
  }
}

/** The server alone, as its own machine would see it. */
export function directScenario({ tokens, pace }: BreakValues): Scenario {
  return {
    seed: 42,
    text: { kind: 'seeded', tokens },
    pace: { kind: 'uniform', ms: pace, jitterMs: pace / 4 },
  };
}

export function brokenScenario(values: BreakValues): Scenario {
  const hops = hopsOf(values);
  const faults = faultsOf(values);
  const { fault, at, stallMs, tokens } = values;
  return {
    ...directScenario(values),
    // Two bytes a character, so that there is something to split.
    ...(fault === 'utf8' && { text: { kind: 'words' as const, words: 'größer äußern '.repeat(
      Math.ceil(tokens / 2)) } }),
    ...(hops.length > 0 && { hops }),
    ...(faults !== undefined && { faults }),
    ...(fault === 'stall' && { stalls: [{ atToken: Math.min(at, tokens - 1), ms: stallMs }] }),
  };
}

export const HOP_NAMES: Record<HopName, string> = {
  proxy: 'a proxy',
  compression: 'compression',
  cdn: 'a CDN',
  framework: 'the framework',
  client: 'the client',
  idle: 'an idle timeout',
  narrow: 'a narrow path',
};

export const CURES: Record<HopName, string> = {
  proxy: 'proxy_buffering off, or X-Accel-Buffering: no',
  compression: 'no compression of event streams, or a flush after each event',
  cdn: 'pass-through',
  framework: 'a streaming response, flushed',
  client: 'read the body as it comes',
  idle: 'comment lines as keep-alive',
  narrow: 'smaller framing, or batches',
};

export const VERDICTS: Record<Diagnosis['verdict'], string> = {
  healthy: 'Healthy',
  buffered: 'Buffered',
  stalled: 'Stalled',
  cut: 'Cut',
  incomplete: 'Incomplete',
  failed: 'Failed',
  unclear: 'Unclear',
};

/** `a proxy`, or `a proxy, compression or a CDN`. */
export function hopList(hops: readonly HopName[]): string {
  const names = hops.map((hop) => HOP_NAMES[hop]);
  const last = names.pop() ?? '';
  return names.length === 0 ? last : `${names.join(', ')} or ${last}`;
}
