//! How long to wait before asking again.

/// Waits that double, with full jitter: anything from 0 to the doubled time is as likely, so
/// that clients which failed together do not come back together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// Tries in all; 1 never tries again.
    pub attempts: u32,
    /// The longest first wait, in milliseconds.
    pub base_ms: f64,
    /// The longest wait. A server that asks for more is not asked again.
    pub max_ms: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            attempts: 3,
            base_ms: 500.0,
            max_ms: 8_000.0,
        }
    }
}

impl Backoff {
    /// The wait after `tried` tries, or nothing where there is no other. `random` is from 0 to
    /// 1. A server's `Retry-After` is waited for in full, with the jitter after it.
    #[must_use]
    pub fn wait_ms(&self, tried: u32, retry_after_ms: Option<f64>, random: f64) -> Option<f64> {
        if tried >= self.attempts {
            return None;
        }
        let doublings = i32::try_from(tried.saturating_sub(1)).unwrap_or(i32::MAX);
        let longest = (self.base_ms * 2f64.powi(doublings)).min(self.max_ms);
        let jitter = longest * random.clamp(0.0, 1.0);
        match retry_after_ms {
            None => Some(jitter),
            Some(asked) if asked > self.max_ms => None,
            Some(asked) => Some(asked + jitter.min(self.base_ms)),
        }
    }
}

/// The wait that a `Retry-After` header asks for: seconds, or a date against the clock of the
/// caller, in milliseconds since 1970. A date that has passed asks for none.
#[must_use]
pub fn retry_after_ms(value: &str, now_unix_ms: f64) -> Option<f64> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return value.parse::<f64>().ok().map(|seconds| seconds * 1000.0);
    }
    http_date_ms(value).map(|at_ms| (at_ms - now_unix_ms).max(0.0))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, in milliseconds since 1970.
fn http_date_ms(value: &str) -> Option<f64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let (_, rest) = value.split_once(", ")?;
    let mut parts = rest.split(' ');
    let day: u32 = parts.next()?.parse().ok()?;
    let month = parts.next().filter(|month| month.len() == 3)?;
    let month = MONTHS.find(month).filter(|at| at % 3 == 0)? / 3;
    let year: i32 = parts.next()?.parse().ok()?;
    let mut time = parts
        .next()?
        .split(':')
        .map(|part| part.parse::<u32>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    if parts.next()? != "GMT" || !(1..=31).contains(&day) || hour > 23 || minute > 59 {
        return None;
    }
    let days = days_since_1970(year, u32::try_from(month).ok()?, day);
    let seconds = f64::from(hour * 3600 + minute * 60 + second.min(60));
    Some((days * 86_400.0 + seconds) * 1000.0)
}

/// In the Gregorian calendar; `month` counts from 0. Years begin in March here, so that the
/// leap day comes last.
fn days_since_1970(year: i32, month: u32, day: u32) -> f64 {
    let (year, month) = match month {
        0 | 1 => (f64::from(year) - 1.0, month + 10),
        _ => (f64::from(year), month - 2),
    };
    let leap_days = (year / 4.0).floor() - (year / 100.0).floor() + (year / 400.0).floor();
    let of_year = f64::from((month * 153 + 2) / 5) + f64::from(day) - 1.0;
    year * 365.0 + leap_days + of_year - 719_468.0
}
