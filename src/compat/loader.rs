//! From rows of a file to one of candle's models.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::{Content, TensorInfo as CandleTensor, VersionedMagic};

use super::backend::CompatBackend;
use super::kept::Kept;
use super::shape::{Family, Shape};
use super::tensors::{EMBEDDING, OUTPUT, Source, Want, wants};
use super::whole::Whole;
use crate::backend::{BackendError, BackendMemory};
use crate::gguf::{GgmlType, Header, TensorInfo};
use crate::model::{Assembly, Limits, ModelError, ModelFacts, Plan};

/// Builds one of candle's models into a [`CompatBackend`].
#[derive(Debug)]
pub struct CompatLoader {
    shape: Shape,
    wants: Vec<Want>,
    /// Shapes of all tensors that the file may have.
    accepted: BTreeMap<String, Vec<u64>>,
    held: BTreeMap<String, Held>,
    parameters: u64,
}

/// A tensor of the file, as far as it has come.
#[derive(Debug)]
struct Held {
    ggml_type: GgmlType,
    byte_len: u64,
    row_bytes: u64,
    slabs: Vec<Vec<u8>>,
}

impl Held {
    fn arrived(&self) -> u64 {
        self.slabs.iter().map(|slab| slab.len() as u64).sum()
    }

    /// Bytes once candle has taken it: it keeps as f32 what is not quantized.
    fn loaded_bytes(&self) -> u64 {
        let (block, bytes) = (self.ggml_type.block_elements(), self.ggml_type.row_bytes(1));
        match (block, bytes) {
            (1, Some(bytes)) if bytes > 0 => self.byte_len / bytes * size_of::<f32>() as u64,
            _ => self.byte_len,
        }
    }
}

impl Assembly<CompatBackend> for CompatLoader {
    fn begin(header: &Header, _backend: &mut CompatBackend) -> Result<Self, ModelError> {
        let shape = Shape::from_metadata(&header.metadata)?;
        let wants = wants(&shape);
        let sources = wants.iter().flat_map(|want| want.forms.iter().flatten());
        let accepted = sources
            .map(|source| (source.tensor.clone(), source.shape.clone()))
            .collect();
        Ok(Self {
            shape,
            wants,
            accepted,
            held: BTreeMap::new(),
            parameters: 0,
        })
    }

    fn facts(&self) -> ModelFacts {
        ModelFacts {
            architecture: self.shape.family.architecture(),
            name: self.shape.name.clone(),
            vocab_size: self.shape.vocab_size,
            hidden_size: self.shape.hidden_size,
            context_length: self.shape.context_length,
            window: None,
            pooling: None,
            rewinds: false,
        }
    }

    fn header(&mut self, header: &Header, _backend: &mut CompatBackend) -> Result<(), ModelError> {
        for tensor in &header.tensors {
            let name = &tensor.name;
            let expected = self.accepted.get(name).ok_or_else(|| self.unknown(name))?;
            if tensor.shape != *expected {
                return Err(ModelError::TensorShape {
                    name: name.clone(),
                    expected: expected.clone(),
                    actual: tensor.shape.clone(),
                });
            }
            if candle_type(tensor.ggml_type).is_none() {
                return Err(unreadable(name, tensor.ggml_type).into());
            }
            let elements = tensor.shape.iter().product();
            self.parameters = self.parameters.saturating_add(elements);
            let held = Held {
                ggml_type: tensor.ggml_type,
                byte_len: tensor.byte_len,
                row_bytes: tensor.row_bytes(),
                slabs: Vec::new(),
            };
            self.held.insert(name.clone(), held);
        }
        Ok(())
    }

    fn rows(
        &mut self,
        tensor: &TensorInfo,
        first_row: u64,
        blocks: &[u8],
        _backend: &mut CompatBackend,
    ) -> Result<(), ModelError> {
        let held = self.held.get_mut(&tensor.name);
        let held = held.ok_or(BackendError::Usage {
            op: "rows",
            why: "of a tensor that no header had",
        })?;
        if held.arrived() != first_row.saturating_mul(held.row_bytes) {
            let why = "rows came out of order";
            return Err(BackendError::Usage { op: "rows", why }.into());
        }
        held.slabs.push(copied(blocks)?);
        Ok(())
    }

    fn parameters(&self) -> u64 {
        self.parameters
    }

    fn finish(mut self, limits: &Limits, backend: &mut CompatBackend) -> Result<Plan, ModelError> {
        let chosen = self.choose()?;
        let tied = !self.held.contains_key(OUTPUT);
        let weights_bytes = self.weights_bytes(tied);
        self.probe()?;
        if self.shape.family == Family::Lfm2 {
            self.add_silent_token()?;
        }
        let (tensors, mut kept) = self.lay_out(&chosen, tied);
        let content = Content {
            magic: VersionedMagic::GgufV3,
            metadata: self.shape.candle_metadata(limits.context_length),
            tensor_infos: tensors,
            tensor_data_offset: 0,
        };
        let whole =
            Whole::load(&self.shape, content, &mut kept).map_err(|error| ModelError::Refused {
                architecture: self.shape.family.architecture(),
                why: error.to_string(),
            })?;
        let memory = BackendMemory {
            weights_bytes,
            ..BackendMemory::default()
        };
        backend.install(whole, &self.shape, memory);
        Ok(Plan::Whole)
    }
}

impl CompatLoader {
    fn unknown(&self, name: &str) -> ModelError {
        ModelError::UnknownTensor {
            name: name.to_owned(),
            architecture: self.shape.family.architecture(),
        }
    }

    /// Of each tensor that candle reads the form that the file has. Each tensor of the file has
    /// to be part of one.
    fn choose(&self) -> Result<Vec<(Want, Vec<Source>)>, ModelError> {
        let mut used = BTreeSet::new();
        let mut chosen = Vec::with_capacity(self.wants.len());
        for want in &self.wants {
            let is_there = |source: &Source| self.held.contains_key(&source.tensor);
            let mut forms = want.forms.iter();
            let Some(form) = forms.find(|form| form.iter().all(is_there)) else {
                if want.required {
                    let name = want.name.clone();
                    return Err(ModelError::MissingTensor { name });
                }
                continue;
            };
            used.extend(form.iter().map(|source| source.tensor.as_str()));
            self.check_types(want, form)?;
            chosen.push((want.clone(), form.clone()));
        }
        let unused = self.held.keys().find(|name| !used.contains(name.as_str()));
        match unused {
            Some(name) => Err(self.unknown(name)),
            None => Ok(chosen),
        }
    }

    /// Tensors that candle wants in one have to be stored alike.
    fn check_types(&self, want: &Want, form: &[Source]) -> Result<(), ModelError> {
        let types: Vec<_> = form
            .iter()
            .filter_map(|source| self.held.get(&source.tensor))
            .map(|held| held.ggml_type)
            .collect();
        match types.iter().find(|&&other| other != types[0]) {
            Some(&other) => Err(unreadable(&want.name, other).into()),
            None => Ok(()),
        }
    }

    fn weights_bytes(&self, tied: bool) -> u64 {
        let tensors = self.held.iter();
        let kept = tensors.filter(|(name, _)| tied || name.as_str() != EMBEDDING);
        kept.map(|(_, held)| held.loaded_bytes()).sum::<u64>() + self.shape.embedding_bytes()
    }

    /// Whether there is room for what candle allocates while it loads. It aborts where memory is
    /// short; this finds out first, and the allocator hands the same bytes out again.
    fn probe(&self) -> Result<(), BackendError> {
        let largest = self
            .held
            .values()
            .map(Held::loaded_bytes)
            .max()
            .unwrap_or(0);
        let bytes = largest.saturating_mul(2);
        let bytes = bytes.saturating_add(self.shape.embedding_bytes());
        reserve(usize::try_from(bytes).unwrap_or(usize::MAX)).map(drop)
    }

    /// Adds a token whose embedding is zero: see [`Whole::restart`].
    fn add_silent_token(&mut self) -> Result<(), BackendError> {
        if let Some(embedding) = self.held.get_mut(EMBEDDING) {
            let bytes = usize::try_from(embedding.row_bytes).unwrap_or(usize::MAX);
            let mut zeros = reserve(bytes)?;
            zeros.resize(bytes, 0);
            embedding.slabs.push(zeros);
        }
        Ok(())
    }

    /// Candle's tensor table, over the bytes in the order of its entries.
    fn lay_out(
        &mut self,
        chosen: &[(Want, Vec<Source>)],
        tied: bool,
    ) -> (HashMap<String, CandleTensor>, Kept) {
        let mut kept = Kept::default();
        let mut placed: BTreeMap<&str, (u64, u64, GgmlType)> = BTreeMap::new();
        let mut tensors = HashMap::new();
        for (want, form) in chosen {
            for source in form {
                let Some(held) = self.held.get_mut(&source.tensor) else {
                    continue;
                };
                let byte_len = held.byte_len;
                placed.entry(&source.tensor).or_insert_with(|| {
                    // `quantized_glm4` reads it again where it is also the output.
                    let stays = tied && source.tensor == EMBEDDING;
                    let offset = kept.push(std::mem::take(&mut held.slabs), stays);
                    (offset, byte_len, held.ggml_type)
                });
            }
            let Some(&(offset, byte_len, ggml_type)) =
                form.first().and_then(|source| placed.get(&*source.tensor))
            else {
                continue;
            };
            let (index, of) = form[0].part;
            let Some(ggml_dtype) = candle_type(ggml_type) else {
                continue;
            };
            let mut shape = want.shape.clone();
            if want.name == EMBEDDING && self.shape.family == Family::Lfm2 {
                shape[1] += 1;
            }
            let dims = shape.iter().rev();
            let dims: Vec<_> = dims
                .map(|&dim| usize::try_from(dim).unwrap_or(usize::MAX))
                .collect();
            let tensor = CandleTensor {
                ggml_dtype,
                shape: dims.into(),
                offset: offset + byte_len / of as u64 * index as u64,
            };
            tensors.insert(want.name.clone(), tensor);
        }
        (tensors, kept)
    }
}

fn unreadable(tensor: &str, ggml_type: GgmlType) -> BackendError {
    BackendError::UnsupportedType {
        tensor: tensor.to_owned(),
        ggml_type,
    }
}

fn copied(bytes: &[u8]) -> Result<Vec<u8>, BackendError> {
    let mut copy = reserve(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

fn reserve(bytes: usize) -> Result<Vec<u8>, BackendError> {
    let mut room = Vec::new();
    match room.try_reserve_exact(bytes) {
        Ok(()) => Ok(room),
        Err(_) => Err(BackendError::OutOfMemory {
            what: "weights",
            bytes: bytes as u64,
        }),
    }
}

/// The name that candle gives to a type, if it reads it.
fn candle_type(ggml_type: GgmlType) -> Option<GgmlDType> {
    let candle_type = match ggml_type {
        GgmlType::F32 => GgmlDType::F32,
        GgmlType::F16 => GgmlDType::F16,
        GgmlType::BF16 => GgmlDType::BF16,
        GgmlType::Q4_0 => GgmlDType::Q4_0,
        GgmlType::Q4_1 => GgmlDType::Q4_1,
        GgmlType::Q5_0 => GgmlDType::Q5_0,
        GgmlType::Q5_1 => GgmlDType::Q5_1,
        GgmlType::Q8_0 => GgmlDType::Q8_0,
        GgmlType::Q8_1 => GgmlDType::Q8_1,
        GgmlType::Q2_K => GgmlDType::Q2K,
        GgmlType::Q3_K => GgmlDType::Q3K,
        GgmlType::Q4_K => GgmlDType::Q4K,
        GgmlType::Q5_K => GgmlDType::Q5K,
        GgmlType::Q6_K => GgmlDType::Q6K,
        GgmlType::Q8_K => GgmlDType::Q8K,
        GgmlType::IQ4_NL | GgmlType::MXFP4 => return None,
    };
    Some(candle_type)
}
