// Serves the mock's scenarios over real HTTP/1.1. Usage: node mock.mjs '{ pkg, port }', where
// `pkg` is the folder of the package and `port` a number or null.
// The last line on stdout is the address.
import { pathToFileURL } from 'node:url';
import { serveMock } from './mock-server.mjs';

const USUAL_PORT = 8787;

const { pkg, port } = JSON.parse(process.argv[2]);
const at = (name) => new URL(name, pathToFileURL(`${pkg}/`));
const { MockHost } = await import(at('mock-host.js'));
const { scenarios } = await import(at('scenario.js'));

const server = await start().catch((error) => {
  const taken = error.code === 'EADDRINUSE';
  console.error(`error: ${taken ? `port ${port} is taken: choose another by --port` : error}`);
  process.exit(1);
});
console.error(`Scenarios: ${Object.keys(scenarios).join(', ')}; as ?scenario=NAME, or as JSON.`);
console.error(`Try: curl -N ${server.url}lab/stream`);
console.error('Ctrl-C stops.');
console.log(server.url);

/** On the port that was asked for; else on the usual one or, where that is taken, on any. */
async function start() {
  const host = new MockHost({}, undefined);
  if (port !== null) return serveMock(host, port);
  return serveMock(host, USUAL_PORT).catch(() => serveMock(host, 0));
}
