//! Texts of the products.

use super::{Epilogue, Linear, Rows, Variant};
use crate::backend::ops::Activation;
use crate::backend::webgpu::planes::PlaneFormat;
use crate::backend::webgpu::shader::{Constant, Needs, Shader};

fn rows_part(rows: Rows) -> &'static str {
    match rows {
        Rows::All => include_str!("rows_all.wgsl"),
        Rows::Logits => include_str!("rows_logits.wgsl"),
    }
}

/// WGSL of an activation.
pub(in super::super) fn activation_part(activation: Activation) -> &'static str {
    match activation {
        Activation::Silu => include_str!("../common/activation_silu.wgsl"),
        Activation::GeluTanh => include_str!("../common/activation_gelu_tanh.wgsl"),
    }
}

fn constants(wg_size: u32) -> Vec<(&'static str, Constant)> {
    vec![
        ("WG_SIZE", Constant::U32(wg_size)),
        // The step's tables are not read here.
        ("BLOCK_TOKENS", Constant::U32(1)),
    ]
}

pub(super) fn block_sums(rows: Rows, wg_size: u32) -> Shader {
    Shader {
        name: "block_sums",
        parts: vec![
            include_str!("../common/step.wgsl"),
            include_str!("params.wgsl"),
            rows_part(rows),
            include_str!("block_sums.wgsl"),
        ],
        constants: constants(wg_size),
        needs: Needs::default(),
    }
}

/// Activations as bytes, packed for the dot product of four, or in pairs.
pub(super) fn quantize(packed_dot: bool, rows: Rows, wg_size: u32) -> Shader {
    Shader {
        name: "quantize",
        parts: vec![
            include_str!("../common/step.wgsl"),
            include_str!("params.wgsl"),
            rows_part(rows),
            match packed_dot {
                true => include_str!("quantize_bytes.wgsl"),
                false => include_str!("quantize_pairs.wgsl"),
            },
            include_str!("quantize.wgsl"),
        ],
        constants: constants(wg_size),
        needs: Needs::default(),
    }
}

/// What the text of a product depends on, beside variant and format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) rows: Rows,
    pub(super) finish: Finish,
    pub(super) has_norm: bool,
}

/// What an invocation does with its four products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    Store { has_bias: bool },
    Add { has_bias: bool },
    Gate(Activation),
    Logits,
}

impl Kind {
    pub(super) fn of(op: &Linear<'_>) -> Self {
        Self {
            rows: op.rows,
            finish: match op.epilogue {
                Epilogue::Store { bias, .. } => Finish::Store {
                    has_bias: bias.is_some(),
                },
                Epilogue::Add { bias, .. } => Finish::Add {
                    has_bias: bias.is_some(),
                },
                Epilogue::Gate { activation, .. } => Finish::Gate(activation),
                Epilogue::Logits { .. } => Finish::Logits,
            },
            has_norm: op.norm.is_some(),
        }
    }
}

fn finish_parts(finish: Finish) -> Vec<&'static str> {
    let bias = |has_bias: bool| match has_bias {
        true => include_str!("bias.wgsl"),
        false => include_str!("bias_none.wgsl"),
    };
    let each = include_str!("finish_each.wgsl");
    match finish {
        Finish::Store { has_bias } => {
            vec![bias(has_bias), include_str!("finish_store.wgsl"), each]
        }
        Finish::Add { has_bias } => vec![bias(has_bias), include_str!("finish_add.wgsl"), each],
        Finish::Gate(activation) => {
            vec![
                activation_part(activation),
                include_str!("finish_gate.wgsl"),
            ]
        }
        Finish::Logits => vec![include_str!("finish_logits.wgsl"), each],
    }
}

/// Every kind of text: all formats in all variants, and each epilogue once a variant.
pub(super) fn all() -> Vec<Shader> {
    let mut shaders = vec![
        block_sums(Rows::All, 16),
        block_sums(Rows::Logits, 16),
        quantize(false, Rows::All, 16),
        quantize(true, Rows::Logits, 16),
    ];
    let finishes = [
        Finish::Store { has_bias: true },
        Finish::Add { has_bias: false },
        Finish::Gate(Activation::Silu),
        Finish::Gate(Activation::GeluTanh),
        Finish::Logits,
    ];
    for variant in Variant::ALL {
        let kind = |rows, finish| Kind {
            rows,
            finish,
            has_norm: variant.fuses_norm() && finish != Finish::Logits,
        };
        for format in PlaneFormat::ALL {
            if format.is_quantized() || !variant.is_fast() {
                let plain = kind(Rows::All, Finish::Store { has_bias: false });
                shaders.push(product(variant, plain, format, variant.lanes(18)));
            }
        }
        for finish in finishes {
            let kind = kind(Rows::Logits, finish);
            let lanes = variant.lanes(48);
            shaders.push(product(variant, kind, PlaneFormat::Q4_1, lanes));
        }
    }
    shaders
}

pub(super) fn product(variant: Variant, kind: Kind, format: PlaneFormat, wg_size: u32) -> Shader {
    let mut parts = vec![
        include_str!("../common/step.wgsl"),
        include_str!("params.wgsl"),
        rows_part(kind.rows),
    ];
    parts.extend(format.parts());
    parts.extend(finish_parts(kind.finish));
    let (name, sums, own) = match variant.is_fast() {
        true => fast_parts(variant, format),
        false => exact_parts(variant, kind),
    };
    parts.extend(own);
    // The fast variants take the bias of bytes off before they multiply.
    let is_byte = format == PlaneFormat::Q8_0;
    let zero = match variant.is_fast() && is_byte {
        true => 0.0,
        false => format.zero(),
    };
    let mut constants = constants(wg_size);
    constants.extend([
        ("ZERO", Constant::F32(zero)),
        ("SUMS", Constant::U32(sums)),
        ("BIAS", Constant::U32(if is_byte { 0x8080_8080 } else { 0 })),
    ]);
    Shader {
        name,
        parts,
        constants,
        needs: Needs {
            subgroups: variant.needs_subgroups(),
            packed_dot: variant.needs_packed_dot(),
            ..Needs::default()
        },
    }
}

/// Name of the entry point, vectors that a workgroup sums, parts.
type Own = (&'static str, u32, Vec<&'static str>);

fn exact_parts(variant: Variant, kind: Kind) -> Own {
    let direct = include_str!("x_direct.wgsl");
    let x = match variant.needs_subgroups() {
        true => include_str!("x_quads.wgsl"),
        false => direct,
    };
    let block_product = include_str!("block_product.wgsl");
    let reduce = reduce_part(variant);
    match variant.tokens() {
        _ if variant == Variant::Gemm => ("linear_gemm", 0, vec![include_str!("gemm.wgsl")]),
        1 if variant.is_cooperative() => {
            let kernel = include_str!("cooperative.wgsl");
            let parts = vec![direct, block_product, norm_part(kind), reduce, kernel];
            ("linear_cooperative", 2, parts)
        }
        1 => {
            let parts = vec![x, block_product, include_str!("rows.wgsl")];
            ("linear_rows", 0, parts)
        }
        _ if variant.is_cooperative() => {
            let kernel = include_str!("cooperative_4.wgsl");
            let parts = vec![direct, norm_part(kind), reduce, kernel];
            ("linear_cooperative_4", 5, parts)
        }
        _ => ("linear_tiles", 0, vec![x, include_str!("tiles.wgsl")]),
    }
}

fn fast_parts(variant: Variant, format: PlaneFormat) -> Own {
    let products = include_str!("fast_products.wgsl");
    if variant.is_cooperative() {
        let mut parts = vec![
            include_str!("bytes.wgsl"),
            products,
            include_str!("x_bytes.wgsl"),
            reduce_part(variant),
        ];
        return match variant.tokens() {
            1 => {
                parts.push(include_str!("fast_cooperative.wgsl"));
                ("linear_fast_cooperative", 1, parts)
            }
            _ => {
                parts.push(include_str!("fast_cooperative_4.wgsl"));
                ("linear_fast_cooperative_4", 4, parts)
            }
        };
    }
    let mut parts = vec![
        match format {
            PlaneFormat::Q8_0 => include_str!("pairs_8.wgsl"),
            PlaneFormat::Q5_0 | PlaneFormat::Q5_1 => include_str!("pairs_6.wgsl"),
            PlaneFormat::Q5_K | PlaneFormat::Q6_K => include_str!("pairs_6.wgsl"),
            _ => include_str!("pairs_4.wgsl"),
        },
        products,
        match variant.needs_subgroups() {
            true => include_str!("x_pairs_quads.wgsl"),
            false => include_str!("x_pairs_direct.wgsl"),
        },
    ];
    match variant.tokens() {
        1 => {
            parts.push(include_str!("fast_rows.wgsl"));
            ("linear_fast_rows", 0, parts)
        }
        _ => {
            parts.push(include_str!("fast_tiles.wgsl"));
            ("linear_fast_tiles", 0, parts)
        }
    }
}

fn norm_part(kind: Kind) -> &'static str {
    match kind.has_norm {
        true => include_str!("norm_rms.wgsl"),
        false => include_str!("norm_none.wgsl"),
    }
}

fn reduce_part(variant: Variant) -> &'static str {
    match variant.needs_subgroups() {
        true => include_str!("reduce_subgroup.wgsl"),
        false => include_str!("reduce_tree.wgsl"),
    }
}
