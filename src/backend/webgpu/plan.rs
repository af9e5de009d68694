//! Which variant of each kernel a device runs.

use super::choice::{Choice, Products, Role};
use super::kernels::{attention, linear, qk_rope_append, rms_norm, sample};
use super::kv::KvLayout;
use super::ladder::Ladder;
use super::operations::RowClass;
use super::planes::PlaneFormat;
use super::{Capabilities, PlanKind, WebGpuOptions};

/// A variant for each kernel and shape class.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    norm: Ladder<rms_norm::Variant>,
    rope: Ladder<qk_rope_append::Variant>,
    sample: Ladder<sample::Variant>,
    /// Those of the first format, the main one, come first.
    linear: Vec<(Products, Ladder<linear::Variant>)>,
    /// Of weights that nobody announced, by row class: those that stay exact, those that may not.
    others: [[linear::Variant; 3]; 2],
    attention: [Ladder<attention::Variant>; 3],
}

/// Attention without barriers, for any context that a block table can name.
const SERIAL: attention::Variant = attention::Variant::Serial { splits: 8 };

impl Plan {
    /// What suits a device, for weights in these formats, the main one first.
    pub(super) fn new(
        capabilities: &Capabilities,
        options: &WebGpuOptions,
        layout: &KvLayout,
        formats: &[PlaneFormat],
    ) -> Self {
        let roles = Role::all(formats, options.fast);
        let products = roles.into_iter().filter_map(|role| match role {
            Role::Linear(products) => Some(products),
            _ => None,
        });
        let products = products.collect();
        let mut plan = match options.plan_kind(capabilities) {
            PlanKind::Software => Self::software(capabilities, products),
            PlanKind::Hardware => Self::hardware(capabilities, layout, products),
        };
        if !options.fast {
            plan.others[1] = plan.others[0];
        }
        plan
    }

    fn software(capabilities: &Capabilities, products: Vec<Products>) -> Self {
        use linear::Variant as Linear;
        let exact = match quads(capabilities) {
            false => [Linear::Rows, Linear::Tiles, Linear::Tiles],
            true => [Linear::RowsQuads, Linear::TilesQuads, Linear::TilesQuads],
        };
        let fast = match quads(capabilities) {
            false => [Linear::FastRows, Linear::FastTiles, Linear::FastTiles],
            true => [
                Linear::FastRowsQuads,
                Linear::FastTilesQuads,
                Linear::FastTilesQuads,
            ],
        };
        Self {
            norm: Ladder::new(rms_norm::Variant::Serial, &[]),
            rope: Ladder::new(qk_rope_append::Variant::Serial, &[]),
            sample: Ladder::new(sample::Variant::Serial, &[]),
            linear: ladders(products, exact, fast),
            others: [exact, fast],
            attention: std::array::from_fn(|_| Ladder::new(SERIAL, &[])),
        }
    }

    fn hardware(capabilities: &Capabilities, layout: &KvLayout, products: Vec<Products>) -> Self {
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
        let exact = match quads(capabilities) {
            false => [Linear::Tree, Linear::TreeBy4, Linear::Gemm],
            true => [Linear::Subgroup, Linear::SubgroupBy4, Linear::Gemm],
        };
        let fast = match (capabilities.packed_dot, quads(capabilities)) {
            (false, _) => exact,
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
            linear: ladders(products, exact, fast),
            others: [exact, fast],
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

    /// The variant of products. The exact tier rounds none.
    pub(super) fn linear(&self, products: Products) -> linear::Variant {
        let exact = Products {
            rounds: false,
            ..products
        };
        let of = |wanted| self.linear.iter().find(|(it, _)| *it == wanted);
        let rounds = products.rounds && products.format.is_quantized();
        let other = self.others[usize::from(rounds)][products.class as usize];
        let found = of(products).or_else(|| of(exact));
        found.map_or(other, |(_, ladder)| ladder.current())
    }

    /// The variant of most weights.
    pub(super) fn main_linear(&self, class: RowClass) -> linear::Variant {
        let main = self.linear.iter().find(|(it, _)| it.class == class);
        main.map_or(self.others[0][class as usize], |(_, ladder)| {
            ladder.current()
        })
    }

    /// Rows that one invocation's products share their weights among: fewer take as long.
    pub(super) fn tile_rows(&self) -> usize {
        self.main_linear(RowClass::Few).tokens() as usize
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
            Role::Linear(products) => Choice::Linear(products, self.linear(products)),
            Role::Attention(class) => Choice::Attention(class, self.attention(class)),
        }
    }

    /// Takes a variant in its role; what was taken before is what it gives way to.
    pub(super) fn prefer(&mut self, choice: Choice) {
        match choice {
            Choice::Norm(variant) => self.norm.prefer(variant),
            Choice::Rope(variant) => self.rope.prefer(variant),
            Choice::Sample(variant) => self.sample.prefer(variant),
            Choice::Linear(products, variant) => {
                if let Some(ladder) = self.products(products) {
                    ladder.prefer(variant);
                }
            }
            Choice::Attention(class, variant) => self.attention[class as usize].prefer(variant),
        }
    }

    /// Takes the next safer variant in a role; whether there was one.
    pub(super) fn demote(&mut self, role: Role) -> bool {
        match role {
            Role::Norm => self.norm.demote().is_some(),
            Role::Rope => self.rope.demote().is_some(),
            Role::Sample => self.sample.demote().is_some(),
            Role::Linear(products) => {
                let ladder = self.products(products);
                ladder.is_some_and(|ladder| ladder.demote().is_some())
            }
            Role::Attention(class) => self.attention[class as usize].demote().is_some(),
        }
    }

    fn products(&mut self, products: Products) -> Option<&mut Ladder<linear::Variant>> {
        let found = self.linear.iter_mut().find(|(it, _)| *it == products);
        found.map(|(_, ladder)| ladder)
    }

    /// Bytes of attention's two scratch buffers for passes of `rows` rows.
    pub(super) fn attention_scratch(
        &self,
        layout: &KvLayout,
        num_heads: usize,
        rows: usize,
    ) -> [u64; 2] {
        let of = |class| self.attention(class).scratch_bytes(layout, num_heads, rows);
        let each = RowClass::ALL.map(of);
        [0, 1].map(|i| each.iter().map(|bytes| bytes[i]).max().unwrap_or(0))
    }
}

/// Products in the variants of their row class, then in the ones that ask nothing of the device.
fn ladders(
    products: Vec<Products>,
    exact: [linear::Variant; 3],
    fast: [linear::Variant; 3],
) -> Vec<(Products, Ladder<linear::Variant>)> {
    use linear::Variant as Linear;
    let ladder = |it: Products| {
        let rounds = it.rounds && it.format.is_quantized();
        let preferred = if rounds { fast } else { exact }[it.class as usize];
        let safer = match preferred.tokens() {
            1 => [Linear::Rows, Linear::Tiles],
            _ => [Linear::Tiles, Linear::Rows],
        };
        (it, Ladder::new(preferred, &safer))
    };
    products.into_iter().map(ladder).collect()
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
