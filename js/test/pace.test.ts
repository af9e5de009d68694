// What is told seldom, on a clock that the test moves.

import { expect, test } from '@playwright/test';

import { Pace } from '../pace.js';
import type { Timers } from '../timers.js';

interface Alarm {
  ms: number;
  call: () => void;
}

class Clock implements Timers {
  #nowMs = 1000;
  #alarms: Alarm[] = [];

  nowMs(): number {
    return this.#nowMs;
  }

  at(ms: number, call: () => void): () => void {
    const alarm = { ms, call };
    this.#alarms.push(alarm);
    return () => {
      this.#alarms = this.#alarms.filter((other) => other !== alarm);
    };
  }

  pass(ms: number): void {
    this.#nowMs += ms;
    const due = this.#alarms.filter((alarm) => alarm.ms <= this.#nowMs);
    this.#alarms = this.#alarms.filter((alarm) => alarm.ms > this.#nowMs);
    for (const { call } of due) call();
  }

  get waiting(): number {
    return this.#alarms.length;
  }
}

function start(): { clock: Clock; told: number[]; pace: Pace } {
  const clock = new Clock();
  const told: number[] = [];
  const pace = new Pace(50, () => told.push(clock.nowMs()), clock);
  return { clock, told, pace };
}

test('the first is told at once, those behind it together, at the end of the interval', () => {
  const { clock, told, pace } = start();
  pace.soon();
  for (let i = 0; i < 4; i += 1) {
    clock.pass(10);
    pace.soon();
  }
  expect(told).toEqual([1000]);
  clock.pass(10);
  expect(told).toEqual([1000, 1050]);
  clock.pass(500);
  expect(told).toEqual([1000, 1050]);
  pace.soon();
  expect(told).toEqual([1000, 1050, 1550]);
});

test('what is told at once takes the place of what waits', () => {
  const { clock, told, pace } = start();
  pace.now();
  clock.pass(20);
  pace.soon();
  pace.now();
  expect(told).toEqual([1000, 1020]);
  expect(clock.waiting).toBe(0);
  clock.pass(49);
  pace.soon();
  clock.pass(1);
  expect(told).toEqual([1000, 1020, 1070]);
});

test('after the end, what waits is dropped', () => {
  const { clock, told, pace } = start();
  pace.now();
  pace.soon();
  pace.end();
  clock.pass(100);
  expect(told).toEqual([1000]);
});
