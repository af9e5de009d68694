// Where a page finds the model that a command names.
import { basename } from 'node:path';

/**
 * A file is served beside the page, an address is left to the page.
 *
 * @param {{ file?: string, url?: string }} model
 * @returns {{ url: string, routes: Record<string, string> }} what `load` takes, and what a server
 *   has to have for it
 */
export function modelRoute({ file, url }) {
  if (url !== undefined) return { url, routes: {} };
  const path = `/model/${basename(file)}`;
  return { url: encodeURI(path), routes: { [path]: file } };
}
