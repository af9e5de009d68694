// What loads found out about GPUs, kept in the origin's IndexedDB, so that later loads need not
// find it again. Where there is no database (private windows, sandboxes), every load looks anew.

import type { GpuReport } from './types.js';

const DATABASE = 'tokenbrook';
const STORE = 'gpu-reports';

/** More than one browser has adapters and models at a time. */
const MOST_REPORTS = 16;

/** All that are kept, the newest first; none where nothing can be read. */
export async function readReports(): Promise<GpuReport[]> {
  try {
    return await inStore('readonly', async (store) => {
      const kept = (await settled(store.getAll())) as { report: GpuReport; atMs: number }[];
      kept.sort((a, b) => b.atMs - a.atMs);
      return kept.map(({ report }) => report);
    });
  } catch {
    return [];
  }
}

/** Keeps a report in place of an older one with its key. */
export async function keepReport(
  found: GpuReport & { isKnown?: boolean; profile?: unknown },
): Promise<void> {
  const { isKnown: _, profile: __, ...report } = found;
  try {
    await inStore('readwrite', async (store) => {
      await settled(store.put({ report, atMs: Date.now() }, report.key));
      const keys = await settled(store.getAllKeys());
      const kept = (await settled(store.getAll())) as { atMs: number }[];
      const byAge = keys.map((key, i) => ({ key, atMs: kept[i]?.atMs ?? 0 }));
      byAge.sort((a, b) => b.atMs - a.atMs);
      for (const { key } of byAge.slice(MOST_REPORTS)) store.delete(key);
    });
  } catch {
    // The next load looks again.
  }
}

async function inStore<T>(
  mode: IDBTransactionMode,
  work: (store: IDBObjectStore) => Promise<T>,
): Promise<T> {
  const opening = indexedDB.open(DATABASE, 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
  const database = await settled(opening);
  try {
    return await work(database.transaction(STORE, mode).objectStore(STORE));
  } finally {
    database.close();
  }
}

function settled<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error('the database failed'));
  });
}
