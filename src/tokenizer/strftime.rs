//! `strftime_now` of chat templates: dates of a given moment, in English, without a clock.

use super::error::TemplateError;

const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAY_SECONDS: i64 = 86_400;

/// The moment that templates see as now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Now {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub unix_seconds: f64,
    /// Minutes that local time is ahead of UTC.
    pub utc_offset_minutes: i32,
}

/// A moment as calendars and clocks show it.
struct Civil {
    year: i64,
    /// 1 to 12.
    month: i64,
    /// 1 to 31.
    day: i64,
    /// 0 is Monday.
    weekday: i64,
    /// 1 to 366.
    day_of_year: i64,
    second_of_day: i64,
}

impl Civil {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a float cast saturates, then clamps"
    )]
    fn at(now: Now) -> Self {
        // Years 0001 to 9999, as Python's datetime.
        let seconds = (now.unix_seconds.floor() as i64).clamp(-62_135_596_800, 253_402_300_799);
        let seconds = seconds + i64::from(now.utc_offset_minutes) * 60;
        let days = seconds.div_euclid(DAY_SECONDS);
        let (year, month, day) = civil_from_days(days);
        Self {
            year,
            month,
            day,
            // 1970-01-01 was a Thursday.
            weekday: (days + 3).rem_euclid(7),
            day_of_year: days - days_from_civil(year) + 1,
            second_of_day: seconds.rem_euclid(DAY_SECONDS),
        }
    }

    fn hour12(&self) -> i64 {
        (self.hour() + 11) % 12 + 1
    }

    fn hour(&self) -> i64 {
        self.second_of_day / 3600
    }

    fn minute(&self) -> i64 {
        self.second_of_day / 60 % 60
    }

    fn second(&self) -> i64 {
        self.second_of_day % 60
    }

    fn weekday_name(&self) -> &'static str {
        DAYS[usize::try_from(self.weekday).unwrap_or(0) % 7]
    }

    fn month_name(&self) -> &'static str {
        MONTHS[usize::try_from(self.month - 1).unwrap_or(0) % 12]
    }
}

/// Year, month and day of a day counted from 1970-01-01, by eras of 400 years that start in
/// March (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day = shifted.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (
        year + era * 400 + i64::from(month <= 2),
        month,
        day_of_month,
    )
}

/// The day number of 1 January of a year.
fn days_from_civil(year: i64) -> i64 {
    let before = year - 1;
    before * 365 + before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400) - 719_162
}

/// Formats `now` as C's `strftime` in the C locale would, with glibc's `%-d` form.
///
/// # Errors
/// [`TemplateError::UnknownTimeFormat`] names a conversion that is not known.
pub(super) fn strftime(format: &str, now: Now) -> Result<String, TemplateError> {
    let civil = Civil::at(now);
    let mut out = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let mut conversion = letters.next().unwrap_or('%');
        let pads = conversion != '-';
        if !pads {
            conversion = letters.next().unwrap_or('-');
        }
        out.push_str(&convert(&civil, conversion, pads)?);
    }
    Ok(out)
}

fn convert(civil: &Civil, conversion: char, pads: bool) -> Result<String, TemplateError> {
    let number = |value: i64, width: usize| {
        if pads {
            format!("{value:0width$}")
        } else {
            value.to_string()
        }
    };
    let parts = |list: &[(char, &str)]| -> Result<String, TemplateError> {
        let mut out = String::new();
        for (conversion, after) in list {
            out.push_str(&convert(civil, *conversion, true)?);
            out.push_str(after);
        }
        Ok(out)
    };
    Ok(match conversion {
        'a' => civil.weekday_name()[..3].to_owned(),
        'A' => civil.weekday_name().to_owned(),
        'b' | 'h' => civil.month_name()[..3].to_owned(),
        'B' => civil.month_name().to_owned(),
        'd' => number(civil.day, 2),
        'e' => format!("{:2}", civil.day),
        'H' => number(civil.hour(), 2),
        'I' => number(civil.hour12(), 2),
        'j' => number(civil.day_of_year, 3),
        'm' => number(civil.month, 2),
        'M' => number(civil.minute(), 2),
        'p' => if civil.hour() < 12 { "AM" } else { "PM" }.to_owned(),
        'S' => number(civil.second(), 2),
        'u' => number(civil.weekday + 1, 1),
        'w' => number((civil.weekday + 1) % 7, 1),
        'y' => number(civil.year.rem_euclid(100), 2),
        'Y' => number(civil.year, 4),
        'F' => parts(&[('Y', "-"), ('m', "-"), ('d', "")])?,
        'T' | 'X' => parts(&[('H', ":"), ('M', ":"), ('S', "")])?,
        'R' => parts(&[('H', ":"), ('M', "")])?,
        'D' | 'x' => parts(&[('m', "/"), ('d', "/"), ('y', "")])?,
        'c' => parts(&[('a', " "), ('b', " "), ('e', " "), ('T', " "), ('Y', "")])?,
        // Python's naive local time has no zone to show.
        'z' | 'Z' => String::new(),
        'n' => "\n".to_owned(),
        't' => "\t".to_owned(),
        '%' => "%".to_owned(),
        conversion => return Err(TemplateError::UnknownTimeFormat { conversion }),
    })
}
