import { load } from 'tokenbrook';

const output = document.querySelector('output');
try {
  const model = await load(new URLSearchParams(location.search).get('model'));
  const options = { maxTokens: 3, temperature: 0, ignoreEos: true };
  for await (const token of model.generate('then', options)) output.append(`${token.id} `);
  document.title = 'done';
} catch (error) {
  document.title = `${error.code}: ${error.message}`;
}
