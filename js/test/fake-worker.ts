// Runs the worker's side in this thread, behind the interface of `Worker` and with the same
// cloning of messages, so that the whole face can be driven under node.

import { serve } from '../serve.js';
import type { EngineModule } from '../engines.js';
import type { FromWorker, ToWorker } from '../protocol.js';

export class FakeWorker {
  static module: EngineModule | undefined;
  /** What `engine-relaxed.js` exports, where the browser can run it. */
  static relaxed: EngineModule | undefined;
  /** What `compat.js` exports. */
  static compat: EngineModule | undefined;
  static started: FakeWorker[] = [];

  onmessage: ((event: { data: FromWorker }) => void) | null = null;
  onmessageerror: (() => void) | null = null;
  onerror: ((event: { message: string; preventDefault(): void }) => void) | null = null;
  readonly sent: ToWorker[] = [];
  readonly url: string;
  terminated = false;
  readonly #page: MessagePort;
  readonly #worker: MessagePort;

  constructor(url: string | URL) {
    this.url = String(url);
    const { port1, port2 } = new MessageChannel();
    this.#page = port1;
    this.#worker = port2;
    port1.onmessage = (event) => this.onmessage?.({ data: event.data as FromWorker });
    const { module } = FakeWorker;
    if (module === undefined) throw new DOMException('no worker here', 'SecurityError');
    serve(
      {
        postMessage: (message) => {
          if (!this.terminated) port2.postMessage(message);
        },
        addEventListener: (_type, listener) => {
          port2.onmessage = (event) => {
            if (!this.terminated) listener({ data: event.data as ToWorker });
          };
        },
      },
      {
        engine: async () => module,
        relaxed: FakeWorker.relaxed && (async () => FakeWorker.relaxed ?? module),
        compat: async () => FakeWorker.compat ?? module,
      },
    );
    FakeWorker.started.push(this);
  }

  postMessage(message: ToWorker): void {
    this.sent.push(message);
    this.#page.postMessage(message);
  }

  terminate(): void {
    this.terminated = true;
    this.#page.close();
    this.#worker.close();
  }

  /** What a browser does when an exception in the worker is caught by nobody. */
  fail(message: string): void {
    this.onerror?.({ message, preventDefault: () => undefined });
  }
}

/** Installs the fake for `load()`; call the result to take it away. */
export function installWorker(module: EngineModule): () => void {
  const scope = globalThis as { Worker?: unknown };
  const before = scope.Worker;
  FakeWorker.module = module;
  FakeWorker.started = [];
  scope.Worker = FakeWorker;
  return () => {
    for (const worker of FakeWorker.started) worker.terminate();
    scope.Worker = before;
    FakeWorker.compat = undefined;
    FakeWorker.relaxed = undefined;
  };
}
