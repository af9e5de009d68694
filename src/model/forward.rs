//! The forward pass, once, over [`Backend`].

use super::config::Config;
use super::weights::Weights;
use crate::backend::ops::{
    Attention, DownResidual, Embed, LmHead, Norm, NormGateUpAct, NormQkv, NormSpan, OutResidual,
    QkRopeAppend,
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
    let embed = Embed {
        table: weights.embedding,
        scale: config.embedding_scale,
    };
    backend.embed(&embed, Slot::Residual)?; // [T, C]
    for (layer, place) in weights.layers.iter().zip(&config.layers) {
        let qkv = NormQkv {
            norm: layer.attn_norm.map(norm),
            qkv: layer.qkv,
            bias: layer.qkv_bias,
        };
        backend.norm_qkv(Slot::Residual, &qkv, Slot::Qkv)?; // [T, C] -> [T, (H + 2 G) D]
        let append = QkRopeAppend {
            cache: place.cache,
            layer: place.ordinal,
            heads,
            rope: layer.rope,
            q_norm: layer.q_norm.map(norm),
            k_norm: layer.k_norm.map(norm),
            norm_span: config.architecture.qk_norm.unwrap_or(NormSpan::Head),
        };
        backend.qk_rope_append(Slot::Qkv, &append)?; // [T, (H + 2 G) D], KV cache
        let attention = Attention {
            cache: place.cache,
            layer: place.ordinal,
            heads,
            scale: config.attention_scale,
            window: place.window,
            soft_cap: config.attention_cap,
        };
        backend.attention(Slot::Qkv, &attention, Slot::Attended)?; // -> [T, H D]
        let out = OutResidual {
            out: layer.attn_output,
            bias: layer.attn_output_bias,
            post_norm: layer.attn_post_norm.map(norm),
            scale: config.residual_scale,
        };
        backend.out_residual(Slot::Attended, &out, Slot::Residual)?; // [T, H D] -> [T, C]
        let gate_up = NormGateUpAct {
            norm: layer.ffn_norm.map(norm),
            gate_up: layer.gate_up,
            activation: config.architecture.activation,
        };
        backend.norm_gate_up_act(Slot::Residual, &gate_up, Slot::Activated)?; // -> [T, F]
        let down = DownResidual {
            down: layer.ffn_down,
            post_norm: layer.ffn_post_norm.map(norm),
            scale: config.residual_scale,
        };
        backend.down_residual(Slot::Activated, &down, Slot::Residual)?; // [T, F] -> [T, C]
    }
    if outputs != Outputs::Nothing {
        let head = LmHead {
            norm: norm(weights.output_norm),
            head: weights.head,
            scale: config.logit_scale,
            soft_cap: config.logit_cap,
        };
        backend.lm_head(Slot::Residual, &head, Slot::Logits)?; // [T, C] -> [1 or T, V]
    }
    Ok(())
}
