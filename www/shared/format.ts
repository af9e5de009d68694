// Figures and failures as people read them. Pure functions; units are in the names.
import type { Stats } from 'tokenbrook';

/** A failure as the page shows and saves it. */
export interface Failure {
  /** The package's kebab-case code, or `internal` where something else was thrown. */
  code: string;
  /** One sentence. */
  message: string;
}

const MIB = 1024 * 1024;

/** Bytes in the unit that keeps three figures: `812 KiB`, `93.8 MiB`, `1.42 GiB`. */
export function formatBytes(bytes: number): string {
  if (!Number.isFinite(bytes) || bytes < 0) return 'unknown size';
  if (bytes < 1024) return `${Math.round(bytes)} B`;
  if (bytes < MIB) return `${Math.round(bytes / 1024)} KiB`;
  // 1023.95 is where one decimal would round up to 1024.
  if (bytes < 1023.95 * MIB) return `${(bytes / MIB).toFixed(1)} MiB`;
  return `${(bytes / (1024 * MIB)).toFixed(2)} GiB`;
}

/** `41.2 of 93.8 MiB`, or the received bytes alone where the total is not known. */
export function formatProgress(receivedBytes: number, totalBytes: number | null): string {
  if (totalBytes === null || !(totalBytes > 0)) return formatBytes(receivedBytes);
  const received = formatBytes(Math.min(receivedBytes, totalBytes));
  const total = formatBytes(totalBytes);
  const unit = total.slice(total.lastIndexOf(' '));
  const number = received.endsWith(unit) ? received.slice(0, -unit.length) : received;
  return `${number} of ${total}`;
}

/** `85 ms` below a second, `1.24 s` below ten, `12.4 s` from there on. */
export function formatDuration(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) return 'unknown';
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  return ms < 9_995 ? `${(ms / 1000).toFixed(2)} s` : `${(ms / 1000).toFixed(1)} s`;
}

/** `21.3 tokens/s`; empty where there is no rate, as with a single token. */
export function formatRate(tokensPerSecond: number | null): string {
  if (tokensPerSecond === null || !Number.isFinite(tokensPerSecond)) return '';
  if (tokensPerSecond <= 0) return '';
  return `${tokensPerSecond.toFixed(tokensPerSecond < 100 ? 1 : 0)} tokens/s`;
}

/** A whole number with its noun: `1 token`, `1,024 tokens`. */
export function formatCount(count: number, noun: string): string {
  return `${count.toLocaleString('en-US')} ${noun}${count === 1 ? '' : 's'}`;
}

/** The line under an answer, one entry a figure; what was not measured is left out. */
export function describeStats(stats: Stats): string[] {
  const parts: string[] = [];
  if (stats.ttftMs !== null) parts.push(`TTFT ${formatDuration(stats.ttftMs)}`);
  const rate = formatRate(stats.decodeTokensPerSecond);
  if (rate !== '') parts.push(rate);
  parts.push(formatCount(stats.completionTokens, 'token'));
  if (stats.promptTokens > 0) {
    const cached = stats.cachedTokens > 0 ? `, ${stats.cachedTokens} reused` : '';
    parts.push(`prompt ${stats.promptTokens}${cached}`);
  }
  return parts;
}

/** Tokens per second so far, from the times of the first and the last of `count` tokens. */
export function liveRate(firstAtMs: number, lastAtMs: number, count: number): number {
  return count > 1 && lastAtMs > firstAtMs ? ((count - 1) * 1000) / (lastAtMs - firstAtMs) : 0;
}

/** Turns whatever was thrown into a code and a sentence. */
export function describeFailure(thrown: unknown): Failure {
  if (thrown instanceof Error) {
    const code = (thrown as { code?: unknown }).code;
    const message = thrown.message.trim();
    return {
      code: typeof code === 'string' && code !== '' ? code : 'internal',
      message: message === '' ? 'Something failed without saying why. Try again.' : message,
    };
  }
  return { code: 'internal', message: `Something failed: ${String(thrown)}` };
}

/** The last part of an address, decoded, as the name of what lies there. */
export function nameOfUrl(url: string): string {
  const path = url.split(/[?#]/, 1)[0] ?? '';
  const last = path.split('/').filter((part) => part !== '').at(-1) ?? url;
  let name = last;
  try {
    name = decodeURIComponent(last);
  } catch {
    // A stray percent sign: the raw text names it as well.
  }
  return name.replace(/\.gguf$/i, '') || url;
}
