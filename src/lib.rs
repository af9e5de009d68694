//! Language models that stream inside the browser.
#![deny(unsafe_code)]

pub mod backend;
pub mod gguf;
pub mod quant;
