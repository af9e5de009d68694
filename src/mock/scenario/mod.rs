//! What a mock server plays: plain data, seeded, the same wherever it is replayed.

mod load;
mod path;
mod speed;
mod units;

pub use load::{Bucket, Capacity, Incident, Overload, Pool, Shed, Tier, Waiting};
pub use path::{
    Cut, FailAt, FailBefore, Faults, Hop, Omission, Resume, RoleChunk, SlowClient, Transit,
};
pub use speed::{Delivery, Pace, Prefill, PrefixCache, RecordedToken, Stall, Swap, Text, ToolCall};
pub use units::{Count, Ms, Rate, Share};

use serde::{Deserialize, Serialize};

use super::error::MockError;
use super::read_json::read_json;

/// The largest scenario that is read, in bytes of JSON.
pub const MAX_SCENARIO_BYTES: usize = 8 << 20;

/// Everything that decides what a server answers and when. Absent fields mean eighteen words,
/// one each 33 ms, and a path without delay.
///
/// Field names in JSON are in camel case; a field that is not known is refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Scenario {
    /// All randomness comes from it; below 2^53.
    pub seed: Count,
    /// Name of the model in answers.
    pub model: String,
    /// Where the text comes from.
    pub text: Text,
    /// Another model takes over, silently.
    pub swap: Option<Swap>,
    /// Tools that are called after the text.
    pub tool_calls: Vec<ToolCall>,
    /// What comes before the first token.
    pub prefill: Prefill,
    /// Time from token to token, and from the end of prefill to the first.
    pub pace: Pace,
    /// Extra waits.
    pub stalls: Vec<Stall>,
    /// How tokens become events.
    pub delivery: Delivery,
    /// Time each way.
    pub transit: Transit,
    /// What stands between server and reader, in the order that bytes pass.
    pub hops: Vec<Hop>,
    /// A comment line is written after so long without a write; only in event streams.
    pub keep_alive_ms: Option<Ms>,
    /// What goes wrong.
    pub faults: Faults,
    /// When a slow reader is given up.
    pub slow_client: SlowClient,
    /// Keeps replies so that a reader can come back; only for event streams.
    pub resume: Option<Resume>,
    /// KV memory and seats of one server; without it everyone is served at once.
    pub capacity: Option<Capacity>,
    /// Pools, queue and refusals; its pools take the place of `capacity.seats`.
    pub overload: Option<Overload>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            seed: Count::default(),
            model: "mock".to_owned(),
            text: Text::default(),
            swap: None,
            tool_calls: Vec::new(),
            prefill: Prefill::default(),
            pace: Pace::default(),
            stalls: Vec::new(),
            delivery: Delivery::default(),
            transit: Transit::default(),
            hops: Vec::new(),
            keep_alive_ms: None,
            faults: Faults::default(),
            slow_client: SlowClient::default(),
            resume: None,
            capacity: None,
            overload: None,
        }
    }
}

impl Scenario {
    /// Reads a scenario from JSON.
    ///
    /// # Errors
    /// [`MockError::Scenario`] with the place of what is refused.
    pub fn from_json(json: &str) -> Result<Self, MockError> {
        if json.len() > MAX_SCENARIO_BYTES {
            return Err(MockError::Scenario {
                place: String::new(),
                why: format!(
                    "it has {} bytes; the limit is {MAX_SCENARIO_BYTES}",
                    json.len()
                ),
            });
        }
        let scenario: Self = read_json(json)?;
        scenario.check()?;
        Ok(scenario)
    }

    /// What the types alone do not exclude.
    fn check(&self) -> Result<(), MockError> {
        let refuse = |place: &str, why: &str| {
            Err(MockError::Scenario {
                place: place.to_owned(),
                why: why.to_owned(),
            })
        };
        if let Pace::Trace { ms } = &self.pace
            && ms.is_empty()
        {
            return refuse("pace.ms", "a trace has at least one delay");
        }
        if let Pace::Uniform { ms, jitter_ms } = &self.pace
            && jitter_ms.get() > ms.get()
        {
            return refuse("pace.jitterMs", "jitter is at most the delay itself");
        }
        if matches!(self.pace, Pace::Busy { .. }) && self.capacity.is_none() {
            return refuse("capacity", "a busy server has KV memory: it must be given");
        }
        if let Some(swap) = &self.swap
            && matches!(swap.text, Text::External {})
        {
            return refuse("swap.text", "it comes from the scenario itself");
        }
        if let Some(cache) = self.prefill.prefix_cache {
            if cache.block_tokens.is_empty() {
                return refuse("prefill.prefixCache.blockTokens", "at least 1");
            }
            if self.prefill.prompt_tokens.is_some() {
                let why = "prompts of a given length have no words to compare";
                return refuse("prefill.prefixCache", why);
            }
        }
        if self.hops.len() > 64 {
            return refuse("hops", "at most 64 hops");
        }
        if let Some(overload) = &self.overload {
            if overload.pools.is_empty() {
                return refuse("overload.pools", "at least one pool");
            }
            if overload.pools.iter().all(|pool| pool.tier.is_some()) {
                return refuse("overload.pools", "at least one pool is shared");
            }
        }
        Ok(())
    }

    /// The scenario as JSON, all fields included: reading it gives the same scenario.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Only maps with keys that are not text and writers that fail make an error.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r#"{
        "seed": 42, "model": "m",
        "text": { "kind": "seeded", "tokens": 120 },
        "swap": { "afterRequests": 9, "text": { "kind": "echo" }, "pinned": "m-1" },
        "toolCalls": [{ "name": "weather", "arguments": "{}", "parts": 2 }],
        "prefill": { "queueMs": 1, "msPerToken": 0.5, "msPerSquaredToken": 0.01,
            "coldStartMs": 9, "promptTokens": 5 },
        "pace": { "kind": "uniform", "ms": 33, "jitterMs": 8 },
        "stalls": [{ "atToken": 3, "ms": 100 }],
        "delivery": { "batchTokens": 4, "batchMs": 20, "holdBackTokens": 1, "whole": false },
        "transit": { "requestMs": 50, "responseMs": 50 },
        "hops": [{ "kind": "proxy" }, { "kind": "narrow", "bytesPerSecond": 1000 },
            { "kind": "idle", "ms": 60000, "reset": true }],
        "keepAliveMs": 15000,
        "faults": { "cut": { "byte": 7 }, "failAt": { "token": 2 }, "omit": "marker" },
        "slowClient": { "silenceMs": 30000, "queuedBytes": 1048576 },
        "resume": { "graceMs": 1000, "ttlMs": 60000 },
        "capacity": { "memoryBytes": 68719476736, "kvBytesPerToken": 131072 },
        "overload": { "pools": [{ "name": "shared", "seats": 2 }] }
    }"#;

    #[test]
    fn a_scenario_survives_json() {
        let scenario = Scenario::from_json(FULL).expect("it is valid");
        assert_eq!(scenario.seed.get(), 42);
        let again = Scenario::from_json(&scenario.to_json()).expect("its own JSON is valid");
        assert_eq!(again, scenario);
        let empty = Scenario::from_json("{}").expect("nothing is required");
        assert_eq!(empty, Scenario::default());
        let again = Scenario::from_json(&empty.to_json()).expect("its own JSON is valid");
        assert_eq!(again, empty);
    }

    #[test]
    fn refusals_name_the_place_and_the_field() {
        for (json, place, word) in [
            (r#"{"sed":1}"#, "sed", "unknown field"),
            (r#"{"seed":-1}"#, "seed", "-1"),
            (r#"{"seed":1.5}"#, "seed", "1.5"),
            (r#"{"prefill":{"queueMs":-3}}"#, "prefill.queueMs", "-3"),
            (
                r#"{"prefill":{"queue":3}}"#,
                "prefill.queue",
                "unknown field",
            ),
            (
                r#"{"hops":[{"kind":"proxy"},{"kind":"warp"}]}"#,
                "hops[1].kind",
                "warp",
            ),
            (
                r#"{"hops":[{"kind":"proxy","bytes":1}]}"#,
                "hops[0].bytes",
                "unknown field `bytes`",
            ),
            (
                r#"{"pace":{"kind":"fixed","ms":1e12},"seed":2}"#,
                "pace.ms",
                "1000000000000",
            ),
            (
                r#"{"pace":{"kind":"trace","ms":[]}}"#,
                "pace.ms",
                "at least",
            ),
            (
                r#"{"pace":{"kind":"uniform","ms":1,"jitterMs":2}}"#,
                "pace.jitterMs",
                "at most",
            ),
            (
                r#"{"overload":{"pools":[]}}"#,
                "overload.pools",
                "at least one",
            ),
            (
                r#"{"pace":{"kind":"busy","weightsBytes":1,"bytesPerSecond":1}}"#,
                "capacity",
                "KV memory",
            ),
            (
                r#"{"pace":{"kind":"trace","ms":[1,2,3,-4,5,-6]},"sed":1}"#,
                "pace.ms[3]",
                "-4",
            ),
            (
                r#"{"stalls":[{"atToken":1}]}"#,
                "stalls[0]",
                "missing field",
            ),
            (
                r#"{"swap":{"afterRequests":1,"text":{"kind":"external"}}}"#,
                "swap.text",
                "scenario",
            ),
            (
                r#"{"prefill":{"prefixCache":{"blockTokens":0}}}"#,
                "prefill.prefixCache.blockTokens",
                "at least 1",
            ),
            (
                r#"{"prefill":{"prefixCache":{},"promptTokens":9}}"#,
                "prefill.prefixCache",
                "no words",
            ),
            ("5", "", "invalid type"),
            ("{} x", "", "trailing"),
            ("[", "", "EOF"),
        ] {
            let error = Scenario::from_json(json).expect_err("it is refused");
            let MockError::Scenario { place: at, why } = &error else {
                panic!("{json}: {error}");
            };
            assert_eq!(at, place, "{json}: {why}");
            assert!(why.contains(word), "{json}: {why}");
        }
        let deep = "[".repeat(100_000);
        assert!(Scenario::from_json(&deep).is_err());
    }
}
