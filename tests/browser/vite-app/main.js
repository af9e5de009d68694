import { load } from 'tokenbrook';
import { eventStream } from 'tokenbrook/sse';

const output = document.querySelector('output');
try {
  const model = await load(new URLSearchParams(location.search).get('model'));
  const options = { maxTokens: 3, temperature: 0, ignoreEos: true };
  for await (const token of model.generate('then', options)) output.append(`${token.id} `);
  // The small module is found beside the entry too.
  const stream = new Blob(['data: end\n\n']).stream().pipeThrough(eventStream());
  const { value } = await stream.getReader().read();
  output.append(value.data);
  document.title = 'done';
} catch (error) {
  document.title = `${error.code}: ${error.message}`;
}
