//! Writes a GGUF model's weights anew in another quantization, everything else as it is.
//!
//! `cargo run --release --example requantize -- IN.gguf OUT.gguf Q4_0|Q8_0|Q4_K_M`
//!
//! Weights that were rounded before are rounded once more: for speed that is the same, and each
//! engine is held to what the new file says.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

use candle_core::quantized::gguf_file::{Content, Value, write};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Error, Result};

/// A quantization of a whole file, as llama.cpp names them.
#[derive(Clone, Copy)]
enum Mix {
    Q4_0,
    Q8_0,
    Q4KM,
}

impl Mix {
    fn named(name: &str) -> Option<Self> {
        match name {
            "Q4_0" => Some(Self::Q4_0),
            "Q8_0" => Some(Self::Q8_0),
            "Q4_K_M" => Some(Self::Q4KM),
            _ => None,
        }
    }

    /// Its number in `general.file_type`.
    fn file_type(self) -> u32 {
        match self {
            Self::Q4_0 => 2,
            Self::Q8_0 => 7,
            Self::Q4KM => 15,
        }
    }

    /// The type of a matrix, of which a row has `cols` elements, in layer `layer` of `layers`.
    fn of(self, name: &str, cols: usize, layer: Option<usize>, layers: usize) -> GgmlDType {
        let is_head = name == "output.weight" || name == "token_embd.weight";
        let wanted = match self {
            Self::Q8_0 => GgmlDType::Q8_0,
            Self::Q4_0 if is_head => GgmlDType::Q6K,
            Self::Q4_0 => GgmlDType::Q4_0,
            Self::Q4KM if is_head => GgmlDType::Q6K,
            Self::Q4KM => {
                let is_sensitive = name.contains("attn_v.") || name.contains("ffn_down.");
                match layer {
                    Some(layer) if is_sensitive && wants_more_bits(layer, layers) => GgmlDType::Q6K,
                    _ => GgmlDType::Q4K,
                }
            }
        };
        // Rows that are no whole superblocks go to the next type of blocks of 32.
        match wanted {
            GgmlDType::Q4K if !cols.is_multiple_of(256) => GgmlDType::Q5_0,
            GgmlDType::Q6K if !cols.is_multiple_of(256) => GgmlDType::Q8_0,
            wanted => wanted,
        }
    }
}

/// The first and the last eighth of the layers, and every third between.
fn wants_more_bits(layer: usize, layers: usize) -> bool {
    let eighth = layers / 8;
    layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2
}

fn layer_of(name: &str) -> Option<usize> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

fn requantize(source: &str, target: &str, mix: Mix) -> Result<()> {
    let mut file = File::open(source)?;
    let content = Content::read(&mut file)?;
    let mut names: Vec<_> = content.tensor_infos.iter().collect();
    // In the order of the file.
    names.sort_by_key(|(_, info)| info.offset);
    let layers = names.iter().filter_map(|(name, _)| layer_of(name)).max();
    let layers = layers.map_or(0, |last| last + 1);
    let mut tensors = Vec::new();
    for (name, _) in names {
        let tensor = content.tensor(&mut file, name, &Device::Cpu)?;
        tensors.push((name.as_str(), again(name, tensor, mix, layers)?));
    }
    let mut metadata: Vec<_> = content.metadata.clone().into_iter().collect();
    metadata.retain(|(key, _)| key != "general.file_type");
    let file_type = ("general.file_type".to_owned(), Value::U32(mix.file_type()));
    metadata.push(file_type);
    metadata.sort_by(|(a, _), (b, _)| a.cmp(b));
    let metadata: Vec<_> = metadata
        .iter()
        .map(|(key, it)| (key.as_str(), it))
        .collect();
    let tensors: Vec<_> = tensors.iter().map(|(name, it)| (*name, it)).collect();
    let mut out = BufWriter::new(File::create(target)?);
    write(&mut out, &metadata, &tensors)?;
    out.flush()?;
    Ok(())
}

/// A tensor in its type of a mix; vectors stay what they are.
fn again(name: &str, tensor: QTensor, mix: Mix, layers: usize) -> Result<QTensor> {
    let &[_, cols] = tensor.shape().dims() else {
        return Ok(tensor);
    };
    let wanted = mix.of(name, cols, layer_of(name), layers);
    if wanted == tensor.dtype() {
        return Ok(tensor);
    }
    QTensor::quantize(&tensor.dequantize(&Device::Cpu)?, wanted)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [source, target, mix] => match Mix::named(mix) {
            Some(mix) => requantize(source, target, mix),
            None => Err(Error::Msg(format!("no mix `{mix}`: Q4_0, Q8_0 or Q4_K_M"))),
        },
        _ => Err(Error::Msg("usage: IN.gguf OUT.gguf MIX".to_owned())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Its callers read this.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}
