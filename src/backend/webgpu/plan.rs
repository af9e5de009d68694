//! Which variant of each kernel a device runs.

use super::kernels::{attention, linear, qk_rope_append, rms_norm, sample};
use super::kv::KvLayout;
use super::operations::RowClass;
use super::{Capabilities, PlanKind, WebGpuOptions};

/// A variant for each kernel and shape class.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) norm: rms_norm::Variant,
    pub(super) rope: qk_rope_append::Variant,
    pub(super) sample: sample::Variant,
    linear: [linear::Variant; 3],
    attention: [attention::Variant; 3],
}

impl Plan {
    /// What suits a device.
    pub(super) fn new(
        capabilities: &Capabilities,
        options: &WebGpuOptions,
        layout: &KvLayout,
    ) -> Self {
        let kind = options.plan.unwrap_or(if capabilities.is_software {
            PlanKind::Software
        } else {
            PlanKind::Hardware
        });
        match kind {
            PlanKind::Software => Self::software(capabilities, options),
            PlanKind::Hardware => Self::hardware(capabilities, options, layout),
        }
    }

    fn software(capabilities: &Capabilities, options: &WebGpuOptions) -> Self {
        let [one, many] = match (options.fast, quads(capabilities)) {
            (false, false) => [linear::Variant::Rows, linear::Variant::Tiles],
            (false, true) => [linear::Variant::RowsQuads, linear::Variant::TilesQuads],
            (true, false) => [linear::Variant::FastRows, linear::Variant::FastTiles],
            (true, true) => [
                linear::Variant::FastRowsQuads,
                linear::Variant::FastTilesQuads,
            ],
        };
        Self {
            norm: rms_norm::Variant::Serial,
            rope: qk_rope_append::Variant::Serial,
            sample: sample::Variant::Serial,
            linear: [one, many, many],
            attention: [attention::Variant::Serial { splits: 8 }; 3],
        }
    }

    fn hardware(capabilities: &Capabilities, options: &WebGpuOptions, layout: &KvLayout) -> Self {
        let software = Self::software(capabilities, options);
        let subgroups = quads(capabilities);
        let attention = attention::Variant::available(capabilities, layout);
        // Every list ends with what asks most of the device.
        let last_of = |wanted: fn(&attention::Variant) -> bool| {
            let found = attention.iter().rev().find(|variant| wanted(variant));
            found.copied().unwrap_or(software.attention[0])
        };
        let decode = last_of(|variant| matches!(variant, attention::Variant::Decode { .. }));
        let prefill = last_of(|variant| matches!(variant, attention::Variant::Prefill));
        Self {
            norm: last(&rms_norm::Variant::available(capabilities)),
            rope: last(&qk_rope_append::Variant::available(capabilities, layout)),
            sample: last(&sample::Variant::available(capabilities)),
            attention: [decode, decode, prefill],
            linear: match (options.fast && capabilities.packed_dot, subgroups) {
                (false, false) => [
                    linear::Variant::Tree,
                    linear::Variant::TreeBy4,
                    linear::Variant::Gemm,
                ],
                (false, true) => [
                    linear::Variant::Subgroup,
                    linear::Variant::SubgroupBy4,
                    linear::Variant::Gemm,
                ],
                (true, false) => [
                    linear::Variant::FastTree,
                    linear::Variant::FastTreeBy4,
                    linear::Variant::FastTiles,
                ],
                (true, true) => [
                    linear::Variant::FastSubgroup,
                    linear::Variant::FastSubgroupBy4,
                    linear::Variant::FastTilesQuads,
                ],
            },
        }
    }

    pub(super) fn linear(&self, class: RowClass) -> linear::Variant {
        self.linear[class as usize]
    }

    pub(super) fn attention(&self, class: RowClass) -> attention::Variant {
        self.attention[class as usize]
    }

    /// Bytes of attention's two scratch buffers for passes of `rows` rows.
    pub(super) fn attention_scratch(
        &self,
        layout: &KvLayout,
        num_heads: usize,
        rows: usize,
    ) -> [u64; 2] {
        let each = self
            .attention
            .map(|variant| variant.scratch_bytes(layout, num_heads, rows));
        [0, 1].map(|i| each.iter().map(|bytes| bytes[i]).max().unwrap_or(0))
    }
}

/// Whether four lanes of a subgroup can share what they load.
fn quads(capabilities: &Capabilities) -> bool {
    capabilities.subgroups.is_some_and(|[least, _]| least >= 4)
}

/// The last of a list that is never empty.
fn last<T: Copy>(variants: &[T]) -> T {
    variants[variants.len() - 1]
}
