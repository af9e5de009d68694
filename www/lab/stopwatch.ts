// The stopwatch of the lab. Stands in for `tokenbrook/measure`.
import { EventStreamParser, ready } from 'tokenbrook/sse';

export interface TimelineEvent { atMs: number; bytes: number; tokens: number; text: string }
export interface Timeline {
  requestMs: number;
  headersMs: number | null;
  firstByteMs: number | null;
  firstTokenMs: number | null;
  generationEndMs: number | null;
  firstTextMs: number | null;
  lastTextMs: number | null;
  firstRenderedMs: number | null;
  renderedBy: 'element-timing' | 'animation-frames' | null;
  closedMs: number | null;
  status: number | null;
  isStream: boolean;
  reads: { atMs: number; bytes: number }[];
  events: TimelineEvent[];
  text: string;
  bodyBytes: number;
  tokens: number;
  outcome: 'open' | 'complete' | 'incomplete' | 'failed';
  failure: string | null;
}
interface MeasureOptions {
  fetch?: (input: RequestInfo | URL, init?: RequestInit) => Promise<Response>;
  init?: RequestInit;
  element?: Element;
  onEvent?: (event: TimelineEvent) => void;
  generator?: { trace(reply: number): unknown };
}
const now = () => performance.timeOrigin + performance.now();
export async function measure(request: RequestInfo | URL, options: MeasureOptions = {}): Promise<Timeline> {
  await ready;
  const t: Timeline = {
    requestMs: now(), headersMs: null, firstByteMs: null, firstTokenMs: null, generationEndMs: null,
    firstTextMs: null, lastTextMs: null, firstRenderedMs: null, renderedBy: null, closedMs: null,
    status: null, isStream: false, reads: [], events: [], text: '', bodyBytes: 0, tokens: 0,
    outcome: 'open', failure: null,
  };
  const take = (text: string, bytes: number) => {
    const event = { atMs: now(), bytes, tokens: 1, text };
    t.events.push(event);
    if (text !== '') { t.firstTextMs ??= event.atMs; t.lastTextMs = event.atMs; }
    t.text += text; t.tokens += 1;
    options.onEvent?.(event);
  };
  const textOf = (json: unknown): string => typeof json === 'string' ? json : (json as any).text ?? (json as any).choices?.[0]?.delta?.content ?? (json as any).choices?.[0]?.message?.content ?? '';
  let done = false;
  const parser = new EventStreamParser({ onEvent: ({ data }) => { if (data === '[DONE]') done = true; else take(textOf(JSON.parse(data)), data.length); } });
  try {
    const response = await (options.fetch ?? fetch)(request, options.init);
    t.headersMs = now(); t.status = response.status;
    t.isStream = response.headers.get('content-type')?.startsWith('text/event-stream') ?? false;
    let body = '';
    const decoder = new TextDecoder();
    for await (const bytes of response.body!) {
      t.reads.push({ atMs: now(), bytes: bytes.byteLength }); t.bodyBytes += bytes.byteLength;
      if (t.isStream) parser.push(bytes as Uint8Array<ArrayBuffer>); else body += decoder.decode(bytes, { stream: true });
    }
    if (!t.isStream) { take(textOf(JSON.parse(body)), body.length); done = response.ok; }
    t.outcome = done ? 'complete' : 'incomplete';
  } catch { t.outcome = 'failed'; t.failure = 'reset'; }
  t.closedMs = now();
  return t;
}
