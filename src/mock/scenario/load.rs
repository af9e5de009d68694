//! What a server can carry, and what it does beyond that.

use serde::{Deserialize, Serialize};

use super::units::{Count, Ms, Rate, Share};

/// KV memory and seats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Capacity {
    /// Memory for KV caches, weights and activations not included.
    #[serde(default = "unlimited")]
    pub memory_bytes: Count,
    /// `2 × layers × KV heads × head dim × bytes a number`.
    #[serde(default)]
    pub kv_bytes_per_token: Count,
    /// Positions that each reply reserves; without it, its prompt and what it may write.
    #[serde(default)]
    pub context_tokens: Option<Count>,
    /// Replies that run at a time, whatever the memory.
    #[serde(default)]
    pub seats: Option<Count>,
    /// Reserves only what is in use; when memory runs out, the newest reply is stopped, loses
    /// its cache and starts again with a prefill of all it had.
    #[serde(default)]
    pub overcommit: bool,
}

fn unlimited() -> Count {
    Count::constant((1 << 53) - 1)
}

/// Who asks. Paid goes before free wherever both wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// First served.
    #[default]
    Paid,
    /// First refused.
    Free,
}

/// Pools, the queue before them, and what is refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Overload {
    /// Tried in order.
    pub pools: Vec<Pool>,
    /// Who waits.
    #[serde(default)]
    pub waiting: Waiting,
    /// Admits a share of demand.
    #[serde(default)]
    pub bucket: Option<Bucket>,
    /// Refuses the free tier before anyone waits too long.
    #[serde(default)]
    pub shed: Option<Shed>,
    /// What refusals advise at least.
    #[serde(default = "second")]
    pub retry_after_ms: Ms,
    /// Losses of capacity, in order of time.
    #[serde(default)]
    pub incidents: Vec<Incident>,
}

fn second() -> Ms {
    Ms::constant(1000.0)
}

/// Seats of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pool {
    /// In traces and statistics.
    pub name: String,
    /// Provisioned for one tier alone; without it, shared.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// Seats of a replica.
    pub seats: Count,
    /// Machines, each with a queue of its own; a request goes to one of them by the seed.
    #[serde(default = "one")]
    pub replicas: Count,
}

fn one() -> Count {
    Count::constant(1)
}

/// The queue: it lives in KV memory, so it has an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Waiting {
    /// Requests that may wait, over all pools.
    pub limit: Count,
    /// KV bytes that their prompts may take.
    pub memory_bytes: Option<Count>,
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            limit: Count::constant(1024),
            memory_bytes: None,
        }
    }
}

/// A token bucket over tokens of prompt and answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bucket {
    /// What it holds when full, and at the start.
    pub burst_tokens: Count,
    /// What the servers behind it can do.
    pub tokens_per_second: Rate,
    /// The part of that which it lets through.
    #[serde(default = "all")]
    pub share: Share,
    /// Only this tier needs tokens; without it, everyone.
    #[serde(default)]
    pub tier: Option<Tier>,
}

fn all() -> Share {
    Share::ALL
}

/// Refuses free requests above what keeps the load at its target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Shed {
    /// Load ρ to stay at.
    pub target_load: Share,
    /// Time that a request takes a seat.
    pub service_ms: Ms,
    /// Over which arrivals are averaged.
    #[serde(default = "window")]
    pub window_ms: Ms,
}

fn window() -> Ms {
    Ms::constant(5000.0)
}

/// A change of capacity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Incident {
    /// Since the server began.
    pub at_ms: Ms,
    /// Share of the replicas, or of the seats of a single one, that is left from then on.
    pub capacity: Share,
}
