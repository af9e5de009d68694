// The wasm module `compat.js`, written by wasm-bindgen beside it: `engine.js` for architectures
// that only candle-transformers has. It exports the same.

export { Engine, Exchange, Loader, default } from './engine.js';
