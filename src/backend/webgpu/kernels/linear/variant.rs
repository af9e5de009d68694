//! The ways in which products can be computed.

use crate::backend::webgpu::Capabilities;

/// How products are computed.
///
/// The exact ones multiply activations as they are. The fast ones first round them to signed
/// bytes, 32 to a scale, and add whole numbers; pieces of floats are multiplied exactly all the
/// same.
///
/// Measured on two processors that play a GPU, work of one core, products of `Q4_1`:
///
/// | against `Rows` or `Tiles` | SwiftShader | lavapipe |
/// |---|---|---|
/// | `RowsQuads` | 1.1–1.2 | 1.1 |
/// | `FastRows`, `FastRowsQuads` | 1.2, 1.3–1.7 | 1.5, 1.3 |
/// | `Tree` | 0.1 | 0.26 |
/// | `TilesQuads` | 1.6 | 2.3 |
/// | `FastTiles`, `FastTilesQuads` | 1.3, 1.8 | 1.9, 4.2 |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// Four rows of weights and one of activations an invocation, no barriers.
    Rows,
    /// The same; four invocations share what they load of the activations.
    RowsQuads,
    /// Four rows of weights and eight of activations an invocation, no barriers.
    Tiles,
    /// The same; four invocations share what they load of the activations.
    TilesQuads,
    /// A workgroup for four rows of weights and one of activations; sums through its memory.
    Tree,
    /// The same with sums by subgroups.
    Subgroup,
    /// A workgroup for four rows of weights and four of activations; sums through its memory.
    TreeBy4,
    /// The same with sums by subgroups.
    SubgroupBy4,
    /// A workgroup for 64 rows of weights and 64 of activations.
    Gemm,
    /// [`Self::Rows`] on bytes, two to a multiplication.
    FastRows,
    /// [`Self::RowsQuads`] on bytes, two to a multiplication.
    FastRowsQuads,
    /// [`Self::Tiles`] on bytes, two to a multiplication.
    FastTiles,
    /// [`Self::TilesQuads`] on bytes, two to a multiplication.
    FastTilesQuads,
    /// [`Self::Tree`] on bytes, by the packed dot product.
    FastTree,
    /// [`Self::Subgroup`] on bytes, by the packed dot product.
    FastSubgroup,
    /// [`Self::TreeBy4`] on bytes, by the packed dot product.
    FastTreeBy4,
    /// [`Self::SubgroupBy4`] on bytes, by the packed dot product.
    FastSubgroupBy4,
}

impl Variant {
    /// Every variant.
    pub const ALL: [Self; 17] = [
        Self::Rows,
        Self::RowsQuads,
        Self::Tiles,
        Self::TilesQuads,
        Self::Tree,
        Self::Subgroup,
        Self::TreeBy4,
        Self::SubgroupBy4,
        Self::Gemm,
        Self::FastRows,
        Self::FastRowsQuads,
        Self::FastTiles,
        Self::FastTilesQuads,
        Self::FastTree,
        Self::FastSubgroup,
        Self::FastTreeBy4,
        Self::FastSubgroupBy4,
    ];

    /// The variant of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|variant| format!("{variant:?}") == name)
    }

    /// All that a device can run.
    #[must_use]
    pub fn available(capabilities: &Capabilities) -> Vec<Self> {
        let has_quads = capabilities.subgroups.is_some_and(|[least, _]| least >= 4);
        let can = |variant: &Self| {
            (has_quads || !variant.needs_subgroups())
                && (capabilities.packed_dot || !variant.needs_packed_dot())
        };
        Self::ALL.into_iter().filter(can).collect()
    }

    /// Whether activations are rounded to bytes.
    #[must_use]
    pub fn is_fast(self) -> bool {
        self != self.exact()
    }

    /// The same division of work on activations as they are.
    #[must_use]
    pub fn exact(self) -> Self {
        match self {
            Self::FastRows => Self::Rows,
            Self::FastRowsQuads => Self::RowsQuads,
            Self::FastTiles => Self::Tiles,
            Self::FastTilesQuads => Self::TilesQuads,
            Self::FastTree => Self::Tree,
            Self::FastSubgroup => Self::Subgroup,
            Self::FastTreeBy4 => Self::TreeBy4,
            Self::FastSubgroupBy4 => Self::SubgroupBy4,
            exact => exact,
        }
    }

    /// Whether [`Linear::norm`](super::Linear::norm) may be given.
    #[must_use]
    pub fn fuses_norm(self) -> bool {
        self.is_cooperative() && !self.is_fast()
    }

    /// Whether invocations of a workgroup sum together.
    #[must_use]
    pub fn is_cooperative(self) -> bool {
        matches!(
            self.exact(),
            Self::Tree | Self::Subgroup | Self::TreeBy4 | Self::SubgroupBy4
        )
    }

    pub(super) fn needs_subgroups(self) -> bool {
        matches!(
            self.exact(),
            Self::RowsQuads | Self::TilesQuads | Self::Subgroup | Self::SubgroupBy4
        )
    }

    pub(super) fn needs_packed_dot(self) -> bool {
        self.is_fast() && self.is_cooperative()
    }

    /// Rows of activations that an invocation or its workgroup takes.
    #[must_use]
    pub fn tokens(self) -> u32 {
        match self.exact() {
            Self::TreeBy4 | Self::SubgroupBy4 => 4,
            Self::Tiles | Self::TilesQuads => 8,
            Self::Gemm => 64,
            _ => 1,
        }
    }

    /// Groups of four rows of weights that a workgroup takes.
    pub(super) fn fours(self) -> u32 {
        match self {
            Self::Gemm => 16,
            _ if self.is_cooperative() => 1,
            _ => super::WG_SIZE,
        }
    }

    /// Lanes of a workgroup for rows of `blocks` blocks.
    pub(super) fn lanes(self, blocks: u32) -> u32 {
        match (self.is_cooperative(), blocks) {
            (false, _) => super::WG_SIZE,
            (true, 0..=32) => 32,
            (true, 33..=256) => 64,
            (true, _) => 128,
        }
    }

    /// Whether the products start from sums over blocks of activations.
    pub(super) fn wants_sums(self) -> bool {
        matches!(self, Self::Rows | Self::RowsQuads)
    }
}
