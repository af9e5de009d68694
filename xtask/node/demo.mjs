// Serves the built pages with a list of models. Usage: node demo.mjs '{ dist, model, port }'
// where `model` is `{ file }` or `{ url }` and `port` a number or null.
// The last line on stdout is the address.
import { statSync } from 'node:fs';
import { basename } from 'node:path';
import { serve } from './serve.mjs';

const USUAL_PORT = 8080;

const { dist, model, port } = JSON.parse(process.argv[2]);
const routes = { '/': dist };
if (model.file !== undefined) {
  const name = basename(model.file);
  routes[`/models/${name}`] = model.file;
  const url = `models/${encodeURIComponent(name)}`;
  list(name, `/${url}`, statSync(model.file).size);
} else {
  const { pathname } = new URL(model.url);
  list(decodeURIComponent(basename(pathname)) || model.url, model.url, null);
}

const server = await start().catch((error) => {
  const taken = error.code === 'EADDRINUSE';
  console.error(`error: ${taken ? `port ${port} is taken: choose another by --port` : error}`);
  process.exit(1);
});
console.error('Serving the pages; Ctrl-C stops.');
console.log(server.url);

/** On the port that was asked for; else on the usual one or, where that is taken, on any. */
async function start() {
  if (port !== null) return serve({ routes, port });
  return serve({ routes, port: USUAL_PORT }).catch(() => serve({ routes, port: 0 }));
}

function list(name, url, bytes) {
  routes['/models/index.json'] = { json: [{ name: name.replace(/\.gguf$/i, ''), url, bytes }] };
}
