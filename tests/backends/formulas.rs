//! Both backends against numbers worked out by hand or by the formula itself.

use pollster::block_on;
use tokenbrook::backend::cpu::{CpuBackend, Precision};
use tokenbrook::backend::ops::{
    Activation, Attention, Cache, DownResidual, Embed, HeadShape, LmHead, Norm, NormGateUpAct,
    NormQkv, NormSpan, OutResidual, QkRopeAppend,
};
use tokenbrook::backend::reference::ReferenceBackend;
use tokenbrook::backend::{
    Backend, MatrixId, MatrixSpec, ModelShape, Outputs, PartSpec, RopeKind, RopeSpec, SequenceStep,
    Slot, Step, TokenSource,
};
use tokenbrook::gguf::GgmlType;

/// Embeddings of the two tokens; a norm without gains leaves them in proportion.
const EMBEDDINGS: [[f32; 4]; 2] = [[1.0, -2.0, 3.0, 0.5], [-0.3, 0.8, 1.1, -2.0]];
const EPS: f32 = 1e-6;

fn matrix<B: Backend>(backend: &mut B, rows: &[[f32; 4]]) -> MatrixId {
    let part = PartSpec {
        name: "m".to_owned(),
        rows: rows.len(),
    };
    let id = backend
        .create_matrix(&MatrixSpec {
            cols: 4,
            parts: vec![part],
        })
        .unwrap();
    let bytes: Vec<u8> = rows
        .iter()
        .flatten()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    backend.write_rows(id, 0, GgmlType::F32, 0, &bytes).unwrap();
    id
}

fn identity() -> [[f32; 4]; 4] {
    std::array::from_fn(|i| std::array::from_fn(|j| if i == j { 1.0 } else { 0.0 }))
}

fn normed(x: [f64; 4]) -> [f64; 4] {
    let mean_square = x.iter().map(|v| v * v).sum::<f64>() / 4.0;
    x.map(|v| v / (mean_square + f64::from(EPS)).sqrt())
}

fn wide(x: [f32; 4]) -> [f64; 4] {
    x.map(f64::from)
}

fn dot(a: [f64; 4], b: [f64; 4]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn rotated(x: [f64; 4], kind: RopeKind, angles: [f64; 2]) -> [f64; 4] {
    let pairs = match kind {
        RopeKind::Interleaved => [(0, 1), (2, 3)],
        RopeKind::Halves => [(0, 2), (1, 3)],
    };
    let mut out = x;
    for ((a, b), angle) in pairs.into_iter().zip(angles) {
        out[a] = x[a] * angle.cos() - x[b] * angle.sin();
        out[b] = x[a] * angle.sin() + x[b] * angle.cos();
    }
    out
}

/// One layer with identity projections over two tokens. Returns the logits of the second,
/// which are the norm of the residual stream.
fn run<B: Backend>(mut b: B, kind: RopeKind, activation: Activation) -> Vec<f32> {
    let heads = HeadShape {
        num_heads: 1,
        num_kv_heads: 1,
        head_dim: 4,
    };
    let table = matrix(&mut b, &EMBEDDINGS);
    let qkv = matrix(&mut b, &[identity(), identity(), identity()].concat());
    let out = matrix(&mut b, &identity());
    let gate_up = matrix(&mut b, &[identity(), identity()].concat());
    let head = matrix(&mut b, &[[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]);
    let norm = Norm {
        weight: b.create_vector(&[1.0; 4]).unwrap(),
        eps: EPS,
    };
    let rope = RopeSpec {
        kind,
        frequencies: vec![1.25, 0.5],
        magnitude: 1.0,
    };
    let rope = Some(b.create_rope(&rope).unwrap());
    b.prepare(&ModelShape {
        num_layers: 1,
        window_layers: 0,
        hidden_size: 4,
        intermediate_size: 4,
        vocab_size: 2,
        heads,
        max_rows: 2,
        block_tokens: 2,
    })
    .unwrap();
    let blocks = [b.allocate_block(Cache::Full).unwrap()];
    let sequences = [SequenceStep {
        rows: 2,
        position: 0,
        blocks: &blocks,
        window_blocks: &[],
    }];
    let tokens = TokenSource::Ids(&[0, 1]);
    b.begin(&Step {
        tokens,
        sequences: &sequences,
        outputs: Outputs::LastRow,
    })
    .unwrap();
    b.embed(&Embed { table, scale: 1.0 }, Slot::Residual)
        .unwrap();
    b.norm_qkv(
        Slot::Residual,
        &NormQkv {
            norm: Some(norm),
            qkv,
            bias: None,
        },
        Slot::Qkv,
    )
    .unwrap();
    let append = QkRopeAppend {
        cache: Cache::Full,
        layer: 0,
        heads,
        rope,
        q_norm: None,
        k_norm: None,
        norm_span: NormSpan::Head,
    };
    b.qk_rope_append(Slot::Qkv, &append).unwrap();
    let attention = Attention {
        cache: Cache::Full,
        layer: 0,
        heads,
        scale: 0.5,
        window: None,
        soft_cap: None,
    };
    b.attention(Slot::Qkv, &attention, Slot::Attended).unwrap();
    let out_residual = OutResidual {
        out,
        bias: None,
        post_norm: None,
        scale: 1.0,
    };
    b.out_residual(Slot::Attended, &out_residual, Slot::Residual)
        .unwrap();
    let gate_up = NormGateUpAct {
        norm: Some(norm),
        gate_up,
        activation,
    };
    b.norm_gate_up_act(Slot::Residual, &gate_up, Slot::Activated)
        .unwrap();
    let down = DownResidual {
        down: out,
        post_norm: None,
        scale: 1.0,
    };
    b.down_residual(Slot::Activated, &down, Slot::Residual)
        .unwrap();
    b.lm_head(
        Slot::Residual,
        &LmHead {
            norm,
            head,
            scale: 1.0,
            soft_cap: None,
        },
        Slot::Logits,
    )
    .unwrap();
    block_on(b.submit()).unwrap();
    block_on(b.read_logits()).unwrap().to_vec()
}

/// The same in f64, by the formulas.
fn expected(kind: RopeKind, activation: Activation) -> [f64; 2] {
    let embeddings = EMBEDDINGS.map(wide);
    let [v0, v1] = embeddings.map(normed);
    // Position 0 is not rotated.
    let angles = [1.25, 0.5];
    let (query, key) = (rotated(v1, kind, angles), rotated(v1, kind, angles));
    let scores = [dot(query, v0) * 0.5, dot(query, key) * 0.5];
    let weights = scores.map(f64::exp);
    let total: f64 = weights.iter().sum();
    let x: [f64; 4] = std::array::from_fn(|i| {
        embeddings[1][i] + (weights[0] * v0[i] + weights[1] * v1[i]) / total
    });
    let n = normed(x);
    let activated = n.map(|v| match activation {
        Activation::Silu => v / (1.0 + (-v).exp()) * v,
        Activation::GeluTanh => {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (v + 0.044715 * v.powi(3));
            0.5 * v * (1.0 + u.tanh()) * v
        }
    });
    let x: [f64; 4] = std::array::from_fn(|i| x[i] + activated[i]);
    let n = normed(x);
    [n[0], n[3]]
}

#[test]
fn a_whole_layer_follows_its_formulas() {
    for kind in [RopeKind::Interleaved, RopeKind::Halves] {
        for activation in [Activation::Silu, Activation::GeluTanh] {
            let want = expected(kind, activation);
            let results = [
                run(ReferenceBackend::new(), kind, activation),
                run(CpuBackend::new(Precision::Exact), kind, activation),
                run(CpuBackend::new(Precision::Fast), kind, activation),
            ];
            for got in results {
                for (got, want) in got.iter().zip(want) {
                    let off = (f64::from(*got) - want).abs();
                    assert!(off < 1e-6, "{kind:?} {activation:?}: {got} for {want}");
                }
            }
        }
    }
}
