//! The named activations of a host backend.

use super::memory::{allocate, bytes_of, grow};
use super::{BackendError, ModelShape, Slot};

const NUM_SLOTS: usize = 5;

/// One buffer a slot.
#[derive(Debug)]
pub(super) struct Slots {
    buffers: [Vec<f32>; NUM_SLOTS],
    widths: [usize; NUM_SLOTS],
}

impl Slots {
    /// No buffers yet.
    pub(super) fn empty() -> Self {
        Self {
            buffers: Default::default(),
            widths: [0; NUM_SLOTS],
        }
    }

    /// No buffers, but widths.
    pub(super) fn widths_of(shape: &ModelShape) -> Self {
        let heads = &shape.heads;
        let mut slots = Self::empty();
        for (slot, width) in [
            (Slot::Residual, shape.hidden_size),
            (Slot::Qkv, heads.qkv_len()),
            (Slot::Attended, heads.query_len()),
            (Slot::Activated, shape.intermediate_size),
            (Slot::Logits, shape.vocab_size),
        ] {
            slots.widths[index(slot)] = width;
        }
        slots
    }

    /// Buffers for `max_rows` rows, one row for the logits.
    pub(super) fn new(shape: &ModelShape) -> Result<Self, BackendError> {
        let mut slots = Self::widths_of(shape);
        let logits = index(Slot::Logits);
        for (i, (buffer, width)) in slots.buffers.iter_mut().zip(slots.widths).enumerate() {
            let rows = if i == logits { 1 } else { shape.max_rows };
            *buffer = allocate("activations", &[rows, width], f32::NAN)?;
        }
        Ok(slots)
    }

    /// Elements of a row.
    pub(super) fn width(&self, slot: Slot) -> usize {
        self.widths[index(slot)]
    }

    /// Makes room for `rows` rows of logits: scoring needs many, chat needs one.
    pub(super) fn reserve_logits(&mut self, rows: usize) -> Result<(), BackendError> {
        let width = self.width(Slot::Logits);
        grow(
            &mut self.buffers[index(Slot::Logits)],
            "logits",
            &[rows, width],
            f32::NAN,
        )
    }

    /// Fills all rows with NaN, so that reading what this pass has not written shows.
    pub(super) fn poison(&mut self) {
        self.buffers
            .iter_mut()
            .for_each(|buffer| buffer.fill(f32::NAN));
    }

    /// The first `rows` rows.
    pub(super) fn rows(&self, slot: Slot, rows: usize) -> &[f32] {
        &self.buffers[index(slot)][..rows * self.width(slot)]
    }

    /// The first `rows` rows, to be written.
    pub(super) fn rows_mut(&mut self, slot: Slot, rows: usize) -> &mut [f32] {
        let len = rows * self.width(slot);
        &mut self.buffers[index(slot)][..len]
    }

    /// Two different slots, the second to be written.
    pub(super) fn pair(
        &mut self,
        op: &'static str,
        (from, from_rows): (Slot, usize),
        (to, to_rows): (Slot, usize),
    ) -> Result<(&[f32], &mut [f32]), BackendError> {
        let (from_len, to_len) = (from_rows * self.width(from), to_rows * self.width(to));
        match self.buffers.get_disjoint_mut([index(from), index(to)]) {
            Ok([from, to]) => Ok((&from[..from_len], &mut to[..to_len])),
            Err(_) => Err(BackendError::Usage {
                op,
                why: "reads and writes the same slot",
            }),
        }
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> u64 {
        self.buffers.iter().map(bytes_of).sum()
    }
}

fn index(slot: Slot) -> usize {
    match slot {
        Slot::Residual => 0,
        Slot::Qkv => 1,
        Slot::Attended => 2,
        Slot::Activated => 3,
        Slot::Logits => 4,
    }
}
