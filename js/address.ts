// What may be shown of an address.

/** An address as it may be shown: without credentials, query and fragment. */
export function publicUrl(address: string): string {
  const url = new URL(address);
  if (!url.protocol.startsWith('http')) return url.protocol;
  return `${url.protocol}//${url.host}${url.pathname}`;
}
