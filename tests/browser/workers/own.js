// A page's own service worker: the mock answers its addresses, the worker one of its own.
import { handle, handleMessage } from '/pkg/mock-service-worker.js';

addEventListener('install', (event) => event.waitUntil(skipWaiting()));
addEventListener('activate', (event) => event.waitUntil(clients.claim()));
addEventListener('message', (event) => void handleMessage(event));
addEventListener('fetch', (event) => {
  if (handle(event)) return;
  if (new URL(event.request.url).pathname === '/own') {
    event.respondWith(new Response('answered by the own worker'));
  }
});
