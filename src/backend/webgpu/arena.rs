//! The named activations on the device.

use super::{Gpu, row_stride};
use crate::backend::{ModelShape, Slot};

/// One buffer a slot, `[rows, row_stride(width)]`, and those inside operations.
#[derive(Debug)]
pub(super) struct Arena {
    slots: [wgpu::Buffer; 5],
    widths: [usize; 5],
    logit_rows: usize,
    /// Normalized rows, `[T, C]`.
    pub(super) normed: wgpu::Buffer,
    /// Products before a norm that follows them, `[T, C]`.
    pub(super) projected: wgpu::Buffer,
    /// Products of gate and up where they come from several dispatches, `[T, 2 F]`.
    pub(super) gate_up: wgpu::Buffer,
}

impl Arena {
    /// Buffers for `shape.max_rows` rows, one row of logits.
    pub(super) fn new(gpu: &Gpu, shape: &ModelShape) -> Self {
        let heads = &shape.heads;
        let widths = [
            shape.hidden_size,
            heads.qkv_len(),
            heads.query_len(),
            shape.intermediate_size,
            shape.vocab_size,
        ];
        let rows = |slot: usize| if slot == LOGITS { 1 } else { shape.max_rows };
        let buffer = |label: &str, rows: usize, width: usize| {
            gpu.storage(label, rows as u64 * row_stride(width) as u64 * 4)
        };
        let slots = std::array::from_fn(|slot| buffer("activations", rows(slot), widths[slot]));
        Self {
            slots,
            widths,
            logit_rows: 1,
            normed: buffer("normed", shape.max_rows, shape.hidden_size),
            projected: buffer("projected", shape.max_rows, shape.hidden_size),
            gate_up: buffer("gate and up", shape.max_rows, 2 * shape.intermediate_size),
        }
    }

    /// The buffer of a slot.
    pub(super) fn slot(&self, slot: Slot) -> &wgpu::Buffer {
        &self.slots[index(slot)]
    }

    /// Elements of a row.
    pub(super) fn width(&self, slot: Slot) -> usize {
        self.widths[index(slot)]
    }

    /// Makes room for `rows` rows of logits; whether the buffer is another one now.
    pub(super) fn reserve_logits(&mut self, gpu: &Gpu, rows: usize) -> bool {
        if rows <= self.logit_rows {
            return false;
        }
        let bytes = rows as u64 * row_stride(self.widths[LOGITS]) as u64 * 4;
        self.slots[LOGITS] = gpu.storage("logits", bytes);
        self.logit_rows = rows;
        true
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> u64 {
        let others = [&self.normed, &self.projected, &self.gate_up];
        let all = self.slots.iter().chain(others);
        all.map(wgpu::Buffer::size).sum()
    }
}

const LOGITS: usize = 4;

fn index(slot: Slot) -> usize {
    match slot {
        Slot::Residual => 0,
        Slot::Qkv => 1,
        Slot::Attended => 2,
        Slot::Activated => 3,
        Slot::Logits => LOGITS,
    }
}
