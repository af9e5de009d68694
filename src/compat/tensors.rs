//! Which tensors a model has, under candle's names, and where in a file they lie.

use super::shape::{Family, Shape};

/// A tensor that candle's model reads.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Want {
    /// Candle's name for it.
    pub(super) name: String,
    /// Contiguous dimension first, as in GGUF.
    pub(super) shape: Vec<u64>,
    /// Ways to have it; the first that a file has all of is taken.
    pub(super) forms: Vec<Vec<Source>>,
    /// Whether the model cannot do without.
    pub(super) required: bool,
}

/// A tensor of the file, or one of equal parts of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Source {
    /// GGUF tensor name.
    pub(super) tensor: String,
    /// Its whole shape.
    pub(super) shape: Vec<u64>,
    /// Which part of how many.
    pub(super) part: (usize, usize),
}

/// Gathers a model's tensors.
#[derive(Default)]
struct Wants(Vec<Want>);

impl Wants {
    /// One of these names, the first being candle's.
    fn any(&mut self, names: &[String], shape: &[usize], required: bool) {
        let whole = |name: &String| vec![source(name.clone(), shape, (0, 1))];
        self.0.push(Want {
            name: names[0].clone(),
            shape: dimensions(shape),
            forms: names.iter().map(whole).collect(),
            required,
        });
    }

    fn one(&mut self, name: String, shape: &[usize]) {
        self.any(&[name], shape, true);
    }

    fn optional(&mut self, name: String, shape: &[usize]) {
        self.any(&[name], shape, false);
    }

    /// A weight and its bias, for a matrix `[outputs, inputs]`.
    fn linear(&mut self, name: &str, inputs: usize, outputs: usize) {
        self.one(format!("{name}.weight"), &[inputs, outputs]);
        self.one(format!("{name}.bias"), &[outputs]);
    }

    /// Queries, keys and values in one tensor, or stacked from three.
    fn stacked_qkv(&mut self, block: &str, kind: &str, shape: impl Fn(usize) -> Vec<usize>) {
        let name = format!("{block}.attn_qkv.{kind}");
        let whole = shape(3);
        let third = |part| source(format!("{block}.attn_{part}.{kind}"), &shape(1), (0, 1));
        self.0.push(Want {
            forms: vec![
                vec![source(name.clone(), &whole, (0, 1))],
                ["q", "k", "v"].map(third).to_vec(),
            ],
            name,
            shape: dimensions(&whole),
            required: true,
        });
    }

    /// One matrix an expert, from a tensor of all or each by itself.
    fn experts(&mut self, kind: &str, [inputs, outputs]: [usize; 2], experts: usize) {
        for expert in 0..experts {
            let name = format!("{kind}.{expert}.weight");
            let all = [inputs, outputs, experts];
            self.0.push(Want {
                forms: vec![
                    vec![source(
                        format!("{kind}_exps.weight"),
                        &all,
                        (expert, experts),
                    )],
                    vec![source(name.clone(), &all[..2], (0, 1))],
                ],
                name,
                shape: dimensions(&all[..2]),
                required: true,
            });
        }
    }
}

fn source(tensor: String, shape: &[usize], part: (usize, usize)) -> Source {
    Source {
        tensor,
        shape: dimensions(shape),
        part,
    }
}

fn dimensions(shape: &[usize]) -> Vec<u64> {
    shape.iter().map(|&dimension| dimension as u64).collect()
}

/// The name of the embedding, which candle's models keep as f32.
pub(super) const EMBEDDING: &str = "token_embd.weight";
/// The name of the output matrix, where it is not the embedding.
pub(super) const OUTPUT: &str = "output.weight";

/// All tensors of a model.
pub(super) fn wants(shape: &Shape) -> Vec<Want> {
    let (c, v) = (shape.hidden_size, shape.vocab_size);
    let mut wants = Wants::default();
    wants.one(EMBEDDING.to_owned(), &[c, v]);
    let norm = "output_norm.weight".to_owned();
    match shape.family {
        Family::Phi2 => {
            wants.linear("output", c, v);
            wants.one(norm, &[c]);
            wants.one("output_norm.bias".to_owned(), &[c]);
        }
        Family::Glm4 | Family::Mixtral => {
            wants.optional(OUTPUT.to_owned(), &[c, v]);
            wants.one(norm, &[c]);
        }
        Family::Lfm2 => {
            wants.optional(OUTPUT.to_owned(), &[c, v]);
            wants.any(&[norm, "token_embd_norm.weight".to_owned()], &[c], true);
        }
    }
    for (layer, &kv_heads) in shape.kv_heads.iter().enumerate() {
        let block = format!("blk.{layer}");
        match shape.family {
            Family::Phi2 => phi2(&mut wants, shape, &block),
            Family::Glm4 => glm4(&mut wants, shape, kv_heads, &block),
            Family::Lfm2 => lfm2(&mut wants, shape, kv_heads, &block),
            Family::Mixtral => mixtral(&mut wants, shape, kv_heads, &block),
        }
    }
    wants.0
}

fn phi2(wants: &mut Wants, shape: &Shape, block: &str) {
    let (c, f) = (shape.hidden_size, shape.intermediate_size);
    wants.one(format!("{block}.attn_norm.weight"), &[c]);
    wants.one(format!("{block}.attn_norm.bias"), &[c]);
    wants.stacked_qkv(block, "weight", |thirds| vec![c, thirds * c]);
    wants.stacked_qkv(block, "bias", |thirds| vec![thirds * c]);
    wants.linear(&format!("{block}.attn_output"), c, c);
    wants.linear(&format!("{block}.ffn_up"), c, f);
    wants.linear(&format!("{block}.ffn_down"), f, c);
}

/// Projections of attention without biases.
fn attention(wants: &mut Wants, shape: &Shape, kv_heads: usize, block: &str) {
    let c = shape.hidden_size;
    let (q, kv) = (shape.num_heads * shape.head_dim, kv_heads * shape.head_dim);
    wants.one(format!("{block}.attn_q.weight"), &[c, q]);
    wants.one(format!("{block}.attn_k.weight"), &[c, kv]);
    wants.one(format!("{block}.attn_v.weight"), &[c, kv]);
    wants.one(format!("{block}.attn_output.weight"), &[q, c]);
}

fn glm4(wants: &mut Wants, shape: &Shape, kv_heads: usize, block: &str) {
    let (c, f) = (shape.hidden_size, shape.intermediate_size);
    for norm in [
        "attn_norm",
        "ffn_norm",
        "post_attention_norm",
        "post_ffw_norm",
    ] {
        wants.one(format!("{block}.{norm}.weight"), &[c]);
    }
    attention(wants, shape, kv_heads, block);
    for (part, heads) in [("q", shape.num_heads), ("k", kv_heads), ("v", kv_heads)] {
        let bias = format!("{block}.attn_{part}.bias");
        wants.optional(bias, &[heads * shape.head_dim]);
    }
    wants.one(format!("{block}.ffn_up.weight"), &[c, 2 * f]);
    wants.one(format!("{block}.ffn_down.weight"), &[f, c]);
}

fn lfm2(wants: &mut Wants, shape: &Shape, kv_heads: usize, block: &str) {
    let (c, f, d) = (shape.hidden_size, shape.intermediate_size, shape.head_dim);
    wants.one(format!("{block}.attn_norm.weight"), &[c]);
    wants.one(format!("{block}.ffn_norm.weight"), &[c]);
    wants.one(format!("{block}.ffn_gate.weight"), &[c, f]);
    wants.one(format!("{block}.ffn_up.weight"), &[c, f]);
    wants.one(format!("{block}.ffn_down.weight"), &[f, c]);
    if kv_heads > 0 {
        attention(wants, shape, kv_heads, block);
        wants.one(format!("{block}.attn_q_norm.weight"), &[d]);
        wants.one(format!("{block}.attn_k_norm.weight"), &[d]);
    } else {
        let kernel = [shape.convolution, c];
        wants.one(format!("{block}.shortconv.conv.weight"), &kernel);
        wants.one(format!("{block}.shortconv.in_proj.weight"), &[c, 3 * c]);
        wants.one(format!("{block}.shortconv.out_proj.weight"), &[c, c]);
    }
}

fn mixtral(wants: &mut Wants, shape: &Shape, kv_heads: usize, block: &str) {
    let (c, f) = (shape.hidden_size, shape.intermediate_size);
    wants.one(format!("{block}.attn_norm.weight"), &[c]);
    wants.one(format!("{block}.ffn_norm.weight"), &[c]);
    attention(wants, shape, kv_heads, block);
    let router = format!("{block}.ffn_gate_inp.weight");
    wants.one(router, &[c, shape.experts]);
    for (kind, sizes) in [("gate", [c, f]), ("down", [f, c]), ("up", [c, f])] {
        wants.experts(&format!("{block}.ffn_{kind}"), sizes, shape.experts);
    }
}
