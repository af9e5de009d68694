// The browser's private file system, as far as the store needs it: folders of small flat files.
// Written against these interfaces, the rest of the store runs on a plain fake in tests.

/** A file open for reading and writing in this thread. */
export interface SyncFile {
  read(into: Uint8Array, options: { at: number }): number;
  /** How much was written, which may be less where storage is full. */
  write(bytes: Uint8Array, options: { at: number }): number;
  truncate(bytes: number): void;
  /** Returns once what was written survives a crash. */
  flush(): void;
  getSize(): number;
  close(): void;
}

/** The files of one model's file. */
export interface Folder {
  /** Opens a file, which is made where there is none. Nobody else can have it open. */
  open(name: string): Promise<SyncFile>;
  /** A file as it is now; `undefined` where there is none. */
  blob(name: string): Promise<Blob | undefined>;
  /**
   * The first bytes of a file that nobody has open for writing, as many as fit; how many there
   * are, `undefined` where there is no file.
   */
  read(name: string, into: Uint8Array): Promise<number | undefined>;
  remove(name: string): Promise<void>;
  names(): Promise<string[]>;
}

/** All folders. */
export interface Root {
  /** Makes it where there is none. */
  folder(key: string): Promise<Folder>;
  /** `undefined` where there is none. */
  existing(key: string): Promise<Folder | undefined>;
  keys(): Promise<string[]>;
  remove(key: string): Promise<void>;
}

/** Where models are kept in the origin's private file system. */
const PATH = ['tokenbrook', 'models'] as const;

/** A worker that was ended gives its files back a moment after its lock. */
const OPEN_TRIES = 60;
const OPEN_WAIT_MS = 50;

/** The handles of workers, which TypeScript's library for pages does not have. */
interface FileHandle extends FileSystemFileHandle {
  createSyncAccessHandle(options?: { mode: 'read-only' }): Promise<SyncFile>;
}

/** Whether several tabs can have a file open at a time, each for reading. */
export function canShareReading(): boolean {
  const { FileSystemSyncAccessHandle: handle } = globalThis as {
    FileSystemSyncAccessHandle?: { prototype: object };
  };
  return handle !== undefined && 'mode' in handle.prototype;
}

/**
 * The folders of this origin.
 *
 * Rejects where there is no private file system, as in some browsers' private windows.
 */
export async function openRoot(): Promise<Root> {
  let folder = await navigator.storage.getDirectory();
  for (const name of PATH) folder = await folder.getDirectoryHandle(name, { create: true });
  return new OpfsRoot(folder);
}

class OpfsRoot implements Root {
  readonly #directory: FileSystemDirectoryHandle;

  constructor(directory: FileSystemDirectoryHandle) {
    this.#directory = directory;
  }

  async folder(key: string): Promise<Folder> {
    return new OpfsFolder(await this.#directory.getDirectoryHandle(key, { create: true }));
  }

  async existing(key: string): Promise<Folder | undefined> {
    const found = await orMissing(this.#directory.getDirectoryHandle(key));
    return found === undefined ? undefined : new OpfsFolder(found);
  }

  async keys(): Promise<string[]> {
    const keys: string[] = [];
    for await (const [name, { kind }] of this.#directory.entries()) {
      if (kind === 'directory') keys.push(name);
    }
    return keys;
  }

  async remove(key: string): Promise<void> {
    await retried(() => orMissing(this.#directory.removeEntry(key, { recursive: true })));
  }
}

class OpfsFolder implements Folder {
  readonly #directory: FileSystemDirectoryHandle;

  constructor(directory: FileSystemDirectoryHandle) {
    this.#directory = directory;
  }

  async open(name: string): Promise<SyncFile> {
    const handle = await this.#directory.getFileHandle(name, { create: true });
    return retried(() => (handle as FileHandle).createSyncAccessHandle());
  }

  async blob(name: string): Promise<Blob | undefined> {
    const handle = await orMissing(this.#directory.getFileHandle(name));
    return handle === undefined ? undefined : orMissing(handle.getFile());
  }

  /** Straight from the file where that is possible: ten times as fast as by way of a Blob. */
  async read(name: string, into: Uint8Array): Promise<number | undefined> {
    const handle = await orMissing(this.#directory.getFileHandle(name));
    if (handle === undefined) return undefined;
    const file = canShareReading()
      ? await (handle as FileHandle).createSyncAccessHandle({ mode: 'read-only' }).catch(() => null)
      : null;
    if (file === null) return readBlob(await orMissing(handle.getFile()), into);
    try {
      return file.read(into, { at: 0 });
    } finally {
      file.close();
    }
  }

  async remove(name: string): Promise<void> {
    await retried(() => orMissing(this.#directory.removeEntry(name)));
  }

  async names(): Promise<string[]> {
    const names: string[] = [];
    for await (const name of this.#directory.keys()) names.push(name);
    return names;
  }
}

async function readBlob(blob: Blob | undefined, into: Uint8Array): Promise<number | undefined> {
  if (blob === undefined) return undefined;
  const bytes = new Uint8Array(await blob.slice(0, into.byteLength).arrayBuffer());
  into.set(bytes);
  return bytes.byteLength;
}

async function orMissing<T>(promise: Promise<T>): Promise<T | undefined> {
  try {
    return await promise;
  } catch (error) {
    if (nameOf(error) === 'NotFoundError') return undefined;
    throw error;
  }
}

async function retried<T>(attempt: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await attempt();
    } catch (error) {
      const isTaken = nameOf(error) === 'NoModificationAllowedError';
      if (!isTaken || tries === OPEN_TRIES) throw error;
      await new Promise((resume) => setTimeout(resume, OPEN_WAIT_MS));
    }
  }
}

/** The name of what was thrown, which tells one failure of storage from another. */
export function nameOf(error: unknown): string | undefined {
  return typeof error === 'object' && error !== null && 'name' in error
    ? String(error.name)
    : undefined;
}
