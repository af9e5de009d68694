//! What lies between the generator and the reader, and what goes wrong there.

use serde::{Deserialize, Serialize};

use super::units::{Count, Ms, Rate};

/// Time on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Transit {
    /// To the server.
    pub request_ms: Ms,
    /// From the last hop to the reader.
    pub response_ms: Ms,
}

/// Something that turns a stream back into one reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Hop {
    /// A reverse proxy collects the response in buffers and passes full ones.
    Proxy {
        /// Size of a buffer: one memory page.
        #[serde(default = "page")]
        buffer_bytes: Count,
        /// Passes event streams through, as they say `X-Accel-Buffering: no`.
        #[serde(default)]
        honours_header: bool,
    },
    /// Compression waits for enough bytes.
    Compression {
        /// Input that makes a block.
        #[serde(default = "block")]
        block_bytes: Count,
    },
    /// A cache or load balancer passes whole responses, head included.
    Cdn {},
    /// The server's framework holds head and body until the handler has returned.
    Framework {},
    /// The program reads the whole body before it looks at it.
    Client {},
    /// Closes a connection on which no byte passed for a while.
    Idle {
        /// How long.
        ms: Ms,
        /// Whether the reader sees a broken connection instead of an end.
        #[serde(default)]
        reset: bool,
    },
    /// Passes only so many bytes a second.
    Narrow {
        /// The rate.
        bytes_per_second: Rate,
    },
}

impl Hop {
    /// The header that tells of it, as those of its kind leave one, whether it holds anything
    /// back or not.
    pub(in crate::mock) fn mark(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Proxy { .. } => Some(("via", "1.1 proxy")),
            Self::Compression { .. } => Some(("vary", "accept-encoding")),
            Self::Cdn {} => Some(("x-cache", "MISS")),
            _ => None,
        }
    }
}

fn page() -> Count {
    Count::constant(4096)
}

fn block() -> Count {
    Count::constant(8192)
}

/// What goes wrong. Nothing, where nothing is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Faults {
    /// Only the first so many requests are hit.
    pub first_requests: Option<Count>,
    /// A plain HTTP error instead of an answer.
    pub fail_before: Option<FailBefore>,
    /// An error when so many tokens are made: an event in a stream, a status in a whole reply.
    pub fail_at: Option<FailAt>,
    /// The body ends early.
    pub omit: Option<Omission>,
    /// The connection ends after so many bytes of the body.
    pub cut: Option<Cut>,
    /// Bytes of one character arrive so far apart.
    pub split_utf8_ms: Option<Ms>,
    /// Says so instead of the right content type.
    pub content_type: Option<String>,
    /// When a chat's stream sends the chunk that holds the role alone.
    pub role_chunk: RoleChunk,
}

/// An error before the first byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailBefore {
    /// 400 to 599.
    #[serde(deserialize_with = "status")]
    pub status: u16,
    /// `Retry-After`, in whole seconds.
    #[serde(default)]
    pub retry_after_seconds: Option<Count>,
}

fn status<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<u16, D::Error> {
    let status = u16::deserialize(reader)?;
    if (400..600).contains(&status) {
        return Ok(status);
    }
    let why = format!("{status} is no error status: 400 to 599");
    Err(serde::de::Error::custom(why))
}

/// An error within the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailAt {
    /// How many tokens were made before it.
    pub token: Count,
}

/// What a body lacks at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Omission {
    /// `data: [DONE]`; a chat still tells its finish reason.
    Marker,
    /// Finish reason, usage and marker.
    All,
}

/// A connection that ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cut {
    /// Bytes of the body that still pass.
    pub byte: Count,
    /// Whether the reader sees a broken connection instead of an end.
    #[serde(default)]
    pub reset: bool,
}

/// When the chunk that holds the role alone is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoleChunk {
    /// As soon as the request is accepted, long before any text.
    AtOnce,
    /// With the first token.
    #[default]
    WithText,
    /// Never.
    Never,
}

/// When a reader is too slow, and how far the generator runs ahead of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SlowClient {
    /// So long nothing was read though bytes are there: an error event, and the end.
    pub silence_ms: Ms,
    /// As soon as more than this waits to be read, likewise.
    pub queued_bytes: Count,
    /// Tokens that are made ahead of the reader. What a hop holds counts as read: it left.
    pub high_water_tokens: Count,
    /// Goes on however much waits.
    pub ignores_backpressure: bool,
}

impl Default for SlowClient {
    fn default() -> Self {
        Self {
            silence_ms: Ms::constant(30_000.0),
            queued_bytes: Count::constant(1 << 20),
            high_water_tokens: Count::constant(64),
            ignores_backpressure: false,
        }
    }
}

/// How long a reply outlives its reader.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Resume {
    /// Without any reader the generator goes on for so long.
    pub grace_ms: Ms,
    /// So long after its end the reply is forgotten.
    pub ttl_ms: Ms,
    /// `retry:` at the start of the stream.
    pub retry_ms: Option<Ms>,
}

impl Default for Resume {
    fn default() -> Self {
        Self {
            grace_ms: Ms::constant(10_000.0),
            ttl_ms: Ms::constant(60_000.0),
            retry_ms: None,
        }
    }
}
