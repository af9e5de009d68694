//! The CPU backend against the reference, the reference against formulas, and both against
//! wrong use.

mod formulas;
mod passes;
#[path = "../common/quantize.rs"]
mod quantize;
mod rings;
mod tiny;
mod usage;
mod variants;
