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

/// Activations as bytes, in the order that a variant multiplies them in.
pub(super) fn quantize(variant: Variant, rows: Rows, wg_size: u32) -> Shader {
    Shader {
        name: "quantize",
        parts: vec![
            include_str!("../common/step.wgsl"),
            include_str!("params.wgsl"),
            rows_part(rows),
            match variant.needs_packed_dot() {
                true => include_str!("quantize_bytes.wgsl"),
                false => include_str!("quantize_pairs.wgsl"),
            },
            include_str!("quantize.wgsl"),
        ],
        constants: constants(wg_size),
        needs: Needs::default(),
    }
}

/// What an invocation does with its four products.
fn finish_parts(epilogue: &Epilogue<'_>) -> Vec<&'static str> {
    let bias = |bias: Option<&wgpu::Buffer>| match bias {
        Some(_) => include_str!("bias.wgsl"),
        None => include_str!("bias_none.wgsl"),
    };
    let each = include_str!("finish_each.wgsl");
    match *epilogue {
        Epilogue::Store { bias: b, .. } => {
            vec![bias(b), include_str!("finish_store.wgsl"), each]
        }
        Epilogue::Add { bias: b, .. } => vec![bias(b), include_str!("finish_add.wgsl"), each],
        Epilogue::Gate { activation, .. } => {
            vec![
                activation_part(activation),
                include_str!("finish_gate.wgsl"),
            ]
        }
        Epilogue::Logits { .. } => vec![include_str!("finish_logits.wgsl"), each],
    }
}

pub(super) fn product(
    variant: Variant,
    op: &Linear<'_>,
    format: PlaneFormat,
    wg_size: u32,
) -> Shader {
    let mut parts = vec![
        include_str!("../common/step.wgsl"),
        include_str!("params.wgsl"),
        rows_part(op.rows),
    ];
    parts.extend(format.parts());
    parts.extend(finish_parts(&op.epilogue));
    let (name, sums, own) = match variant.is_fast() {
        true => fast_parts(variant, format),
        false => exact_parts(variant, op),
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

fn exact_parts(variant: Variant, op: &Linear<'_>) -> Own {
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
            let parts = vec![direct, block_product, norm_part(op), reduce, kernel];
            ("linear_cooperative", 2, parts)
        }
        1 => {
            let parts = vec![x, block_product, include_str!("rows.wgsl")];
            ("linear_rows", 0, parts)
        }
        _ if variant.is_cooperative() => {
            let kernel = include_str!("cooperative_4.wgsl");
            let parts = vec![direct, norm_part(op), reduce, kernel];
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

fn norm_part(op: &Linear<'_>) -> &'static str {
    match op.norm {
        Some(_) => include_str!("norm_rms.wgsl"),
        None => include_str!("norm_none.wgsl"),
    }
}

fn reduce_part(variant: Variant) -> &'static str {
    match variant.needs_subgroups() {
        true => include_str!("reduce_subgroup.wgsl"),
        false => include_str!("reduce_tree.wgsl"),
    }
}
