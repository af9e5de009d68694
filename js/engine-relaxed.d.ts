// The wasm module `engine-relaxed.js`, written by wasm-bindgen beside it: `engine.js` for browsers
// that have relaxed SIMD. It exports the same.

export { Engine, Exchange, Loader, default } from './engine.js';
