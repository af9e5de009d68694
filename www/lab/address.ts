// The part of the page's address behind `#`: the section that is open and what it was told.
// It never leaves the browser, so a shared run may be in it.

export interface Place {
  section: string;
  params: URLSearchParams;
}

/** Reads `#section?name=value&…`. */
export function parseHash(hash: string): Place {
  const text = hash.replace(/^#/, '');
  const at = text.indexOf('?');
  if (at < 0) return { section: text, params: new URLSearchParams() };
  return { section: text.slice(0, at), params: new URLSearchParams(text.slice(at + 1)) };
}

export function formatHash({ section, params }: Place): string {
  const query = params.toString();
  return `#${section}${query === '' ? '' : `?${query}`}`;
}
