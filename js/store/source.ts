// What a file is called in storage, and what its address gives away about it.

import type { Target } from './http.js';

const HEX = /^[0-9a-f]{64}$/;

/** Longest LFS pointer that is read; they have some 130 bytes. */
const MAX_POINTER_BYTES = 1024;

/** The name of a file's folder. It does not tell the address, which may hold secrets. */
export async function keyOf(address: string): Promise<string> {
  const url = new URL(address);
  url.hash = '';
  url.username = '';
  url.password = '';
  const bytes = new TextEncoder().encode(url.href);
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest.subarray(0, 16), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** `hf:owner/repo/folders/file@revision` as an address; anything else as it is. */
export function expandShorthand(address: string): string {
  if (!address.startsWith('hf:')) return address;
  const [path = '', revision = 'main', ...more] = address.slice('hf:'.length).split('@');
  const parts = path.split('/');
  const isWhole = parts.length >= 3 && parts.every((part) => part !== '' && part !== '..');
  if (!isWhole || revision === '' || more.length > 0) return address;
  const encoded = parts.map(encodeURIComponent);
  const [owner, repo, ...file] = encoded;
  return (
    `https://huggingface.co/${owner}/${repo}/resolve/` +
    `${encodeURIComponent(revision)}/${file.join('/')}`
  );
}

const SPLIT = /-(\d{5})-of-(\d{5})(\.gguf)$/;

/** More files than a model is ever split into. */
const MAX_FILES = 1000;

/** All files of a split GGUF, found from the name of the first; else just this one. */
export function expandSplit(address: string): string[] {
  const url = new URL(address);
  const found = SPLIT.exec(url.pathname);
  const [first, count] = [Number(found?.[1]), Number(found?.[2])];
  if (found === null || first !== 1 || count < 2 || count > MAX_FILES) return [address];
  return Array.from({ length: count }, (_, index) => {
    const name = `-${String(index + 1).padStart(5, '0')}-of-${found[2]}${found[3]}`;
    const sibling = new URL(url);
    sibling.pathname = url.pathname.replace(SPLIT, name);
    return sibling.href;
  });
}

/**
 * The SHA-256 of a file on Hugging Face, which tells it under `/raw/` of what is kept in LFS;
 * `null` for files elsewhere, or where nothing can be learnt.
 */
export async function findSha256(target: Target): Promise<string | null> {
  const url = new URL(target.url);
  const found = /^\/([^/]+\/[^/]+)\/resolve\/(.+)$/.exec(url.pathname);
  if (url.hostname !== 'huggingface.co' || found === null) return null;
  const raw = `${url.origin}/${found[1]}/raw/${found[2]}`;
  try {
    const response = await fetch(raw, { headers: target.headers });
    const length = Number(response.headers.get('content-length') ?? 0);
    if (!response.ok || length > MAX_POINTER_BYTES) {
      response.body?.cancel().catch(() => undefined);
      return null;
    }
    return readPointer(await response.text());
  } catch {
    return null;
  }
}

/** The digest in a Git LFS pointer; `null` for anything else. */
export function readPointer(text: string): string | null {
  if (text.length > MAX_POINTER_BYTES) return null;
  if (!text.startsWith('version https://git-lfs.github.com/spec/')) return null;
  const oid = /^oid sha256:([0-9a-f]{64})$/m.exec(text)?.[1];
  return oid !== undefined && HEX.test(oid) ? oid : null;
}
