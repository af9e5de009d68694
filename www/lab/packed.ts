// Runs in an address: JSON, deflated, in the letters that an address takes as they are.

/** A shared run is small; more than this is none. */
const MAX_BYTES = 1 << 20;
const MAX_LETTERS = 64_000;

export async function pack(value: unknown): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  const deflated = new Blob([bytes]).stream().pipeThrough(new CompressionStream('deflate-raw'));
  const packed = new Uint8Array(await new Response(deflated).arrayBuffer());
  let binary = '';
  for (const byte of packed) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}

/** What was packed; `undefined` for anything else, and for what would be too large. */
export async function unpack(letters: string): Promise<unknown> {
  if (letters.length > MAX_LETTERS) return undefined;
  try {
    const binary = atob(letters.replaceAll('-', '+').replaceAll('_', '/'));
    const packed = Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
    const inflated = new Blob([packed]).stream().pipeThrough(
      new DecompressionStream('deflate-raw'),
    );
    const decoder = new TextDecoder('utf-8', { fatal: true });
    let bytes = 0;
    let text = '';
    for await (const part of inflated) {
      bytes += part.byteLength;
      if (bytes > MAX_BYTES) return undefined;
      text += decoder.decode(part, { stream: true });
    }
    return JSON.parse(text + decoder.decode());
  } catch {
    return undefined;
  }
}
