//! Frequencies.
