//! The exports of the small module, one file for each face of the npm package.

mod mock;
mod sse;

pub use mock::{MockServer, simulate_load};
mod client;
mod sse;

pub use client::{ClientCall, ClientCore};
pub use sse::{EventParser, ItemKind, encode_event};
