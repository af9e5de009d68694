// The stopwatch in a thread of its own: events are told to the page, then the timeline.

import { measure } from '/pkg/measure.js';

addEventListener('message', async ({ data: address }) => {
  const timeline = await measure(address, { onEvent: (event) => postMessage({ event }) });
  postMessage({ timeline });
});
