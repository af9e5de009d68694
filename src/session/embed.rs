//! Embeddings: one vector of length 1 for each text, pooled from the states of its tokens.

use serde_json::{Map, Value};

use super::error::SessionError;
use super::options::{invalid, kind};
use super::{Pooling, Session};
use crate::backend::{Backend, Outputs, TokenSource};

/// One text to embed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmbedInput {
    /// Its text, which gets the file's BOS and EOS.
    Text(String),
    /// Its ids, as they stand.
    Ids(Vec<u32>),
}

/// What an embedding is made from and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbedOptions {
    /// One a vector.
    pub texts: Vec<EmbedInput>,
    /// `None`: what the file names, or the mean.
    pub pooling: Option<Pooling>,
}

/// Vectors in the order of their texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embeddings {
    /// `[C]` each, of length 1.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of all texts.
    pub tokens: usize,
}

/// What one piece of embedding led to.
#[derive(Clone, Debug, PartialEq)]
pub enum EmbedProgress {
    /// Texts done and in all.
    Embedded {
        /// Texts done.
        done: usize,
        /// Texts in all.
        total: usize,
    },
    /// All of them.
    Finished(Embeddings),
}

/// Embedding in progress.
#[derive(Debug)]
pub struct EmbedJob {
    texts: Vec<Vec<u32>>,
    pooling: Pooling,
    /// Sum over the states of the current text's tokens so far, `[C]`. In f64: thousands of
    /// f32 of one sign would lose the last ones.
    sum: Vec<f64>,
    /// How many they are.
    summed: usize,
    result: Embeddings,
}

impl EmbedOptions {
    /// Reads texts, each a string or an array of ids, and `{ pooling? }`.
    ///
    /// # Errors
    /// [`SessionError::InvalidOption`], [`SessionError::UnknownOption`].
    pub fn from_json(texts: &Value, options: &Map<String, Value>) -> Result<Self, SessionError> {
        let limit = "an array of strings, with one at least";
        let list = texts
            .as_array()
            .ok_or_else(|| invalid("texts", kind(texts), limit))?;
        if list.is_empty() {
            return Err(invalid("texts", "empty", limit));
        }
        let texts = list.iter().enumerate().map(|(index, text)| {
            EmbedInput::from_json(text)
                .map_err(|(what, limit)| invalid(&format!("texts[{index}]"), what, limit))
        });
        Ok(Self {
            texts: texts.collect::<Result<_, _>>()?,
            pooling: pooling(options)?,
        })
    }
}

fn pooling(options: &Map<String, Value>) -> Result<Option<Pooling>, SessionError> {
    let mut pooling = None;
    for (name, value) in options {
        if name != "pooling" {
            return Err(SessionError::UnknownOption {
                name: name.clone(),
                known: "pooling".to_owned(),
            });
        }
        pooling = match value.as_str() {
            Some("mean") => Some(Pooling::Mean),
            Some("last") => Some(Pooling::Last),
            _ => return Err(invalid(name, value, "\"mean\" or \"last\"")),
        };
    }
    Ok(pooling)
}

impl EmbedInput {
    /// What is wrong and what is allowed, where it is neither.
    fn from_json(text: &Value) -> Result<Self, (&'static str, &'static str)> {
        let id = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
        let limit = "a string or an array of token ids";
        match text {
            Value::String(text) => Ok(Self::Text(text.clone())),
            Value::Array(ids) => {
                let ids = ids.iter().map(id).collect::<Option<_>>();
                Ok(Self::Ids(ids.ok_or(("an array of other things", limit))?))
            }
            other => Err((kind(other), limit)),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Ids(ids) => ids.is_empty(),
        }
    }
}

impl<B: Backend> Session<B> {
    /// Starts embedding texts; no work is done before [`embed`](Self::embed).
    ///
    /// # Errors
    /// [`SessionError::InvalidOption`] for no texts or an empty one,
    /// [`SessionError::ContextFull`], [`SessionError::TokenId`], the tokenizer's.
    pub fn embed_job(&self, options: EmbedOptions) -> Result<EmbedJob, SessionError> {
        if options.texts.is_empty() {
            return Err(invalid("texts", "empty", "one text at least"));
        }
        let mut texts = Vec::with_capacity(options.texts.len());
        for (index, text) in options.texts.into_iter().enumerate() {
            if text.is_empty() {
                let name = format!("texts[{index}]");
                return Err(invalid(&name, "empty", "one character or id at least"));
            }
            let ids = match text {
                EmbedInput::Text(text) => self.tokenizer.encode_prompt(&text)?,
                EmbedInput::Ids(ids) => ids,
            };
            self.check_ids(&ids)?;
            texts.push(ids);
        }
        Ok(EmbedJob {
            pooling: options
                .pooling
                .or(self.facts.pooling)
                .unwrap_or(Pooling::Mean),
            sum: vec![0.0; self.facts.hidden_size],
            summed: 0,
            result: Embeddings {
                vectors: Vec::with_capacity(texts.len()),
                tokens: texts.iter().map(Vec::len).sum(),
            },
            texts,
        })
    }

    /// Embeds one chunk of a text. Jobs and generations may take turns: a job that lost the
    /// cache prefills what it had.
    ///
    /// # Errors
    /// The backend's.
    pub async fn embed(&mut self, job: &mut EmbedJob) -> Result<EmbedProgress, SessionError> {
        let Some(ids) = job.texts.get(job.result.vectors.len()) else {
            return Ok(EmbedProgress::Finished(std::mem::take(&mut job.result)));
        };
        let started_ms = self.clock.now_ms();
        // The mean needs the states of all tokens, the last one's is made from the cache.
        let wanted = match job.pooling {
            Pooling::Mean => job.summed + 1,
            Pooling::Last => ids.len(),
        };
        self.stop_running_ahead();
        let kept = self.kv.align(&ids[..wanted], &mut self.backend);
        let (paced, left) = (self.pacer.rows(), ids.len() - kept);
        let (rows, outputs) = match job.pooling {
            Pooling::Mean if kept < job.summed => (paced.min(job.summed - kept), Outputs::Nothing),
            Pooling::Last if paced < left => (paced, Outputs::Nothing),
            _ => (paced.min(left), Outputs::States),
        };
        let new = ids[kept..kept + rows].to_vec();
        self.pass(TokenSource::Ids(&new), outputs, None).await?;
        if outputs == Outputs::States {
            job.add(self.backend.read_states().await?);
        }
        self.pacer.record(rows, self.clock.now_ms() - started_ms);
        Ok(EmbedProgress::Embedded {
            done: job.result.vectors.len(),
            total: job.texts.len(),
        })
    }
}

impl EmbedJob {
    /// Takes the states of the next tokens, `[T, C]`: all of them, or those that end the text.
    fn add(&mut self, states: &[f32]) {
        let width = self.sum.len();
        let (len, used) = match self.pooling {
            Pooling::Mean => (self.texts[self.result.vectors.len()].len(), states),
            Pooling::Last => (1, &states[states.len() - width..]),
        };
        for state in used.chunks_exact(width) {
            for (sum, &value) in self.sum.iter_mut().zip(state) {
                *sum += f64::from(value);
            }
        }
        self.summed += used.len() / width;
        if self.summed == len {
            self.result.vectors.push(unit(&self.sum));
            self.sum.fill(0.0);
            self.summed = 0;
        }
    }
}

/// The vector of length 1 with this direction: the count of a mean goes with its length.
fn unit(sum: &[f64]) -> Vec<f32> {
    let norm = sum.iter().map(|value| value * value).sum::<f64>().sqrt();
    // No direction at all stays none.
    let norm = if norm > 0.0 { norm } else { 1.0 };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounded to the precision of the result"
    )]
    let scaled = sum.iter().map(|value| (value / norm) as f32);
    scaled.collect()
}
