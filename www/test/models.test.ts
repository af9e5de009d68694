import assert from 'node:assert/strict';
import { test } from 'node:test';
import { choiceFromFiles, choiceFromUrl, parseModelList } from '../shared/models.js';

const LIST = 'https://host/app/models/index.json';

test('resolves listed models against the list and leaves out malformed entries', () => {
  const json = [
    { name: 'A', url: 'a.gguf', bytes: 5 },
    { name: 'B', url: 'https://other/b.gguf' },
    { name: 'C', url: 'c.gguf', bytes: -1 },
    { name: '', url: 'd.gguf' },
    { name: 'E' },
    { name: 'F', url: 'https://[' },
    null,
    'a.gguf',
  ];
  assert.deepEqual(parseModelList(json, LIST), [
    { name: 'A', source: 'https://host/app/models/a.gguf', bytes: 5 },
    { name: 'B', source: 'https://other/b.gguf', bytes: null },
    { name: 'C', source: 'https://host/app/models/c.gguf', bytes: null },
  ]);
});

test('has no models where the list is no array', () => {
  for (const json of [null, {}, 'x', 3]) assert.deepEqual(parseModelList(json, LIST), []);
});

test('takes absolute and relative addresses and refuses the rest', () => {
  assert.deepEqual(choiceFromUrl(' models/a.gguf ', 'https://host/app/'), {
    name: 'a', source: 'https://host/app/models/a.gguf', bytes: null,
  });
  assert.equal(choiceFromUrl('https://h/b.gguf', 'https://host/')?.source, 'https://h/b.gguf');
  assert.equal(choiceFromUrl('  ', 'https://host/'), null);
  assert.equal(choiceFromUrl('https://', 'https://host/'), null);
});

test('takes one file as it is and the parts of a split file in the order of their names', () => {
  const part = (name: string, text: string) => new File([text], name);
  const one = part('100%.gguf', 'abc');
  assert.deepEqual(choiceFromFiles([one]), { name: '100%', source: one, bytes: 3 });
  const second = part('m-00002-of-00002.gguf', 'bb');
  const first = part('m-00001-of-00002.gguf', 'a');
  assert.deepEqual(choiceFromFiles([second, first]), {
    name: 'm-00001-of-00002', source: [first, second], bytes: 3,
  });
  assert.equal(choiceFromFiles([]), null);
});
