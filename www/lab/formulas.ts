// The arithmetic of streamed replies, one formula a function. Times in ms, sizes in bytes.

/** `TTFT + (n − 1) × d`: from the first token's time to the end of a reply of `tokens`. */
export function replyMs(tokens: number, ttftMs: number, tokenMs: number): number {
  return tokens < 1 ? 0 : ttftMs + (tokens - 1) * tokenMs;
}

/** `TTFT + n ÷ rate`: the same where the rate is counted over all tokens, the first included. */
export function replyByRateMs(tokens: number, ttftMs: number, tokensPerSecond: number): number {
  return ttftMs + (tokens / tokensPerSecond) * 1000;
}

/** `queue + prefill + d`: the server's time to its first token. */
export function firstTokenMs(queueMs: number, prefillMs: number, tokenMs: number): number {
  return queueMs + prefillMs + tokenMs;
}

/** What a token of a generation is at the client: transit adds once, for it overlaps the rest. */
export function atClientMs(serverMs: number, requestMs: number, responseMs: number): number {
  return requestMs + serverMs + responseMs;
}

/** `(k − 1) × d`: what the first of `batch` tokens waits for the others. */
export function batchFirstMs(batch: number, tokenMs: number): number {
  return Math.max(0, batch - 1) * tokenMs;
}

/** `d × (k − 1) ÷ 2`: the mean wait within a full batch. */
export function batchMeanMs(batch: number, tokenMs: number): number {
  return batchFirstMs(batch, tokenMs) / 2;
}

/** `w × d`: what holding back `window` tokens adds to each. */
export function holdBackMs(window: number, tokenMs: number): number {
  return window * tokenMs;
}

/** Tokens that one event of a time window carries: those that are made within it, at least 1. */
export function windowTokens(windowMs: number, tokenMs: number): number {
  return Math.max(1, Math.floor(windowMs / tokenMs) + 1);
}

/** A dense model's cache: unquantized, unshared, the whole context kept. */
export interface CacheShape {
  layers: number;
  kvHeads: number;
  headDim: number;
  numberBytes: number;
}

/** `2 × layers × tokens × KV heads × head dim × bytes`. */
export function cacheBytes(shape: CacheShape, tokens: number): number {
  return 2 * shape.layers * tokens * shape.kvHeads * shape.headDim * shape.numberBytes;
}

/** `⌊memory ÷ cache⌋`: contexts that are held at a time. */
export function contextsHeld(memoryBytes: number, contextBytes: number): number {
  return contextBytes > 0 ? Math.floor(memoryBytes / contextBytes) : 0;
}

/** `(weights + active × cache) ÷ bandwidth`: a step reads all of both once. */
export function stepMs(
  weightsBytes: number, cachesBytes: number, bytesPerSecond: number,
): number {
  return ((weightsBytes + cachesBytes) / bytesPerSecond) * 1000;
}

/** `S × ρ ÷ (1 − ρ)`: mean wait for one seat, arrivals and services without memory. */
export function queueWaitMs(serviceMs: number, load: number): number {
  return load >= 1 ? Infinity : (serviceMs * load) / (1 - load);
}

/** `(ρ − target) ÷ ρ`: the share of arrivals that has to go for the load to be at its target. */
export function shedShare(load: number, target: number): number {
  return load <= target ? 0 : (load - target) / load;
}

/** Positions that all steps compute, and pairs of positions that attention looks at. */
export interface Work {
  positions: number;
  pairs: number;
}

/** With a cache: each position once, `P + n − 1`; it looks at itself and all before it. */
export function cachedWork(prompt: number, tokens: number): Work {
  const positions = prompt + Math.max(0, tokens - 1);
  return { positions, pairs: (positions * (positions + 1)) / 2 };
}

/** Without: step t computes all `P + t` positions again, t from 0 to n − 1. */
export function recomputedWork(prompt: number, tokens: number): Work {
  const n = tokens;
  const sum = (n * (n - 1)) / 2;
  const squares = ((n - 1) * n * (2 * n - 1)) / 6;
  const positions = n * prompt + sum;
  // Σ s(s + 1) ÷ 2 with s = P + t.
  const ofSquares = n * prompt * prompt + 2 * prompt * sum + squares;
  return { positions, pairs: (ofSquares + positions) / 2 };
}

/** Body of a whole reply, `{"text":"…"}`. */
export function wholeBytes(text: string): number {
  return utf8Bytes(JSON.stringify({ text }));
}

/** Events of `data: "…"` and a blank line, `batch` words each, and the marker's 14 bytes. */
export function streamBytes(words: readonly string[], batch: number): number {
  let bytes = utf8Bytes('data: [DONE]\n\n');
  for (let at = 0; at < words.length; at += batch) {
    const text = words.slice(at, at + batch).join('');
    bytes += utf8Bytes(`data: ${JSON.stringify(text)}\n\n`);
  }
  return bytes;
}

/** Words with the space after each, as one token each has them. */
export function wordsOf(text: string): string[] {
  return text.trim().split(/\s+/).filter((word) => word !== '').map((word) => `${word} `);
}

/** When somebody has read all: at `wordsPerSecond`, never ahead of what has arrived. */
export function readerDoneMs(arrivalsMs: readonly number[], wordsPerSecond: number): number {
  const wordMs = 1000 / wordsPerSecond;
  let atMs = 0;
  for (const arrivedMs of arrivalsMs) atMs = Math.max(atMs, arrivedMs) + wordMs;
  return atMs;
}

/** A place that answers: its first token at the client without transit, and its speed. */
export interface Place {
  ttftMs: number;
  tokensPerSecond: number;
}

/** When the n-th token of a place is at the client. */
export function placeMs(place: Place, tokens: number, rttMs: number): number {
  return rttMs + replyMs(tokens, place.ttftMs, 1000 / place.tokensPerSecond);
}

/**
 * The round trip at which a remote place shows its `tokens`-th token when the local one does;
 * below 0 the remote is behind however short the way.
 */
export function tieRttMs(local: Place, remote: Place, tokens: number): number {
  return placeMs(local, tokens, 0) - placeMs(remote, tokens, 0);
}

/** The speed at which it does, for a given round trip; infinite where none is enough. */
export function tieTokensPerSecond(
  local: Place, remoteTtftMs: number, rttMs: number, tokens: number,
): number {
  const leftMs = placeMs(local, tokens, 0) - rttMs - remoteTtftMs;
  return leftMs <= 0 ? Infinity : ((tokens - 1) * 1000) / leftMs;
}

function utf8Bytes(text: string): number {
  return new TextEncoder().encode(text).byteLength;
}
