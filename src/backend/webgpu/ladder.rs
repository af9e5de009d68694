//! Variants of one kernel, the preferred one first; what fails its check gives way to the next.

/// A list that never runs empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ladder<T> {
    current: T,
    safer: Vec<T>,
}

impl<T: Copy + PartialEq> Ladder<T> {
    /// Starts at `preferred`; `safer` is what may follow, in this order.
    pub(super) fn new(preferred: T, safer: &[T]) -> Self {
        let safer = safer.iter().copied().filter(|&it| it != preferred);
        Self {
            current: preferred,
            safer: safer.rev().collect(),
        }
    }

    /// The variant in use.
    pub(super) fn current(&self) -> T {
        self.current
    }

    /// Starts at another one; the one in use comes after it.
    pub(super) fn prefer(&mut self, preferred: T) {
        if preferred == self.current {
            return;
        }
        self.safer.retain(|&it| it != preferred);
        self.safer
            .push(std::mem::replace(&mut self.current, preferred));
    }

    /// Takes the next one, if there is one.
    pub(super) fn demote(&mut self) -> Option<T> {
        self.current = self.safer.pop()?;
        Some(self.current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_way_in_order_and_never_runs_empty() {
        let mut ladder = Ladder::new('c', &['b', 'c', 'a']);
        assert_eq!(ladder.current(), 'c');
        assert_eq!([ladder.demote(), ladder.demote()], [Some('b'), Some('a')]);
        assert_eq!((ladder.demote(), ladder.current()), (None, 'a'));
    }

    #[test]
    fn what_is_preferred_gives_way_to_what_was() {
        let mut ladder = Ladder::new('c', &['b', 'a']);
        ladder.prefer('a');
        ladder.prefer('d');
        let rest = [ladder.demote(), ladder.demote(), ladder.demote()];
        assert_eq!(ladder.demote(), None);
        assert_eq!(rest, [Some('a'), Some('c'), Some('b')]);
    }
}
