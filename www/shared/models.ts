// Which models there are to load: a list beside the page, an address, or files.
import { nameOfUrl } from './format.js';

/** Something to load, with what is known of it before its bytes arrive. */
export interface ModelChoice {
  name: string;
  source: string | Blob | Blob[];
  bytes: number | null;
}

/** Checks the list's JSON; entries that are not `{ name, url, bytes }` are left out. */
export function parseModelList(json: unknown, listUrl: string): ModelChoice[] {
  if (!Array.isArray(json)) return [];
  const choices: ModelChoice[] = [];
  for (const entry of json as unknown[]) {
    if (typeof entry !== 'object' || entry === null) continue;
    const { name, url, bytes } = entry as Record<string, unknown>;
    if (typeof url !== 'string' || typeof name !== 'string' || name === '') continue;
    const source = resolveUrl(url, listUrl);
    if (source === null) continue;
    const known = typeof bytes === 'number' && Number.isSafeInteger(bytes) && bytes > 0;
    choices.push({ name, source, bytes: known ? bytes : null });
  }
  return choices;
}

/** The list at `listUrl`; empty where there is none. */
export async function fetchModelList(listUrl: string): Promise<ModelChoice[]> {
  try {
    const response = await fetch(listUrl);
    return response.ok ? parseModelList(await response.json(), listUrl) : [];
  } catch {
    return [];
  }
}

/**
 * The models of the list, whose address is relative to the page, after the one that the page's
 * own address asks for as `?model=URL`.
 */
export async function offeredModels(listUrl: string): Promise<ModelChoice[]> {
  const query = new URLSearchParams(location.search);
  const listed = await fetchModelList(new URL(listUrl, document.baseURI).href);
  const asked = choiceFromUrl(query.get('model') ?? '', location.href);
  const first = listed.find(({ source }) => source === asked?.source) ?? asked;
  if (first === null) return listed;
  return [first, ...listed.filter(({ source }) => source !== first.source)];
}

/** The model at an address, absolute or relative to `base`; null where it is no address. */
export function choiceFromUrl(text: string, base: string): ModelChoice | null {
  const source = text.trim() === '' ? null : resolveUrl(text.trim(), base);
  return source === null ? null : { name: nameOfUrl(source), source, bytes: null };
}

/** One file, or the parts of a split one in the order of their names; null for none. */
export function choiceFromFiles(files: readonly File[]): ModelChoice | null {
  const parts = [...files].sort((a, b) => (a.name < b.name ? -1 : 1));
  const [first] = parts;
  if (first === undefined) return null;
  return {
    name: first.name.replace(/\.gguf$/i, ''),
    source: parts.length === 1 ? first : parts,
    bytes: parts.reduce((sum, part) => sum + part.size, 0),
  };
}

function resolveUrl(url: string, base: string): string | null {
  try {
    return new URL(url, base).href;
  } catch {
    return null;
  }
}
