//! Which tokens a generation has used, for the penalties.

use crate::backend::TokenUse;

/// Uses by id, each id once, in rising order. It depends on the ids alone, so that a generation
/// that was suspended is penalized as one that was not.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    used: Vec<TokenUse>,
}

impl Usage {
    /// The tokens of a prompt.
    pub(super) fn of_prompt(ids: &[u32]) -> Self {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let unanswered = |id| TokenUse { id, in_answer: 0 };
        Self {
            used: ids.into_iter().map(unanswered).collect(),
        }
    }

    /// Notes a token of the answer.
    pub(super) fn push(&mut self, id: u32) {
        match self.used.binary_search_by_key(&id, |used| used.id) {
            Ok(at) => self.used[at].in_answer += 1,
            Err(at) => self.used.insert(at, TokenUse { id, in_answer: 1 }),
        }
    }

    pub(super) fn as_slice(&self) -> &[TokenUse] {
        &self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_answer_and_remembers_the_prompt() {
        let mut usage = Usage::of_prompt(&[9, 2, 9]);
        for id in [5, 2, 5] {
            usage.push(id);
        }
        let counts: Vec<_> = usage
            .as_slice()
            .iter()
            .map(|u| (u.id, u.in_answer))
            .collect();
        assert_eq!(counts, [(2, 1), (5, 2), (9, 0)]);
    }
}
