import { expect, test } from '@playwright/test';

import { Engines } from '../engines.js';
import type { EngineModules } from '../engines.js';
import type { HelperReply } from '../helper.js';
import type { LoaderClass } from '../loader.js';
import type { EngineSettings, LoadMessage } from '../protocol.js';

/** The smallest module there is. */
const WASM_URL = 'data:application/wasm;base64,AGFzbQEAAAA=';

const named = (name: string): LoaderClass => ({ name }) as unknown as LoaderClass;
const nothing = async (): Promise<void> => undefined;

/** A helper that answers as it is told, and remembers whether it was ended. */
class FakeHelper {
  static reply: HelperReply = { type: 'enlisted' };
  static all: FakeHelper[] = [];
  onmessage: ((event: { data: HelperReply }) => void) | undefined;
  isEnded = false;

  constructor() {
    FakeHelper.all.push(this);
  }

  postMessage(): void {
    queueMicrotask(() => this.onmessage?.({ data: FakeHelper.reply }));
  }

  terminate(): void {
    this.isEnded = true;
  }
}

/** What `settleThreads` was asked for. */
let settled: (number | undefined)[];
let before: unknown;

test.beforeEach(() => {
  const scope = globalThis as { Worker?: unknown };
  before = scope.Worker;
  scope.Worker = FakeHelper;
  FakeHelper.all = [];
  FakeHelper.reply = { type: 'enlisted' };
  settled = [];
});

test.afterEach(() => {
  (globalThis as { Worker?: unknown }).Worker = before;
});

function engines(settings: EngineSettings, modules: Partial<EngineModules> = {}): Engines {
  const data = { wasmUrl: WASM_URL, threadsWasmUrl: WASM_URL, compatWasmUrl: WASM_URL, settings };
  const threads = async () => ({
    default: nothing,
    Loader: named('threads'),
    settleThreads: (count?: number) => settled.push(count),
    sharedMemory: () => new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }),
  });
  return new Engines(data as LoadMessage, {
    engine: async () => ({ default: nothing, Loader: named('plain') }),
    compat: async () => ({ default: nothing, Loader: named('compat') }),
    threads,
    ...modules,
  });
}

/** Which of the fake engines it is. */
async function nameOf(engine: Promise<unknown>): Promise<string> {
  return ((await engine) as { name: string }).name;
}

test('the CPU gets the threads that are asked for, one of them the caller', async () => {
  const given = engines({ backend: 'cpu', threads: 3 });
  expect(await nameOf(given.first())).toBe('threads');
  expect(FakeHelper.all).toHaveLength(2);
  expect(settled).toEqual([3]);
  expect(given.threadsReason).toBe('asked for');
});

test('one thread that is asked for starts none, and fetches no engine for it', async () => {
  const given = engines({ backend: 'cpu', threads: 1 }, {
    threads: () => Promise.reject(new Error('not to be asked for')),
  });
  expect(await nameOf(given.first())).toBe('plain');
  expect(FakeHelper.all).toEqual([]);
  expect(given.threadsReason).toBe('asked for');
});

test('why there can be no threads is told', async () => {
  const given = engines({ backend: 'cpu', threads: 2 }, { threads: 'it is too hot' });
  expect(await nameOf(given.first())).toBe('plain');
  expect(given.threadsReason).toBe('it is too hot');
});

test('a helper that does not start ends the others and leaves one thread', async () => {
  FakeHelper.reply = { type: 'failed', message: 'no room' };
  const given = engines({ backend: 'cpu', threads: 3 });
  expect(await nameOf(given.first())).toBe('plain');
  expect(FakeHelper.all.map(({ isEnded }) => isEnded)).toEqual([true, true]);
  expect(given.threadsReason).toContain('no room');
});

test('kernels with other bits than plain code leave one thread', async () => {
  const given = engines({ backend: 'cpu', threads: 2 });
  expect(await nameOf(given.first())).toBe('threads');
  expect(await nameOf(given.plain(['Q4_1']))).toBe('plain');
  expect(given.threadsReason).toContain('Q4_1');
  expect(settled).toEqual([2, 1]);
});

test('where a GPU may compute, threads wait until the CPU is chosen', async () => {
  const given = engines({ backend: 'webgpu', threads: 2 });
  expect(await nameOf(given.first())).toBe('plain');
  expect(given.threadsReason).toBe('the GPU computes');
  expect(await nameOf(given.onCpu())).toBe('threads');
  expect(given.threadsReason).toBe('asked for');
});
