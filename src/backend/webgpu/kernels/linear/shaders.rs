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
        subgroups: variant.shares_loads(),
        ..Needs::default()
    };
    parts.push(match needs.subgroups {
        true => include_str!("x_quads.wgsl"),
        false => include_str!("x_direct.wgsl"),
    });
    let name = match variant {
        Variant::Rows | Variant::RowsQuads => {
            parts.push(include_str!("block_product.wgsl"));
            parts.push(include_str!("rows.wgsl"));
            "linear_rows"
        }
        Variant::Tiles | Variant::TilesQuads => {
            parts.push(include_str!("tiles.wgsl"));
            "linear_tiles"
        }
    };
    Shader {
        name,
        parts,
        constants,
        needs,
    }
}
