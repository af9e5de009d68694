//! What a kernel is for, and which variant of it does it: the entries of a plan, with names.

use super::Capabilities;
use super::kernels::{attention, linear, qk_rope_append, rms_norm, sample};
use super::kv::KvLayout;
use super::operations::RowClass;

/// A kernel's place in a plan: what is checked, timed and gives way by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    Norm,
    Rope,
    Sample,
    Linear(RowClass),
    Attention(RowClass),
}

impl Role {
    /// All of them.
    pub(super) const ALL: [Self; 9] = [
        Self::Norm,
        Self::Rope,
        Self::Sample,
        Self::Linear(RowClass::One),
        Self::Linear(RowClass::Few),
        Self::Linear(RowClass::Many),
        Self::Attention(RowClass::One),
        Self::Attention(RowClass::Few),
        Self::Attention(RowClass::Many),
    ];

    /// Its name in options and reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Norm => "norm",
            Self::Rope => "rope",
            Self::Sample => "sample",
            Self::Linear(RowClass::One) => "linearOne",
            Self::Linear(RowClass::Few) => "linearFew",
            Self::Linear(RowClass::Many) => "linearMany",
            Self::Attention(RowClass::One) => "attentionOne",
            Self::Attention(RowClass::Few) => "attentionFew",
            Self::Attention(RowClass::Many) => "attentionMany",
        }
    }

    /// The role of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    /// Every variant that a device can run in this role: what asks least of it first. With
    /// `fast`, products on bytes too.
    pub(super) fn candidates(
        self,
        capabilities: &Capabilities,
        layout: &KvLayout,
        fast: bool,
    ) -> Vec<Choice> {
        match self {
            Self::Norm => all(rms_norm::Variant::available(capabilities), Choice::Norm),
            Self::Rope => all(
                qk_rope_append::Variant::available(capabilities, layout),
                Choice::Rope,
            ),
            Self::Sample => all(sample::Variant::available(capabilities), Choice::Sample),
            Self::Linear(class) => {
                let variants = linear::Variant::available(capabilities).into_iter();
                let suits = |it: &linear::Variant| (fast || !it.is_fast()) && class.suits(*it);
                all(variants.filter(suits).collect(), |it| {
                    Choice::Linear(class, it)
                })
            }
            Self::Attention(class) => {
                let variants = attention::Variant::available(capabilities, layout).into_iter();
                let suits = |it: &attention::Variant| match it {
                    attention::Variant::Serial { splits }
                    | attention::Variant::Decode { splits, .. } => *splits > 1,
                    attention::Variant::Prefill => class != RowClass::One,
                };
                all(variants.filter(suits).collect(), |it| {
                    Choice::Attention(class, it)
                })
            }
        }
    }
}

fn all<T>(variants: Vec<T>, choice: impl Fn(T) -> Choice) -> Vec<Choice> {
    variants.into_iter().map(choice).collect()
}

impl RowClass {
    /// Whether a product shares its weights among as many rows as passes of this class have.
    fn suits(self, variant: linear::Variant) -> bool {
        match self {
            Self::One => variant.tokens() == 1,
            Self::Few => matches!(variant.tokens(), 4 | 8),
            Self::Many => variant.tokens() >= 8,
        }
    }
}

/// A variant in a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Norm(rms_norm::Variant),
    Rope(qk_rope_append::Variant),
    Sample(sample::Variant),
    Linear(RowClass, linear::Variant),
    Attention(RowClass, attention::Variant),
}

impl Choice {
    pub(super) fn role(self) -> Role {
        match self {
            Self::Norm(_) => Role::Norm,
            Self::Rope(_) => Role::Rope,
            Self::Sample(_) => Role::Sample,
            Self::Linear(class, _) => Role::Linear(class),
            Self::Attention(class, _) => Role::Attention(class),
        }
    }

    /// Whether invocations wait for each other at barriers.
    pub(super) fn cooperates(self) -> bool {
        match self {
            Self::Norm(variant) => variant != rms_norm::Variant::Serial,
            Self::Rope(variant) => variant != qk_rope_append::Variant::Serial,
            Self::Sample(variant) => variant != sample::Variant::Serial,
            Self::Linear(_, variant) => {
                variant.is_cooperative() || variant == linear::Variant::Gemm
            }
            Self::Attention(_, variant) => !matches!(variant, attention::Variant::Serial { .. }),
        }
    }

    /// The variant in words.
    pub(super) fn name(self) -> String {
        match self {
            Self::Norm(variant) => format!("{variant:?}"),
            Self::Rope(variant) => format!("{variant:?}"),
            Self::Sample(variant) => format!("{variant:?}"),
            Self::Linear(_, variant) => format!("{variant:?}"),
            Self::Attention(_, variant) => match variant {
                attention::Variant::Serial { splits } => format!("Serial{splits}"),
                attention::Variant::Decode { splits, subgroups } => {
                    let sums = if subgroups { "Subgroup" } else { "Tree" };
                    format!("Decode{sums}{splits}")
                }
                attention::Variant::Prefill => "Prefill".to_owned(),
            },
        }
    }
}
