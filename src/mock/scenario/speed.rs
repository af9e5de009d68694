//! What the generator makes, and how fast.

use serde::{Deserialize, Serialize};

use super::units::{Count, Ms, Rate};

/// Where text comes from. One word with the space after it is one token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Text {
    /// Always this text, word by word, each followed by one space.
    Words {
        /// Split at white space.
        words: String,
    },
    /// As many common words as wanted, drawn by the seed.
    Seeded {
        /// How many.
        tokens: Count,
    },
    /// The last message of the request.
    Echo {},
    /// What was recorded elsewhere, with its own delays: `pace` is not used.
    Trace {
        /// In order.
        tokens: Vec<RecordedToken>,
    },
    /// Tokens are handed in while they are asked for; they keep their own pace.
    External {},
}

impl Default for Text {
    fn default() -> Self {
        Self::Words {
            words: "A model does not write the whole answer at once. \
                    It makes it one piece at a time."
                .to_owned(),
        }
    }
}

/// A token of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordedToken {
    /// May be empty, as a token within a character is.
    pub text: String,
    /// After the token before it; the first one, after prefill.
    pub after_ms: Ms,
}

/// A tool that the answer calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolCall {
    /// The tool.
    pub name: String,
    /// A JSON object, as a string.
    pub arguments: String,
    /// In how many tokens the arguments come; they are split between characters.
    #[serde(default = "one")]
    pub parts: Count,
}

fn one() -> Count {
    Count::constant(1)
}

/// From request to the moment that decoding begins:
/// `queueMs + msPerToken × P + msPerSquaredToken × P²` for a prompt of `P` tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Prefill {
    /// Fixed part: a queue elsewhere, or overhead.
    pub queue_ms: Ms,
    /// Linear part: projections.
    pub ms_per_token: Ms,
    /// Quadratic part: attention.
    pub ms_per_squared_token: Ms,
    /// The first request finds the server asleep; all wait until it is awake.
    pub cold_start_ms: Ms,
    /// Length of every prompt, instead of the words of the request.
    pub prompt_tokens: Option<Count>,
    /// Beginnings of earlier prompts that need not be computed again.
    pub prefix_cache: Option<PrefixCache>,
}

/// KV caches of prompts, kept for others that begin alike: of `C` tokens found there,
/// `msPerToken × C + msPerSquaredToken × C²` is saved, and `cached_tokens` tells of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PrefixCache {
    /// Only whole blocks of so many tokens are kept; at least 1.
    pub block_tokens: Count,
    /// A block that nobody used for so long is gone.
    pub ttl_ms: Ms,
}

impl Default for PrefixCache {
    fn default() -> Self {
        Self {
            block_tokens: Count::constant(16),
            ttl_ms: Ms::constant(300_000.0),
        }
    }
}

/// Another model under the same name, from some request on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Swap {
    /// Requests before it.
    pub after_requests: Count,
    /// What the other model says.
    pub text: Text,
    /// The name under which the model of before still answers.
    #[serde(default)]
    pub pinned: Option<String>,
}

/// Time from token to token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Pace {
    /// Always the same.
    Fixed {
        /// The delay.
        ms: Ms,
    },
    /// Uniform from `ms − jitterMs` to `ms + jitterMs`.
    Uniform {
        /// The middle.
        ms: Ms,
        /// At most `ms`.
        jitter_ms: Ms,
    },
    /// `medianMs × exp(sigma × z)` with a standard normal `z`.
    LogNormal {
        /// Half the delays are shorter.
        median_ms: Ms,
        /// Standard deviation of the logarithm.
        sigma: Rate,
    },
    /// Delays in order, from the start again when they are used up.
    Trace {
        /// At least one.
        ms: Vec<Ms>,
    },
    /// All running replies get a token a step; a step reads all weights and every active
    /// cache: `max(floorMs, (weightsBytes + Σ KV bytes) ÷ bytesPerSecond)`.
    Busy {
        /// Read once a step, whoever runs.
        weights_bytes: Count,
        /// Memory bandwidth.
        bytes_per_second: Rate,
        /// No step is shorter.
        #[serde(default)]
        floor_ms: Ms,
    },
}

impl Default for Pace {
    fn default() -> Self {
        Self::Fixed {
            ms: Ms::constant(33.0),
        }
    }
}

/// An extra wait before one token.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stall {
    /// Counted from 0.
    pub at_token: Count,
    /// How long.
    pub ms: Ms,
}

/// How tokens become events; one token an event where nothing is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Delivery {
    /// So many tokens make an event.
    pub batch_tokens: Option<Count>,
    /// An event waits no longer than this for more tokens.
    pub batch_ms: Option<Ms>,
    /// The last so many tokens are held back.
    pub hold_back_tokens: Option<Count>,
    /// The whole reply is one event.
    pub whole: bool,
}
