// Threads of the browser's workers, as the operating system sees them (Linux).

import { readFileSync, readdirSync } from 'node:fs';

/** What the browser calls the thread of a worker; the system cuts names to 15 characters. */
const NAME = 'DedicatedWorker';

/** Of a tick of the system's clock, which counts the time of threads. */
const TICK_MS = 10;

/** `PID/TID` of each worker's thread in the browsers that this process has started. */
export function workerThreads(): string[] {
  const parents = new Map<number, number>();
  const pids = readdirSync('/proc').map(Number).filter(Number.isInteger);
  for (const pid of pids) parents.set(pid, Number(field(`/proc/${pid}/stat`, 4) ?? 0));
  const isOurs = (pid: number): boolean => {
    for (let at = pid; at > 1; at = parents.get(at) ?? 0) if (at === process.pid) return true;
    return false;
  };
  return pids.filter(isOurs).flatMap((pid) => {
    const isWorker = (tid: string): boolean =>
      text(`/proc/${pid}/task/${tid}/comm`)?.trim() === NAME;
    return list(`/proc/${pid}/task`).filter(isWorker).map((tid) => `${pid}/${tid}`);
  });
}

/** Time that these threads have computed so far, milliseconds. */
export function cpuMs(threads: readonly string[]): number {
  const ticks = (thread: string): number => {
    const [pid, tid] = thread.split('/');
    const file = `/proc/${pid}/task/${tid}/stat`;
    return Number(field(file, 14) ?? 0) + Number(field(file, 15) ?? 0);
  };
  return threads.reduce((sum, thread) => sum + ticks(thread), 0) * TICK_MS;
}

/** A field of a `stat` file, counted from 1; names in it may hold blanks and brackets. */
function field(file: string, number: number): string | undefined {
  const all = text(file);
  return all?.slice(all.lastIndexOf(')') + 2).split(' ')[number - 3];
}

/** Processes and threads end while they are looked at. */
function text(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
