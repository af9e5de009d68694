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
    let mut constants = constants(wg_size);
    constants.push(("ZERO", Constant::F32(format.zero())));
    let needs = Needs {
        subgroups: variant.needs_subgroups(),
        ..Needs::default()
    };
    let direct = include_str!("x_direct.wgsl");
    let quads = include_str!("x_quads.wgsl");
    let block_product = include_str!("block_product.wgsl");
    let name = match variant {
        Variant::Rows | Variant::RowsQuads => {
            let x = if needs.subgroups { quads } else { direct };
            parts.extend([x, block_product, include_str!("rows.wgsl")]);
            "linear_rows"
        }
        Variant::Tiles | Variant::TilesQuads => {
            let x = if needs.subgroups { quads } else { direct };
            parts.extend([x, include_str!("tiles.wgsl")]);
            "linear_tiles"
        }
        Variant::Tree | Variant::Subgroup => {
            constants.push(("SUMS", Constant::U32(2)));
            parts.extend([direct, block_product, norm_part(op), reduce_part(variant)]);
            parts.push(include_str!("cooperative.wgsl"));
            "linear_cooperative"
        }
        Variant::TreeBy4 | Variant::SubgroupBy4 => {
            constants.push(("SUMS", Constant::U32(5)));
            parts.extend([direct, norm_part(op), reduce_part(variant)]);
            parts.push(include_str!("cooperative_4.wgsl"));
            "linear_cooperative_4"
        }
        Variant::Gemm => {
            parts.push(include_str!("gemm.wgsl"));
            "linear_gemm"
        }
    };
    Shader {
        name,
        parts,
        constants,
        needs,
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
