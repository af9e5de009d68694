import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FrameAppender, type FrameClock } from '../shared/frame-appender.js';

/** A clock whose frames the test lets pass. */
class ManualClock implements FrameClock {
  readonly #callbacks = new Map<number, () => void>();
  #next = 0; // a browser starts at 1; 0 must work as well

  get waiting(): number {
    return this.#callbacks.size;
  }

  request(callback: () => void): number {
    this.#callbacks.set(this.#next, callback);
    return this.#next++;
  }

  cancel(handle: number): void {
    this.#callbacks.delete(handle);
  }

  frame(): void {
    const due = [...this.#callbacks.values()];
    this.#callbacks.clear();
    for (const callback of due) callback();
  }
}

function setUp() {
  const clock = new ManualClock();
  const writes: string[] = [];
  let frames = 0;
  const appender = new FrameAppender(
    { append: (text) => writes.push(text) },
    () => (frames += 1),
    clock,
  );
  return { clock, writes, appender, frames: () => frames };
}

test('writes once per frame however many tokens arrive', () => {
  const { clock, writes, appender, frames } = setUp();
  for (const text of ['a', 'b', 'c']) appender.push(text);
  assert.equal(clock.waiting, 1);
  assert.deepEqual(writes, []);
  clock.frame();
  for (const text of ['d', 'e']) appender.push(text);
  clock.frame();
  assert.deepEqual(writes, ['abc', 'de']);
  assert.equal(frames(), 2);
});

test('asks for no frame for empty text', () => {
  const { clock, writes, appender } = setUp();
  appender.push('');
  assert.equal(clock.waiting, 0);
  appender.flush();
  assert.deepEqual(writes, []);
});

test('flush writes what is pending and leaves no frame behind', () => {
  const { clock, writes, appender } = setUp();
  appender.push('end');
  appender.flush();
  assert.deepEqual(writes, ['end']);
  assert.equal(clock.waiting, 0);
  clock.frame();
  assert.deepEqual(writes, ['end']);
});

test('goes on after a flush', () => {
  const { clock, writes, appender } = setUp();
  appender.push('one');
  appender.flush();
  appender.push('two');
  clock.frame();
  assert.deepEqual(writes, ['one', 'two']);
});
