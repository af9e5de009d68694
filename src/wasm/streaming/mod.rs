//! The exports of the small module, one file for each face of the npm package.

mod sse;

pub use sse::{EventParser, ItemKind, encode_event};
