//! A model of candle-transformers in wasm, as candle's own examples for the browser have it: the
//! file as bytes, the prompt in one pass, then one token a call. Greedy, from token ids to token
//! ids.

use std::io::Cursor;

use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::{D, Device, Result, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;
use wasm_bindgen::JsError;
use wasm_bindgen::prelude::wasm_bindgen;

/// Reads a file's weights. llama alone, which is the architecture of the default model.
fn read(file: Vec<u8>) -> Result<ModelWeights> {
    let mut reader = Cursor::new(file);
    let content = Content::read(&mut reader)?;
    match content.metadata.get("general.architecture") {
        Some(Value::String(name)) if name == "llama" => {
            ModelWeights::from_gguf(content, &mut reader, &Device::Cpu)
        }
        Some(Value::String(other)) => candle_core::bail!("it is built for llama, not {other}"),
        _ => candle_core::bail!("the file names no architecture"),
    }
}

/// A model and the text that it is in.
#[wasm_bindgen]
pub struct Model {
    weights: ModelWeights,
    /// Tokens in the KV cache.
    position: usize,
    /// The last one made, which no pass has read yet.
    last: Option<u32>,
}

#[wasm_bindgen]
impl Model {
    /// Reads a GGUF file.
    ///
    /// # Errors
    ///
    /// Where candle cannot read it, or the model is not of the architecture llama.
    #[wasm_bindgen(constructor)]
    pub fn new(file: Vec<u8>) -> core::result::Result<Model, JsError> {
        Ok(Self {
            weights: read(file)?,
            position: 0,
            last: None,
        })
    }

    /// Begins anew with a prompt of token ids; gives the id of the first token behind it.
    ///
    /// # Errors
    ///
    /// Where candle's pass fails, as on an id beyond the vocabulary.
    pub fn prompt(&mut self, ids: &[u32]) -> core::result::Result<u32, JsError> {
        self.position = 0;
        Ok(self.advance(ids)?)
    }

    /// The id of the next token.
    ///
    /// # Errors
    ///
    /// Where candle's pass fails, or there was no prompt.
    pub fn next(&mut self) -> core::result::Result<u32, JsError> {
        let last = self
            .last
            .ok_or_else(|| JsError::new("there is no prompt"))?;
        Ok(self.advance(&[last])?)
    }

    fn advance(&mut self, ids: &[u32]) -> Result<u32> {
        self.last = None;
        let input = Tensor::new(ids, &Device::Cpu)?.unsqueeze(0)?;
        let logits = self.weights.forward(&input, self.position)?;
        let best = logits.squeeze(0)?.argmax(D::Minus1)?.to_scalar()?;
        self.position += ids.len();
        self.last = Some(best);
        Ok(best)
    }
}
