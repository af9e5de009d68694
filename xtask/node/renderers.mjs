// Memory of the processes that hold pages, from `/proc`; nothing elsewhere than on Linux.
import { readFileSync, readdirSync } from 'node:fs';

/** How Chromium and Firefox start such a process. */
const OF_PAGES = /--type=renderer|-contentproc.*\btab\b/;

/** Bytes in RAM now, by process. */
export function renderers() {
  const found = new Map();
  if (process.platform !== 'linux') return found;
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
      if (OF_PAGES.test(command)) found.set(pid, field(pid, 'VmRSS'));
    } catch {
      // It ended meanwhile.
    }
  }
  return found;
}

/** The process that took most between two looks. */
export function grown(before, after) {
  const growth = ([pid, bytes]) => bytes - (before.get(pid) ?? 0);
  return [...after].sort((a, b) => growth(b) - growth(a))[0]?.[0] ?? null;
}

/** The most bytes that a process ever held in RAM. */
export function peakBytes(pid) {
  if (pid === null) return null;
  try {
    return field(pid, 'VmHWM') || null;
  } catch {
    return null;
  }
}

function field(pid, name) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const kilobytes = new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1];
  return Number(kilobytes ?? 0) * 1024;
}
