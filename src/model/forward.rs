//! The forward pass, once, over [`Backend`].

use super::config::Config;
use super::weights::Weights;
use crate::backend::ops::{
    Attention, DownResidual, Embed, LmHead, Norm, NormGateUpAct, NormQkv, OutResidual, QkRopeAppend,
};
use crate::backend::{Backend, BackendError, Outputs, Slot, VectorId};

/// Issues one pass. The step itself (rows, positions, tokens) is the backend's own state, set
/// by [`Backend::begin`]; `outputs` must be what that step asked for.
///
/// # Errors
/// The backend's, unchanged.
pub fn forward<B: Backend>(
    config: &Config,
    weights: &Weights,
    backend: &mut B,
    outputs: Outputs,
) -> Result<(), BackendError> {
    let norm = |weight: VectorId| Norm {
        weight,
        eps: config.rms_norm_eps,
    };
    let heads = config.heads;
    #[expect(
        clippy::cast_precision_loss,
        reason = "a head's length is far below 2^24"
    )]
    let scale = 1.0 / (heads.head_dim as f32).sqrt();

    backend.embed(
        &Embed {
            table: weights.embedding,
            scale: 1.0,
        },
        Slot::Residual,
    )?; // [T, C]
    for (index, layer) in weights.layers.iter().enumerate() {
        let qkv = NormQkv {
            norm: norm(layer.attn_norm),
            qkv: layer.qkv,
            bias: layer.qkv_bias,
        };
        backend.norm_qkv(Slot::Residual, &qkv, Slot::Qkv)?; // [T, C] -> [T, (H + 2 G) D]
        let append = QkRopeAppend {
            layer: index,
            heads,
            rope: Some(weights.rope),
            q_norm: None,
            k_norm: None,
        };
        backend.qk_rope_append(Slot::Qkv, &append)?; // [T, (H + 2 G) D], KV cache
        let attention = Attention {
            layer: index,
            heads,
            scale,
            window: None,
            soft_cap: None,
        };
        backend.attention(Slot::Qkv, &attention, Slot::Attended)?; // -> [T, H D]
        let out = OutResidual {
            out: layer.attn_output,
            bias: None,
            post_norm: None,
        };
        backend.out_residual(Slot::Attended, &out, Slot::Residual)?; // [T, H D] -> [T, C]
        let gate_up = NormGateUpAct {
            norm: norm(layer.ffn_norm),
            gate_up: layer.gate_up,
            activation: config.architecture.activation,
        };
        backend.norm_gate_up_act(Slot::Residual, &gate_up, Slot::Activated)?; // -> [T, F]
        let down = DownResidual {
            down: layer.ffn_down,
            post_norm: None,
        };
        backend.down_residual(Slot::Activated, &down, Slot::Residual)?; // [T, F] -> [T, C]
    }
    if outputs != Outputs::Nothing {
        let head = LmHead {
            norm: norm(weights.output_norm),
            head: weights.head,
            soft_cap: None,
        };
        backend.lm_head(Slot::Residual, &head, Slot::Logits)?; // [T, C] -> [1 or T, V]
    }
    Ok(())
}
