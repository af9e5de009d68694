//! When a token that is made is shown.
//!
//! ```text
//! token ─► hold-back (the last w wait) ─► check ─► batch (k tokens, or a time) ─► chunk
//! ```
//!
//! With one token every d ms:
//!
//! | delivery       | a token waits                                                        |
//! |----------------|----------------------------------------------------------------------|
//! | plain          | 0                                                                    |
//! | k tokens       | (k - 1)·d the first of a batch, d·(k - 1)/2 on average               |
//! | a time window  | what is left of the window, which its first token opens              |
//! | hold-back of w | w·d                                                                  |
//! | whole          | for the end                                                          |
//!
//! The end of the stream waits for nothing: held tokens and a batch in the making leave with it,
//! so completion is never later than without a delivery.

use std::collections::VecDeque;
use std::mem;

/// What a delivery needs to know of a token.
pub trait Piece {
    /// What the token adds to the text.
    fn text(&self) -> &str;
    /// Puts another text in its place.
    fn set_text(&mut self, text: String);
}

/// How tokens are delivered; the default is one by one and at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Tokens of a chunk. Absent: one, or with `batch_ms` as many as come in that time.
    pub batch_tokens: Option<usize>,
    /// The longest that the first token of a chunk waits for the others, in milliseconds.
    pub batch_ms: Option<f64>,
    /// Tokens that wait behind the one that is shown next.
    pub hold_back_tokens: usize,
    /// Everything in one chunk at the end.
    pub whole: bool,
    /// A check looks at each window before its first token is shown.
    pub checked: bool,
}

/// What a check looks at: the token to be shown next and those held back behind it.
#[derive(Debug)]
pub struct Window<'a, T> {
    /// In order; never empty.
    pub tokens: &'a VecDeque<T>,
    /// No token follows: all of the window is shown next.
    pub last: bool,
}

impl<T: Piece> Window<'_, T> {
    /// The tokens' text.
    #[must_use]
    pub fn text(&self) -> String {
        self.tokens.iter().map(Piece::text).collect()
    }
}

/// What a check says of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be shown.
    Release,
    /// This is shown in place of the window's text. Tokens at its start and end whose text stays
    /// keep it, the first of the others gets what is new and the rest none, so that tokens are
    /// counted as before; the next window is looked at with it.
    Replace(String),
    /// Nothing more is shown, now or later.
    Block,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// Look at [`Delivery::window`] and call [`Delivery::decide`].
    Check,
    /// Show these.
    Chunk(Vec<T>),
    /// Nothing more comes: the stream has ended, or a check has blocked it.
    End {
        /// A check blocked the rest.
        blocked: bool,
    },
}

/// One stream of tokens on its way to a reader.
///
/// After each [`push`](Self::push), [`finish`](Self::finish) and when
/// [`due_ms`](Self::due_ms) has come, take steps until there is none.
#[derive(Clone, Debug)]
pub struct Delivery<T> {
    options: Options,
    held: VecDeque<T>,
    /// The window has been looked at and may be shown.
    released: bool,
    batch: Vec<T>,
    /// When the batch got its first token.
    opened_ms: f64,
    finished: bool,
    blocked: bool,
    ended: bool,
}

impl<T: Piece> Delivery<T> {
    /// Nothing is there yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            held: VecDeque::new(),
            released: false,
            batch: Vec::new(),
            opened_ms: 0.0,
            finished: false,
            blocked: false,
            ended: false,
        }
    }

    /// A token was made.
    pub fn push(&mut self, token: T) {
        if !self.blocked {
            self.held.push_back(token);
            self.released = false;
        }
    }

    /// There are no more tokens.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// When the batch in the making has to leave, if a time is set.
    #[must_use]
    pub fn due_ms(&self) -> Option<f64> {
        let batch_ms = self.options.batch_ms.filter(|_| !self.options.whole)?;
        (!self.batch.is_empty()).then_some(self.opened_ms + batch_ms)
    }

    /// What a check has to look at.
    #[must_use]
    pub fn window(&self) -> Window<'_, T> {
        Window {
            tokens: &self.held,
            last: self.finished,
        }
    }

    /// Takes the answer to [`Step::Check`].
    pub fn decide(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Release => {}
            Verdict::Replace(text) => {
                replace(&mut self.held, &text);
            }
            Verdict::Block => {
                self.held.clear();
                self.blocked = true;
                return;
            }
        }
        self.released = true;
    }

    /// The next thing to do at this time, if there is any.
    pub fn step(&mut self, now_ms: f64) -> Option<Step<T>> {
        while self.may_leave() {
            if self.options.checked && !self.released {
                return Some(Step::Check);
            }
            self.move_to_batch(now_ms);
            if self.is_full() {
                return Some(Step::Chunk(mem::take(&mut self.batch)));
            }
        }
        let over = self.blocked || (self.finished && self.held.is_empty());
        let due = over || self.due_ms().is_some_and(|due_ms| due_ms <= now_ms);
        if due && !self.batch.is_empty() {
            return Some(Step::Chunk(mem::take(&mut self.batch)));
        }
        let ends = over && !mem::replace(&mut self.ended, over);
        ends.then_some(Step::End {
            blocked: self.blocked,
        })
    }

    fn may_leave(&self) -> bool {
        if self.finished {
            return !self.held.is_empty();
        }
        !self.options.whole && self.held.len() > self.options.hold_back_tokens
    }

    /// One token, or at the end all that the check has seen.
    fn move_to_batch(&mut self, now_ms: f64) {
        if self.batch.is_empty() {
            self.opened_ms = now_ms;
        }
        self.batch.extend(self.held.pop_front());
        // The last window is looked at as a whole.
        self.released = self.finished && !self.held.is_empty() && self.released;
    }

    fn is_full(&self) -> bool {
        let whole = self.options.whole;
        let otherwise = match self.options.batch_ms {
            Some(_) => usize::MAX,
            None => 1,
        };
        !whole && self.batch.len() >= self.options.batch_tokens.unwrap_or(otherwise)
    }
}

fn replace<T: Piece>(tokens: &mut VecDeque<T>, text: &str) {
    let mut rest = text;
    let (mut front, mut back) = (0, tokens.len());
    while let Some(after) = tokens.get(front).and_then(|t| rest.strip_prefix(t.text())) {
        (rest, front) = (after, front + 1);
    }
    while front < back
        && let Some(before) = tokens
            .get(back - 1)
            .and_then(|t| rest.strip_suffix(t.text()))
    {
        (rest, back) = (before, back - 1);
    }
    if front < back {
        for token in tokens.range_mut(front..back) {
            token.set_text(mem::take(&mut rest).to_owned());
        }
    } else if let Some(token) = tokens.get_mut(front.saturating_sub(1)) {
        // An insertion goes to the token before it.
        let own = token.text();
        let text = if front == 0 {
            [rest, own].concat()
        } else {
            [own, rest].concat()
        };
        token.set_text(text);
    }
}
