// The same checks of the entries over the small module in a page, a worker and a service worker; what they find
// goes back through the message's port.

import { createClient } from '/pkg/client.js';
import { EventStreamParser, encodeEvent, eventStream, ready } from '/pkg/sse.js';

export async function check() {
  // No `await ready` before this one: streams wait by themselves.
  const cut = new ReadableStream({
    start(controller) {
      const bytes = new TextEncoder().encode('id: 7\r\ndata: é😀\r\n\r\ndata: [DONE]\r\r');
      for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
      controller.close();
    },
  });
  const streamed = [];
  const reader = cut.pipeThrough(eventStream()).getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    streamed.push(read.value);
  }
  await ready;
  const parsed = [];
  const parser = new EventStreamParser({ onEvent: (event) => parsed.push(event) });
  parser.push(new TextEncoder().encode(encodeEvent({ event: 'x', id: '1', data: 'a\nb' })));
  parser.end();
  const local = { name: 'local', fetch: async () => new Response('{"choices":[]}') };
  const client = createClient({ providers: [local] });
  const answer = await (await client.fetch('http://local/v1/models')).text();
  return { scope: globalThis.constructor.name, streamed, parsed, answer };
}

globalThis.addEventListener('message', ({ data, ports }) => {
  if (data !== 'check') return;
  check().then(
    (found) => ports[0].postMessage(found),
    (error) => ports[0].postMessage(String(error)),
  );
});
