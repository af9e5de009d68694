import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  DEFAULTS, generateOptions, loadOptions, parseNumber, readSettings, settingsFromJson,
  storeSettings,
} from '../shared/settings.js';

test('takes the defaults where nothing, rubbish or another shape is stored', () => {
  for (const json of [null, '', '{', '7', '"x"', 'null', '[]', '{}']) {
    assert.deepEqual(settingsFromJson(json), DEFAULTS, String(json));
  }
});

test('keeps stored values that are within their limits and no others', () => {
  const stored = {
    temperature: 0, topK: 2.5, topP: 7, minP: '0.1', maxTokens: null, seed: 42, precision: 'exact',
    contextLength: 1, systemPrompt: 'Be kind.', unknown: true,
  };
  assert.deepEqual(settingsFromJson(JSON.stringify(stored)), {
    ...DEFAULTS, temperature: 0, maxTokens: null, seed: 42, precision: 'exact',
    systemPrompt: 'Be kind.',
  });
  assert.equal(settingsFromJson('{"precision":"double"}').precision, 'auto');
  assert.equal(settingsFromJson('{"backend":"tpu"}').backend, 'auto');
  assert.equal(settingsFromJson('{"backend":"webgpu"}').backend, 'webgpu');
  assert.equal(settingsFromJson('{"temperature":null}').temperature, DEFAULTS.temperature);
});

test('settings survive a round through their stored form', () => {
  const settings = { ...DEFAULTS, temperature: 0.3, seed: 4_294_967_295, contextLength: 2048 };
  assert.deepEqual(settingsFromJson(JSON.stringify(settings)), settings);
});

test('works without storage', () => {
  // Node 20 has no localStorage, as a browser that refuses it throws.
  assert.doesNotThrow(() => storeSettings({ ...DEFAULTS }));
  assert.deepEqual(readSettings(), DEFAULTS);
});

test('parses numbers with their limits in the complaint', () => {
  assert.deepEqual(parseNumber('temperature', ' 0,7 '), { value: 0.7 });
  assert.deepEqual(parseNumber('seed', ''), { value: null });
  assert.deepEqual(parseNumber('topK', ''), { problem: 'Top-k needs a number.' });
  assert.deepEqual(parseNumber('topK', '1.5'), {
    problem: 'Top-k is a whole number from 0 to 100,000.',
  });
  for (const text of ['-1', '6', 'NaN', 'Infinity', 'warm', '1e9']) {
    assert.ok('problem' in parseNumber('temperature', text), text);
  }
});

test('passes on only what was set', () => {
  assert.deepEqual(generateOptions({ ...DEFAULTS, maxTokens: null }), {
    temperature: 0.8, topK: 40, topP: 0.95, minP: 0,
  });
  assert.equal(generateOptions({ ...DEFAULTS, seed: 0 }).seed, 0);
  assert.deepEqual(loadOptions(DEFAULTS), { backend: 'auto', precision: 'auto' });
  assert.deepEqual(loadOptions({ ...DEFAULTS, contextLength: 512 }), {
    backend: 'auto', precision: 'auto', contextLength: 512,
  });
});
