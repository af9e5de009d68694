//! The exports of the small module, one file for each face of the npm package.

mod client;
mod measure;
mod mock;
mod sse;

pub use client::{ClientCall, ClientCore};
pub use measure::{
    ExchangeWatch, compare_timelines, diagnose_timeline, figure_sources, summarize_timelines,
};
pub use mock::{MockServer, simulate_load};
pub use sse::{EventParser, ItemKind, encode_event};
