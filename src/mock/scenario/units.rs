//! Numbers with their limits, checked where they are read.

use serde::{Deserialize, Serialize};

/// Longest time that a scenario may name: about eleven days.
const MAX_MS: f64 = 1e9;

/// Milliseconds, 0 to 1e9.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Ms(f64);

impl Ms {
    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }

    /// A constant known to be within the limits.
    pub(super) const fn constant(ms: f64) -> Self {
        Self(ms)
    }
}

impl TryFrom<f64> for Ms {
    type Error = String;

    fn try_from(ms: f64) -> Result<Self, String> {
        // The comparison is false for what is no number.
        if (0.0..=MAX_MS).contains(&ms) {
            Ok(Self(ms))
        } else {
            Err(format!("{ms} is no time: milliseconds from 0 to {MAX_MS}"))
        }
    }
}

impl From<Ms> for f64 {
    fn from(ms: Ms) -> Self {
        ms.0
    }
}

/// A whole number below 2^53, which JavaScript can hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "u64")]
pub struct Count(u64);

impl Count {
    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number as a length, at most what this machine can address.
    #[must_use]
    pub fn len(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Whether it is 0.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The number for arithmetic with times and rates; exact, being below 2^53.
    #[must_use]
    pub const fn float(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
        let float = self.0 as f64;
        float
    }

    /// A constant known to be within the limits.
    pub(super) const fn constant(count: u64) -> Self {
        Self(count)
    }
}

impl TryFrom<f64> for Count {
    type Error = String;

    fn try_from(count: f64) -> Result<Self, String> {
        if (0.0..9_007_199_254_740_992.0).contains(&count) && count.fract() == 0.0 {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a whole number within the limits"
            )]
            return Ok(Self(count as u64));
        }
        Err(format!("{count} is no whole number from 0 below 2^53"))
    }
}

impl From<Count> for u64 {
    fn from(count: Count) -> Self {
        count.0
    }
}

/// A rate a second, above 0.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Rate(f64);

impl Rate {
    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Rate {
    type Error = String;

    fn try_from(rate: f64) -> Result<Self, String> {
        if rate > 0.0 && rate <= 1e18 {
            Ok(Self(rate))
        } else {
            Err(format!("{rate} is no rate: above 0, at most 1e18"))
        }
    }
}

impl From<Rate> for f64 {
    fn from(rate: Rate) -> Self {
        rate.0
    }
}

/// A part of a whole, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Share(f64);

impl Share {
    /// The whole.
    pub const ALL: Self = Self(1.0);

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Share {
    type Error = String;

    fn try_from(share: f64) -> Result<Self, String> {
        if (0.0..=1.0).contains(&share) {
            Ok(Self(share))
        } else {
            Err(format!("{share} is no share: 0 to 1"))
        }
    }
}

impl From<Share> for f64 {
    fn from(share: Share) -> Self {
        share.0
    }
}
