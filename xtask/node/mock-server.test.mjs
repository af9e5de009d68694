import assert from 'node:assert/strict';
import { get } from 'node:http';
import test from 'node:test';
import { serveMock } from './mock-server.mjs';

const later = (ms) => new Promise((resume) => setTimeout(resume, ms));

/** A host that answers with one body; what it was asked is kept. */
function hostOf(source, init = {}) {
  const asked = [];
  return {
    asked,
    async respond(request, signal) {
      asked.push({ request, signal });
      return new Response(source && new ReadableStream(source, { highWaterMark: 0 }), init);
    },
  };
}

async function serving(host, use) {
  const server = await serveMock(host, 0);
  try {
    await use(server.url);
  } finally {
    await server.close();
  }
}

test('the head leaves before the first byte of the body', async () => {
  let give;
  const source = {
    pull: (controller) =>
      new Promise((done) => {
        give = () => {
          controller.enqueue(new TextEncoder().encode('late'));
          controller.close();
          done();
        };
      }),
  };
  const host = hostOf(source, { status: 201, headers: { 'x-reply-id': 'r1' } });
  await serving(host, async (url) => {
    const response = await fetch(`${url}lab/stream?a=b`, { method: 'POST', body: '{"x":1}' });
    assert.equal(response.status, 201);
    assert.equal(response.headers.get('x-reply-id'), 'r1');
    assert.equal(response.headers.get('access-control-allow-origin'), '*');
    give();
    assert.equal(await response.text(), 'late');
    const [{ request }] = host.asked;
    assert.equal(request.url.searchParams.get('a'), 'b');
    assert.equal(new TextDecoder().decode(request.body), '{"x":1}');
  });
});

test('a reader that leaves aborts the request', async () => {
  let cancelled = 0;
  const source = {
    pull: (controller) => later(5).then(() => controller.enqueue(new Uint8Array(10))),
    cancel: () => {
      cancelled += 1;
    },
  };
  const host = hostOf(source);
  await serving(host, async (url) => {
    const leave = new AbortController();
    const response = await fetch(url, { signal: leave.signal });
    await response.body.getReader().read();
    assert.equal(host.asked[0].signal.aborted, false);
    leave.abort();
    while (!host.asked[0].signal.aborted || cancelled === 0) await later(5);
    assert.equal(cancelled, 1);
  });
});

test('a body that breaks breaks the connection', async () => {
  const source = {
    pull(controller) {
      if (this.given) throw new TypeError('broken');
      this.given = true;
      controller.enqueue(new Uint8Array(3));
    },
  };
  await serving(hostOf(source), async (url) => {
    const response = await fetch(url);
    await assert.rejects(response.arrayBuffer());
  });
});

test('a reader that does not read stops the pulls, and no listener is left', async () => {
  let pulls = 0;
  const source = {
    pull: (controller) => {
      pulls += 1;
      controller.enqueue(new Uint8Array(256 * 1024));
      if (pulls === 400) controller.close();
    },
  };
  await serving(hostOf(source), async (url) => {
    const stopped = await new Promise((done) => {
      const request = get(url, (response) => {
        response.pause();
        setTimeout(() => {
          const before = pulls;
          response.resume();
          response.on('end', () => done(before));
          request.on('error', () => done(before));
        }, 300);
      });
    });
    assert.ok(stopped < 200, `${stopped} pulls without a reader`);
    assert.equal(pulls, 400);
  });
});

test('preflights and empty answers have no body', async () => {
  await serving(hostOf(null, { status: 204 }), async (url) => {
    const options = await fetch(url, { method: 'OPTIONS' });
    assert.equal(options.status, 204);
    assert.equal(options.headers.get('access-control-allow-methods'), 'GET, POST');
    assert.equal((await fetch(url)).status, 204);
  });
});
