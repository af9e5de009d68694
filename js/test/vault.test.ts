import { createHash } from 'node:crypto';
import { expect, test } from '@playwright/test';

import { decodeJournal, encodeJournal, readJournal } from '../store/journal.js';
import { segmentLength, segmentName } from '../store/journal.js';
import type { Journal } from '../store/journal.js';
import { DIGEST_PIECE_BYTES, segmentDigest } from '../store/digest.js';
import { Vault } from '../store/vault.js';
import { Crash, FakeRoot, modelBytes } from './fake-storage.js';
import type { FakeFolder, Survival } from './fake-storage.js';

const IDENTITY = { source: 'http://h/m', url: 'http://h/m', part: 0, parts: 1 };

/** One whole segment, and a bit. */
const SEGMENT_BYTES = 10_000;
const BYTES = SEGMENT_BYTES + 1_234;
const PIECE = 3_001;
const MEASURES = { bytes: BYTES, segmentBytes: SEGMENT_BYTES };
const NEW = modelBytes(BYTES);
const OLD = modelBytes(BYTES, 2);

const version = (etag: string) => ({ bytes: BYTES, etag, lastModified: null });

const CONTENTS: Record<string, Uint8Array<ArrayBuffer>> = { '"new"': NEW, '"old"': OLD };

/** Goes on with a file wherever it is, committing after each piece, up to its verification. */
async function fill(root: FakeRoot, etag: string): Promise<void> {
  const vault = await Vault.open(await root.folder('k'), IDENTITY, SEGMENT_BYTES);
  try {
    if (vault.journal.etag !== etag) await vault.begin(version(etag));
    const contents = CONTENTS[etag] ?? NEW;
    for (let index = 0; index < 2; index += 1) {
      const length = segmentLength(MEASURES, index);
      if (vault.isClosed(index)) continue;
      await vault.openSegment(index);
      while (vault.written(index) < length) {
        const at = index * SEGMENT_BYTES + vault.written(index);
        const end = Math.min(at + PIECE, index * SEGMENT_BYTES + length);
        vault.write(index, contents.subarray(at, end));
        vault.commit();
      }
      await vault.close(index);
    }
    expect(vault.isComplete).toBe(true);
    vault.verify(null);
  } finally {
    vault.dispose();
  }
}

test('a segment that became whole and was never closed is closed later', async () => {
  const root = new FakeRoot();
  const folder = await root.folder('k');
  const first = await Vault.open(folder, IDENTITY, SEGMENT_BYTES);
  await first.begin(version('"new"'));
  await first.openSegment(0);
  first.write(0, NEW.subarray(0, SEGMENT_BYTES));
  first.commit();
  first.dispose();
  const second = await Vault.open(folder, IDENTITY, SEGMENT_BYTES);
  expect([second.written(0), second.isClosed(0)]).toEqual([SEGMENT_BYTES, false]);
  await second.close(0);
  expect(second.journal.segments).toEqual([await segmentDigest(NEW.slice(0, SEGMENT_BYTES))]);
  second.dispose();
});

test('a digest is that of the bytes, however they came', async () => {
  const segmentBytes = 3 * DIGEST_PIECE_BYTES;
  const contents = modelBytes(2 * segmentBytes - 77, 5);
  for (const most of [segmentBytes, 2 * DIGEST_PIECE_BYTES, DIGEST_PIECE_BYTES - 1, 700_001]) {
    const vault = await Vault.open(await new FakeRoot().folder('k'), IDENTITY, segmentBytes);
    await vault.begin({ ...version('"new"'), bytes: contents.byteLength });
    for (const index of [0, 1]) {
      const segment = contents.subarray(index * segmentBytes, (index + 1) * segmentBytes);
      await vault.openSegment(index);
      for (let at = 0; at < segment.byteLength; at += most) {
        // As it would lie in a buffer that is used again.
        const piece = segment.slice(at, at + most);
        vault.write(index, piece);
        piece.fill(0);
      }
      await vault.close(index);
      expect(vault.journal.segments[index]).toBe(digestByNode(segment));
    }
    vault.dispose();
  }
});

/** Of more than one piece. */
function digestByNode(segment: Uint8Array): string {
  const sha256 = (bytes: Uint8Array): Buffer => createHash('sha256').update(bytes).digest();
  const pieces: Buffer[] = [];
  for (let at = 0; at < segment.byteLength; at += DIGEST_PIECE_BYTES) {
    pieces.push(sha256(segment.subarray(at, at + DIGEST_PIECE_BYTES)));
  }
  return sha256(Buffer.concat(pieces)).toString('hex');
}

test('a segment of bytes that were forgotten meanwhile is not closed', async () => {
  const root = new FakeRoot();
  const vault = await Vault.open(await root.folder('k'), IDENTITY, SEGMENT_BYTES);
  await vault.begin(version('"old"'));
  await vault.openSegment(0);
  vault.write(0, OLD.subarray(0, SEGMENT_BYTES));
  const beginning = vault.begin(version('"new"'));
  const closing = vault.close(0);
  await Promise.all([beginning, closing]);
  expect(vault.journal).toMatchObject({ etag: '"new"', segments: [] });
  vault.dispose();
});

/** Bytes that the journal promises are in the files, whatever version it speaks of. */
async function checkPromises(root: FakeRoot): Promise<Journal | undefined> {
  const folder = await root.folder('k');
  const found = await readJournal(folder);
  if (found === undefined) return undefined;
  const vault = await Vault.open(folder, IDENTITY, SEGMENT_BYTES);
  const { journal } = vault;
  vault.dispose();
  const contents = CONTENTS[journal.etag ?? ''];
  for (const [index, segment] of journal.segments.entries()) {
    if (segment === 0) continue;
    const blob = await folder.blob(segmentName(journal.generation, index));
    const length = typeof segment === 'string' ? segmentLength(MEASURES, index) : segment;
    const kept = new Uint8Array((await blob?.slice(0, length).arrayBuffer()) ?? []);
    const start = index * SEGMENT_BYTES;
    const promised = contents?.subarray(start, start + length) ?? new Uint8Array();
    expect(Buffer.compare(kept, promised)).toBe(0);
    if (typeof segment === 'string') expect(await segmentDigest(kept)).toBe(segment);
  }
  return journal;
}

/** A folder with the older version, whole or in part. */
async function withOld(operations: number): Promise<FakeRoot> {
  const root = new FakeRoot();
  root.operationsLeft = operations;
  await fill(root, '"old"').catch(() => undefined);
  root.operationsLeft = Number.POSITIVE_INFINITY;
  return root.crashed('everything');
}

function damageJournal(folder: FakeFolder, sequence: number | undefined): void {
  const data = folder.files.get(`journal-${(sequence ?? 0) % 2}`);
  if (data === undefined) throw new Error('there is no such journal');
  data.current = data.current.slice();
  data.current[40] = (data.current[40] ?? 0) ^ 1;
}

for (const survival of ['nothing', 'everything', 'half'] as Survival[]) {
  for (const [what, oldOperations] of [
    ['nothing is there', 0],
    ['an older version is there in part', 14],
    ['an older version is there', 1000],
  ] as const) {
    test(`after a crash at any step, ${survival} of it surviving, while ${what}, no promise is broken`, async () => {
      test.setTimeout(60_000);
      const whole = await withOld(oldOperations);
      await fill(whole, '"new"');
      const { operations } = whole;
      expect(operations).toBeGreaterThan(15);
      for (let crashAt = 0; crashAt < operations; crashAt += 1) {
        const before = await withOld(oldOperations);
        before.operationsLeft = crashAt;
        const outcome = await fill(before, '"new"').catch((error: unknown) => error);
        expect(outcome).toBeInstanceOf(Crash);
        const after = before.crashed(survival);
        await checkPromises(after);
        await fill(after, '"new"');
        const journal = await checkPromises(after);
        expect(journal).toMatchObject({ state: 'verified', etag: '"new"' });
      }
    });
  }
}

test('a crash costs no more than what was not committed', async () => {
  const root = new FakeRoot();
  const vault = await Vault.open(await root.folder('k'), IDENTITY, SEGMENT_BYTES);
  await vault.begin(version('"new"'));
  await vault.openSegment(0);
  vault.write(0, NEW.subarray(0, 1000));
  vault.commit();
  vault.write(0, NEW.subarray(1000, 3000));
  vault.record();
  expect(vault.receivedBytes).toBe(3000);
  expect(vault.durableBytes).toBe(1000);
  vault.dispose();
  const open = (survival: Survival) =>
    root.crashed(survival).folder('k').then((it) => Vault.open(it, IDENTITY, SEGMENT_BYTES));
  expect((await open('nothing')).written(0)).toBe(1000);
  // The tab was closed, not the machine.
  const again = await open('everything');
  expect([again.written(0), again.durableBytes]).toEqual([3000, 3000]);
});

test('a journal whose newer slot is damaged is the older one, and one without slots is none', async () => {
  const root = new FakeRoot();
  await fill(root, '"new"');
  const folder = await root.folder('k');
  const newest = await readJournal(folder);
  damageJournal(folder, newest?.sequence);
  const older = await readJournal(folder);
  expect(older?.sequence).toBe((newest?.sequence ?? 0) - 1);
  expect((await checkPromises(root))?.state).toBe('partial');
  damageJournal(folder, older?.sequence);
  expect(await readJournal(folder)).toBeUndefined();
  await fill(root, '"new"');
  expect(await checkPromises(root)).toMatchObject({ state: 'verified' });
});

test('where a new version was begun and its journal is damaged, the older is not made up of both', async () => {
  const root = await withOld(14);
  const vault = await Vault.open(await root.folder('k'), IDENTITY, SEGMENT_BYTES);
  const { durableBytes } = vault;
  expect(durableBytes).toBeGreaterThan(0);
  await vault.begin(version('"new"'));
  const folder = await root.folder('k');
  const begun = await readJournal(folder);
  await vault.openSegment(0);
  vault.write(0, NEW.subarray(0, durableBytes));
  vault.dispose();
  damageJournal(folder, begun?.sequence);
  expect((await checkPromises(root))?.etag).toBe('"old"');
});

test('segments that are gone or cut are missing again', async () => {
  const root = new FakeRoot();
  await fill(root, '"new"');
  const folder = await root.folder('k');
  const name = [...folder.files.keys()].find((it) => it.endsWith('00001.segment')) ?? '';
  const data = folder.files.get(name);
  if (data !== undefined) data.current = data.current.slice(0, 100);
  const vault = await Vault.open(folder, IDENTITY, SEGMENT_BYTES);
  expect(vault.journal.state).toBe('partial');
  expect([vault.isClosed(0), vault.isClosed(1), vault.written(1)]).toEqual([true, false, 0]);
  vault.dispose();
});

test('what is not a whole journal is none', () => {
  const journal: Journal = {
    ...IDENTITY,
    ...version('"new"'),
    generation: 1,
    segmentBytes: SEGMENT_BYTES,
    state: 'partial',
    sha256: null,
    segments: ['0'.repeat(64), 7],
    lastUsed: 1,
  };
  const bytes = encodeJournal({ sequence: 3, journal });
  expect(decodeJournal(bytes)).toEqual({ sequence: 3, journal });
  for (let cut = 0; cut < bytes.byteLength; cut += 1) {
    expect(decodeJournal(bytes.subarray(0, cut))).toBeUndefined();
    const flipped = bytes.slice();
    flipped[cut] = (flipped[cut] ?? 0) ^ 0x10;
    expect(decodeJournal(flipped)).toBeUndefined();
  }
  const wrong: Partial<Record<keyof Journal, unknown>>[] = [
    { bytes: -1 },
    { bytes: '7' },
    { state: 'done' },
    { state: 'verified', bytes: null },
    { segments: [SEGMENT_BYTES + 1] },
    { segments: ['0'] },
    { segments: [0, 0, 0] },
    { segmentBytes: 0 },
    { etag: 5 },
    { lastUsed: null },
  ];
  for (const change of wrong) {
    const altered = { ...journal, ...change } as Journal;
    expect(decodeJournal(encodeJournal({ sequence: 3, journal: altered }))).toBeUndefined();
  }
});

test('a write without room fails as storage does, and what was durable stays', async () => {
  const root = new FakeRoot();
  root.quota = 10_000;
  const vault = await Vault.open(await root.folder('k'), IDENTITY, SEGMENT_BYTES);
  await vault.begin(version('"new"'));
  await vault.openSegment(0);
  vault.write(0, NEW.subarray(0, 9_000));
  vault.commit();
  expect(() => vault.write(0, NEW.subarray(9_000, 10_000))).toThrow(
    expect.objectContaining({ name: 'QuotaExceededError' }) as Error,
  );
  vault.dispose();
  const again = await Vault.open(await root.crashed('nothing').folder('k'), IDENTITY, SEGMENT_BYTES);
  expect(again.written(0)).toBe(9_000);
});
