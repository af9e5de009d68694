// Rates of one run of an engine: in the page, and of engines that run beside the browser.

/**
 * @param {{ atMs: number[], startedMs: number, promptTokens: number | null }} made when each
 *   token came, and how many tokens the engine says it read
 * @param {number} promptTokens that it was given
 * @param {number} maxTokens that it was asked for
 */
export function rates(made, promptTokens, maxTokens) {
  const { atMs, startedMs } = made;
  if (made.promptTokens !== null && made.promptTokens !== promptTokens) {
    throw new Error(`it read ${made.promptTokens} prompt tokens, not ${promptTokens}`);
  }
  if (atMs.length < maxTokens / 2) throw new Error(`it made ${atMs.length} of ${maxTokens} tokens`);
  const ttftMs = atMs[0] - startedMs;
  const decodeMs = atMs.at(-1) - atMs[0];
  return {
    prefillTokensPerSecond: promptTokens > 1 ? (promptTokens / ttftMs) * 1000 : null,
    decodeTokensPerSecond: maxTokens > 1 ? ((atMs.length - 1) / decodeMs) * 1000 : null,
    ttftMs,
    tokens: atMs.length,
  };
}
