import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Conversation, type Answer } from '../chat/conversation.js';

function answered(conversation: Conversation, question: string, text: string): Answer {
  conversation.ask(question);
  const answer = conversation.begin();
  answer.text = text;
  answer.status = 'complete';
  return answer;
}

function failed(conversation: Conversation, question: string, text: string): Answer {
  const answer = answered(conversation, question, text);
  answer.status = 'incomplete';
  answer.failure = { code: 'internal', message: 'The engine stopped.' };
  return answer;
}

test('sends the system prompt first and only when there is one', () => {
  const conversation = new Conversation();
  conversation.ask('Hi');
  assert.deepEqual(conversation.messages('Be brief.'), [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hi' },
  ]);
  assert.deepEqual(conversation.messages(' \n'), [{ role: 'user', content: 'Hi' }]);
});

test('sends earlier turns in order and leaves out the answer that has no text yet', () => {
  const conversation = new Conversation();
  answered(conversation, 'One?', '1');
  conversation.ask('Two?');
  conversation.begin();
  assert.deepEqual(conversation.messages(''), [
    { role: 'user', content: 'One?' },
    { role: 'assistant', content: '1' },
    { role: 'user', content: 'Two?' },
  ]);
});

test('keeps the text of a failed answer and never sends it once another attempt began', () => {
  const conversation = new Conversation();
  const first = failed(conversation, 'Why?', 'Becau');
  const second = conversation.retry(first);
  assert.equal(first.text, 'Becau');
  assert.equal(first.superseded, true);
  assert.deepEqual(conversation.messages(''), [{ role: 'user', content: 'Why?' }]);
  second.text = 'Because.';
  assert.deepEqual(conversation.messages('').at(-1), { role: 'assistant', content: 'Because.' });
});

test('sends a stopped answer as far as it came', () => {
  const conversation = new Conversation();
  answered(conversation, 'Count.', '1 2 3').status = 'stopped';
  conversation.ask('Go on.');
  assert.equal(conversation.messages('')[1]?.content, '1 2 3');
});

test('joins a question without an answer with the next one', () => {
  const conversation = new Conversation();
  failed(conversation, 'First?', '');
  conversation.ask('Second?');
  assert.deepEqual(conversation.messages(''), [{ role: 'user', content: 'First?\n\nSecond?' }]);
});

test('joining questions leaves the turns themselves unchanged', () => {
  const conversation = new Conversation();
  failed(conversation, 'First?', '');
  conversation.ask('Second?');
  conversation.messages('');
  conversation.messages('');
  assert.deepEqual(conversation.turns.map((turn) => turn.text), ['First?', '', 'Second?']);
});

test('refuses to retry a complete answer and one that is not the last', () => {
  const conversation = new Conversation();
  const complete = answered(conversation, 'One?', '1');
  assert.throws(() => conversation.retry(complete), /incomplete/);
  const broken = failed(conversation, 'Two?', '');
  assert.equal(conversation.canRetry(broken), true);
  conversation.ask('Three?');
  assert.throws(() => conversation.retry(broken), /last/);
  assert.equal(broken.superseded, false);
});

test('exports every attempt with its status, figures and error', () => {
  const conversation = new Conversation();
  conversation.retry(failed(conversation, 'Why?', 'Be'));
  const saved = conversation.export({ exportedAt: 'now', model: { name: 'm' }, settings: {} });
  assert.deepEqual(JSON.parse(JSON.stringify(saved)), {
    format: 'tokenbrook-conversation',
    version: 1,
    exportedAt: 'now',
    model: { name: 'm' },
    settings: {},
    messages: [
      { role: 'user', content: 'Why?' },
      {
        role: 'assistant', content: 'Be', status: 'incomplete', superseded: true, stats: null,
        error: { code: 'internal', message: 'The engine stopped.' },
      },
      {
        role: 'assistant', content: '', status: 'streaming', superseded: false, stats: null,
        error: null,
      },
    ],
  });
});
