//! Beginnings of prompts that were computed, as a server that reuses KV caches has them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::scenario::PrefixCache;

/// Most blocks that are kept: the one that was used least recently goes.
const MAX_BLOCKS: usize = 1 << 16;

/// Blocks by all that is before them: the same words after others are another block.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefixes {
    settings: Option<PrefixCache>,
    /// Hash of the prompt up to and with the block, to its turn and when it was used last.
    blocks: BTreeMap<u64, (u64, f64)>,
    /// Turns of use, oldest first.
    turns: BTreeMap<u64, u64>,
    turn: u64,
}

impl Prefixes {
    pub(super) fn new(settings: Option<PrefixCache>) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// How many tokens at the start of `prompt` need not be computed. The last one always has
    /// to: the first answer comes from it.
    pub(super) fn cached(&self, now_ms: f64, prompt: &str) -> u64 {
        let Some(settings) = self.settings else {
            return 0;
        };
        let size = settings.block_tokens.len();
        let is_there = |hash: &u64| {
            let used = self.blocks.get(hash);
            used.is_some_and(|(_, used_ms)| now_ms - used_ms <= settings.ttl_ms.get())
        };
        let most = prompt.split_whitespace().count().saturating_sub(1) / size;
        let found = hashes(prompt, size).take(most).take_while(is_there);
        (found.count() * size) as u64
    }

    /// `prompt` is computed.
    pub(super) fn keep(&mut self, now_ms: f64, prompt: &str) {
        let Some(settings) = self.settings else {
            return;
        };
        // A prompt longer than all room keeps its beginning.
        for hash in hashes(prompt, settings.block_tokens.len()).take(MAX_BLOCKS) {
            self.turn += 1;
            if let Some((old, _)) = self.blocks.insert(hash, (self.turn, now_ms)) {
                self.turns.remove(&old);
            }
            self.turns.insert(self.turn, hash);
            if self.blocks.len() > MAX_BLOCKS
                && let Some((_, oldest)) = self.turns.pop_first()
            {
                self.blocks.remove(&oldest);
            }
        }
    }
}

/// Of each whole block of `size` words, a hash of all up to its end.
fn hashes(prompt: &str, size: usize) -> impl Iterator<Item = u64> {
    let mut hasher = DefaultHasher::new();
    let words = prompt.split_whitespace().enumerate();
    words.filter_map(move |(at, word)| {
        word.hash(&mut hasher);
        (at + 1).is_multiple_of(size).then(|| hasher.finish())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock::scenario::Scenario;

    fn prefixes(json: &str) -> Prefixes {
        let json = format!(r#"{{"prefill":{{"prefixCache":{json}}}}}"#);
        let scenario = Scenario::from_json(&json).expect("it is valid");
        Prefixes::new(scenario.prefill.prefix_cache)
    }

    #[test]
    fn what_begins_alike_is_found_in_whole_blocks() {
        let mut cache = prefixes(r#"{"blockTokens":3,"ttlMs":100}"#);
        assert_eq!(cache.cached(0.0, "a b c d e f g"), 0);
        cache.keep(0.0, "a b c d e f g");
        for (prompt, expected) in [
            ("a b c d e f g", 6),
            ("a b c d e f x y", 6),
            ("a  b\tc d e x g", 3),
            // The last word has to be computed.
            ("a b c d e f", 3),
            ("a b c", 0),
            ("x b c d e f g", 0),
            ("d e f g", 0),
            ("", 0),
        ] {
            assert_eq!(cache.cached(0.0, prompt), expected, "{prompt:?}");
        }
        assert_eq!(cache.cached(100.0, "a b c d e f g"), 6);
        assert_eq!(cache.cached(100.1, "a b c d e f g"), 0, "it is forgotten");
        assert_eq!(Prefixes::default().cached(0.0, "a b"), 0);
    }

    #[test]
    fn the_blocks_that_were_used_least_recently_make_room() {
        let mut cache = prefixes(r#"{"blockTokens":1}"#);
        let long: String = (0..MAX_BLOCKS - 2).map(|n| format!("{n} ")).collect();
        cache.keep(0.0, "a b");
        cache.keep(0.0, &long);
        cache.keep(0.0, "a b");
        assert_eq!(cache.cached(0.0, &long), MAX_BLOCKS as u64 - 3);
        cache.keep(0.0, "x y z");
        assert_eq!(cache.blocks.len(), MAX_BLOCKS);
        assert_eq!(cache.turns.len(), MAX_BLOCKS);
        assert_eq!(cache.cached(0.0, "a b c"), 2);
        assert_eq!(cache.cached(0.0, &long), 0, "its first blocks went");
        cache.keep(0.0, &long.repeat(3));
        assert_eq!(cache.blocks.len(), MAX_BLOCKS);
    }
}
