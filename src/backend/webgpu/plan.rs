//! Which variant of each kernel a device runs.

use super::choice::{Choice, Role};
use super::kernels::{attention, linear, qk_rope_append, rms_norm, sample};
use super::kv::KvLayout;
use super::ladder::Ladder;
use super::operations::RowClass;
use super::{Capabilities, PlanKind, WebGpuOptions};

/// A variant for each kernel and shape class.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    norm: Ladder<rms_norm::Variant>,
    rope: Ladder<qk_rope_append::Variant>,
    sample: Ladder<sample::Variant>,
    linear: [Ladder<linear::Variant>; 3],
    attention: [Ladder<attention::Variant>; 3],
}

/// Attention without barriers, for any context that a block table can name.
const SERIAL: attention::Variant = attention::Variant::Serial { splits: 8 };

impl Plan {
    /// What suits a device.
    pub(super) fn new(
        capabilities: &Capabilities,
        options: &WebGpuOptions,
        layout: &KvLayout,
    ) -> Self {
        match options.plan_kind(capabilities) {
            PlanKind::Software => Self::software(capabilities, options),
            PlanKind::Hardware => Self::hardware(capabilities, options, layout),
        }
    }

    fn software(capabilities: &Capabilities, options: &WebGpuOptions) -> Self {
        use linear::Variant as Linear;
        let [one, many] = match (options.fast, quads(capabilities)) {
            (false, false) => [Linear::Rows, Linear::Tiles],
            (false, true) => [Linear::RowsQuads, Linear::TilesQuads],
            (true, false) => [Linear::FastRows, Linear::FastTiles],
            (true, true) => [Linear::FastRowsQuads, Linear::FastTilesQuads],
        };
        let many = products(many);
        Self {
            norm: Ladder::new(rms_norm::Variant::Serial, &[]),
            rope: Ladder::new(qk_rope_append::Variant::Serial, &[]),
            sample: Ladder::new(sample::Variant::Serial, &[]),
            linear: [products(one), many.clone(), many],
            attention: std::array::from_fn(|_| Ladder::new(SERIAL, &[])),
        }
    }

    fn hardware(capabilities: &Capabilities, options: &WebGpuOptions, layout: &KvLayout) -> Self {
        use linear::Variant as Linear;
        let attention = attention::Variant::available(capabilities, layout);
        let safer = |wanted: fn(&attention::Variant) -> bool| {
            // Their list ends with what asks most of the device.
            let wanted = attention.iter().rev().copied().filter(wanted);
            let all: Vec<_> = wanted.chain([SERIAL]).collect();
            Ladder::new(all[0], &all)
        };
        let decode = safer(|variant| matches!(variant, attention::Variant::Decode { .. }));
        let prefill = safer(|variant| matches!(variant, attention::Variant::Prefill));
        let linear = match (options.fast && capabilities.packed_dot, quads(capabilities)) {
            (false, false) => [Linear::Tree, Linear::TreeBy4, Linear::Gemm],
            (false, true) => [Linear::Subgroup, Linear::SubgroupBy4, Linear::Gemm],
            (true, false) => [Linear::FastTree, Linear::FastTreeBy4, Linear::FastTiles],
            (true, true) => [
                Linear::FastSubgroup,
                Linear::FastSubgroupBy4,
                Linear::FastTilesQuads,
            ],
        };
        Self {
            norm: downward(&rms_norm::Variant::available(capabilities)),
            rope: downward(&qk_rope_append::Variant::available(capabilities, layout)),
            sample: downward(&sample::Variant::available(capabilities)),
            linear: linear.map(products),
            attention: [decode.clone(), decode, prefill],
        }
    }

    pub(super) fn norm(&self) -> rms_norm::Variant {
        self.norm.current()
    }

    pub(super) fn rope(&self) -> qk_rope_append::Variant {
        self.rope.current()
    }

    pub(super) fn sample(&self) -> sample::Variant {
        self.sample.current()
    }

    pub(super) fn linear(&self, class: RowClass) -> linear::Variant {
        self.linear[class as usize].current()
    }

    /// Rows that one invocation's products share their weights among: fewer take as long.
    pub(super) fn tile_rows(&self) -> usize {
        self.linear(RowClass::Few).tokens() as usize
    }

    pub(super) fn attention(&self, class: RowClass) -> attention::Variant {
        self.attention[class as usize].current()
    }

    /// The variant in a role.
    pub(super) fn choice(&self, role: Role) -> Choice {
        match role {
            Role::Norm => Choice::Norm(self.norm()),
            Role::Rope => Choice::Rope(self.rope()),
            Role::Sample => Choice::Sample(self.sample()),
            Role::Linear(class) => Choice::Linear(class, self.linear(class)),
            Role::Attention(class) => Choice::Attention(class, self.attention(class)),
        }
    }

    /// Takes a variant in its role; what was taken before is what it gives way to.
    pub(super) fn prefer(&mut self, choice: Choice) {
        match choice {
            Choice::Norm(variant) => self.norm.prefer(variant),
            Choice::Rope(variant) => self.rope.prefer(variant),
            Choice::Sample(variant) => self.sample.prefer(variant),
            Choice::Linear(class, variant) => self.linear[class as usize].prefer(variant),
            Choice::Attention(class, variant) => self.attention[class as usize].prefer(variant),
        }
    }

    /// Takes the next safer variant in a role; whether there was one.
    pub(super) fn demote(&mut self, role: Role) -> bool {
        match role {
            Role::Norm => self.norm.demote().is_some(),
            Role::Rope => self.rope.demote().is_some(),
            Role::Sample => self.sample.demote().is_some(),
            Role::Linear(class) => self.linear[class as usize].demote().is_some(),
            Role::Attention(class) => self.attention[class as usize].demote().is_some(),
        }
    }

    /// Bytes of attention's two scratch buffers for passes of `rows` rows.
    pub(super) fn attention_scratch(
        &self,
        layout: &KvLayout,
        num_heads: usize,
        rows: usize,
    ) -> [u64; 2] {
        let each = Role::ALL.map(|role| match role {
            Role::Attention(class) => self.attention(class).scratch_bytes(layout, num_heads, rows),
            _ => [0; 2],
        });
        [0, 1].map(|i| each.iter().map(|bytes| bytes[i]).max().unwrap_or(0))
    }
}

/// Products in a variant, then in the ones that ask nothing of the device.
fn products(preferred: linear::Variant) -> Ladder<linear::Variant> {
    use linear::Variant as Linear;
    let safer = if preferred.tokens() > 1 {
        [Linear::Tiles, Linear::Rows]
    } else {
        [Linear::Rows, Linear::Tiles]
    };
    Ladder::new(preferred, &safer)
}

/// From the last of a list, which is not empty, to its first.
fn downward<T: Copy + PartialEq>(variants: &[T]) -> Ladder<T> {
    let all: Vec<_> = variants.iter().rev().copied().collect();
    Ladder::new(all[0], &all)
}

/// Whether four lanes of a subgroup can share what they load.
fn quads(capabilities: &Capabilities) -> bool {
    capabilities.subgroups.is_some_and(|[least, _]| least >= 4)
}
