//! Candle's models behind one call.

use candle_core::quantized::gguf_file::Content;
use candle_core::{DType, Device, Result, Tensor};
use candle_transformers::models::{quantized_glm4, quantized_lfm2, quantized_llama, quantized_phi};

use super::kept::Kept;
use super::shape::{Family, Shape};

/// One of candle's models, its cache included.
pub(super) struct Whole {
    model: Model,
    vocab_size: usize,
    /// Whether the cache holds anything.
    used: bool,
}

enum Model {
    Phi2(quantized_phi::ModelWeights),
    Glm4(quantized_glm4::ModelWeights),
    Lfm2(quantized_lfm2::ModelWeights),
    Mixtral(quantized_llama::ModelWeights),
}

impl Whole {
    /// Reads a model whose table `content` has been checked against `shape`.
    pub(super) fn load(shape: &Shape, content: Content, kept: &mut Kept) -> Result<Self> {
        let cpu = Device::Cpu;
        let model = match shape.family {
            Family::Phi2 => {
                Model::Phi2(quantized_phi::ModelWeights::from_gguf(content, kept, &cpu)?)
            }
            Family::Glm4 => Model::Glm4(quantized_glm4::ModelWeights::from_gguf(
                content,
                kept,
                &cpu,
                DType::F32,
            )?),
            Family::Lfm2 => Model::Lfm2(quantized_lfm2::ModelWeights::from_gguf(
                content, kept, &cpu,
            )?),
            Family::Mixtral => Model::Mixtral(quantized_llama::ModelWeights::from_gguf(
                content, kept, &cpu,
            )?),
        };
        Ok(Self {
            model,
            vocab_size: shape.vocab_size,
            used: false,
        })
    }

    /// Empties the cache.
    ///
    /// All models start attention anew at position 0. The convolutions of `quantized_lfm2` do
    /// not when they get a single token: they go on with the last positions that they saw. In
    /// a pass of several tokens at position 0 they see zeros before the first, so that two
    /// tokens whose embedding is zero leave zeros behind: the model has no biases, and what is
    /// zero stays zero through every norm, product and attention.
    pub(super) fn restart(&mut self) -> Result<()> {
        if let (Model::Lfm2(model), true) = (&mut self.model, self.used) {
            let silent = index(self.vocab_size)?;
            model.forward(&Tensor::new(&[[silent, silent]], &Device::Cpu)?, 0)?;
        }
        self.used = false;
        Ok(())
    }

    /// Appends a token at `position`, which is what the cache holds; gives its logits `[V]`.
    pub(super) fn step(&mut self, id: u32, position: usize) -> Result<Vec<f32>> {
        self.used = true;
        let ids = Tensor::new(&[[id]], &Device::Cpu)?;
        let logits = match &mut self.model {
            Model::Phi2(model) => model.forward(&ids, position)?,
            Model::Glm4(model) => model.forward(&ids, position)?,
            Model::Lfm2(model) => model.forward(&ids, position)?,
            Model::Mixtral(model) => model.forward(&ids, position)?,
        };
        let mut logits = logits.flatten_all()?.to_vec1::<f32>()?;
        // The token that was added to the embedding has a logit where that is also the output.
        logits.truncate(self.vocab_size);
        Ok(logits)
    }
}

fn index(id: usize) -> Result<u32> {
    u32::try_from(id).map_err(|error| candle_core::Error::Msg(error.to_string()))
}
