//! What a kernel is for, and which variant of it does it: the entries of a plan, with names.

use super::Capabilities;
use super::kernels::{attention, linear, qk_rope_append, rms_norm, sample};
use super::kv::KvLayout;
use super::operations::RowClass;
use super::planes::PlaneFormat;

/// Products of one kind: which rows, which weights, and whether activations may be rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Products {
    pub(super) class: RowClass,
    pub(super) format: PlaneFormat,
    /// Whether a fast variant may take them.
    pub(super) rounds: bool,
}

impl Products {
    /// Whether a variant may be chosen for them.
    fn may_take(self, variant: linear::Variant) -> bool {
        let may_round = self.rounds && self.format.is_quantized();
        self.class.suits(variant) && (may_round || !variant.is_fast())
    }
}

/// A kernel's place in a plan: what is checked, timed and gives way by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    Norm,
    Rope,
    Sample,
    Linear(Products),
    Attention(RowClass),
}

impl Role {
    /// All of them for weights in these formats; with `fast`, products that may be rounded too.
    pub(super) fn all(formats: &[PlaneFormat], fast: bool) -> Vec<Self> {
        let mut all = vec![Self::Norm, Self::Rope, Self::Sample];
        for class in RowClass::ALL {
            for &format in formats {
                let tiers = [false, true].into_iter().take(1 + usize::from(fast));
                all.extend(tiers.map(|rounds| {
                    Self::Linear(Products {
                        class,
                        format,
                        rounds,
                    })
                }));
            }
        }
        all.extend(RowClass::ALL.map(Self::Attention));
        all
    }

    /// Its name in options.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Norm => "norm",
            Self::Rope => "rope",
            Self::Sample => "sample",
            Self::Linear(products) => match products.class {
                RowClass::One => "linearOne",
                RowClass::Few => "linearFew",
                RowClass::Many => "linearMany",
            },
            Self::Attention(RowClass::One) => "attentionOne",
            Self::Attention(RowClass::Few) => "attentionFew",
            Self::Attention(RowClass::Many) => "attentionMany",
        }
    }

    /// Its name in reports.
    pub(super) fn full_name(self) -> String {
        let rounds = matches!(self, Self::Linear(products) if products.rounds);
        format!("{}{}", self.name(), if rounds { "Rounded" } else { "" })
    }

    /// The format of the weights, where there are any.
    pub(super) fn format(self) -> Option<String> {
        match self {
            Self::Linear(products) => Some(format!("{:?}", products.format)),
            _ => None,
        }
    }

    /// Every variant that a device can run in this role: what asks least of it first.
    pub(super) fn candidates(self, capabilities: &Capabilities, layout: &KvLayout) -> Vec<Choice> {
        match self {
            Self::Norm => all(rms_norm::Variant::available(capabilities), Choice::Norm),
            Self::Rope => all(
                qk_rope_append::Variant::available(capabilities, layout),
                Choice::Rope,
            ),
            Self::Sample => all(sample::Variant::available(capabilities), Choice::Sample),
            Self::Linear(products) => {
                let variants = linear::Variant::available(capabilities).into_iter();
                let suits = |it: &linear::Variant| products.may_take(*it);
                all(variants.filter(suits).collect(), |it| {
                    Choice::Linear(products, it)
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
    Linear(Products, linear::Variant),
    Attention(RowClass, attention::Variant),
}

impl Choice {
    pub(super) fn role(self) -> Role {
        match self {
            Self::Norm(_) => Role::Norm,
            Self::Rope(_) => Role::Rope,
            Self::Sample(_) => Role::Sample,
            Self::Linear(products, _) => Role::Linear(products),
            Self::Attention(class, _) => Role::Attention(class),
        }
    }

    /// The same variant in another role of its kind, where it may be taken there.
    pub(super) fn in_role(self, role: Role) -> Option<Self> {
        match (self, role) {
            (Self::Linear(_, variant), Role::Linear(products)) => products
                .may_take(variant)
                .then_some(Self::Linear(products, variant)),
            _ => (self.role() == role).then_some(self),
        }
    }

    /// Role, format and variant, for people.
    pub(super) fn full_name(self) -> String {
        let (role, format) = (self.role().full_name(), self.role().format());
        let format = format.map_or_else(String::new, |format| format!(" {format}"));
        format!("{role}{format} {}", self.name())
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
