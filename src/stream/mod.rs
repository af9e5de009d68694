//! Streams of tokens: how they reach their reader.
//!
//! No engine and no clock of its own: tokens and times come in from outside.

mod delivery;

pub use delivery::{Delivery, Options, Piece, Step, Verdict, Window};
