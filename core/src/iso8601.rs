//! ISO 8601 dates and times, as `calve.convert.iso8601` and the patterns of `calve.columns.kinds` read them.

pub const DAY: i64 = 86_400;
/// From the first day of the year 1 to the last one of the year 9999, since 1970.
pub const FIRST_DAY: i64 = -719_162;
pub const LAST_DAY: i64 = 2_932_896;

/// A date-time: seconds since 1970, UTC, and the digits of the fraction.
pub struct Stamp<'a> {
    pub seconds: i64,
    pub fraction: &'a [u8],
    pub year: i64,
    pub has_time: bool,
    /// Whether it has an offset or a `Z`.
    pub has_zone: bool,
    /// Whether it has an offset in hours, not just a `Z`.
    pub has_offset: bool,
}

#[inline(always)]
fn two(text: &[u8], at: usize) -> Option<i64> {
    let (tens, ones) = (text.get(at)?.wrapping_sub(b'0'), text.get(at + 1)?.wrapping_sub(b'0'));
    (tens <= 9 && ones <= 9).then(|| i64::from(tens * 10 + ones))
}

/// Days since 1970 (https://howardhinnant.github.io/date_algorithms.html, `days_from_civil`).
#[inline(always)]
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let most = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year < 1 || day < 1 || day > most {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = year / 400;
    let of_era = year - era * 400;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + day - 1 - 719_468)
}

/// Reads `HH:MM`, `HH:MM:SS` or that with a fraction at a position: seconds, fraction and the position behind.
#[inline(always)]
fn clock(text: &[u8], at: usize) -> Option<(i64, &[u8], usize)> {
    let (hour, minute) = (two(text, at)?, two(text, at + 3)?);
    let (mut second, mut end, mut fraction) = (0, at + 5, &text[..0]);
    if text[at + 2] != b':' || hour > 23 || minute > 59 {
        return None;
    }
    if text.get(end) == Some(&b':') {
        second = two(text, end + 1)?;
        end += 3;
        if matches!(text.get(end), Some(b'.' | b',')) {
            let from = end + 1;
            end = from + text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            fraction = &text[from..end];
            if fraction.is_empty() {
                return None;
            }
        }
    }
    (second <= 59).then_some((hour * 3600 + minute * 60 + second, fraction, end))
}

/// Reads `Z`, `+HH`, `+HHMM` or `+HH:MM`, perhaps behind a blank, to the end: seconds east, and whether it is an offset.
#[inline(always)]
fn zone(text: &[u8]) -> Option<(i64, bool)> {
    let text = text.strip_prefix(b" ").unwrap_or(text);
    if matches!(text, b"Z" | b"z") {
        return Some((0, false));
    }
    let hours = two(text, 1)?;
    let minutes = match &text[3..] {
        [] => 0,
        [b':', rest @ ..] | rest if rest.len() == 2 => two(rest, 0)?,
        _ => return None,
    };
    let seconds = hours * 3600 + minutes * 60;
    if minutes > 59 || seconds > 18 * 3600 {
        return None;
    }
    match text[0] {
        b'+' => Some((seconds, true)),
        b'-' => Some((-seconds, true)),
        _ => None,
    }
}

#[inline(always)]
pub fn stamp(text: &[u8]) -> Option<Stamp<'_>> {
    if text.len() < 10 || text[4] != b'-' || text[7] != b'-' {
        return None;
    }
    let year = two(text, 0)? * 100 + two(text, 2)?;
    let midnight = days(year, two(text, 5)?, two(text, 8)?)? * DAY;
    if text.len() == 10 {
        return Some(Stamp {
            seconds: midnight,
            fraction: &[],
            year,
            has_time: false,
            has_zone: false,
            has_offset: false,
        });
    }
    if !matches!(text[10], b'T' | b't' | b' ') {
        return None;
    }
    let (seconds, fraction, end) = clock(text, 11)?;
    let has_zone = end < text.len();
    let (east, has_offset) = if has_zone { zone(&text[end..])? } else { (0, false) };
    Some(Stamp { seconds: midnight + seconds - east, fraction, year, has_time: true, has_zone, has_offset })
}

/// Reads a time of the day: seconds and the digits of the fraction.
pub fn time(text: &[u8]) -> Option<(i64, &[u8])> {
    let (seconds, fraction, end) = clock(text, 0)?;
    (end == text.len()).then_some((seconds, fraction))
}

/// A fraction in units of so many digits; None: it is finer.
#[inline(always)]
pub fn units(fraction: &[u8], digits: usize) -> Option<i64> {
    let mut value = 0;
    for at in 0..digits {
        value = value * 10 + fraction.get(at).map_or(0, |digit| i64::from(digit - b'0'));
    }
    let finer = fraction.get(digits..).unwrap_or(&[]);
    finer.iter().all(|digit| *digit == b'0').then_some(value)
}

/// Writes a number with at least so many digits.
pub fn write_digits(value: i64, width: usize, out: &mut Vec<u8>) {
    let (start, mut value) = (out.len(), value);
    while value > 0 || out.len() < start + width {
        out.push(b'0' + (value % 10) as u8);
        value /= 10;
    }
    out[start..].reverse();
}

/// Writes days since 1970, in the years 1 to 9999, as a date (`civil_from_days` of the algorithms above).
pub fn write_date(days: i64, out: &mut Vec<u8>) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    write_digits(era * 400 + year + next, 4, out);
    out.push(b'-');
    write_digits(month, 2, out);
    out.push(b'-');
    write_digits(day, 2, out);
}

/// Writes seconds of a day and a fraction of so many digits, without zeros at its end.
pub fn write_time(seconds: i64, fraction: i64, digits: u32, out: &mut Vec<u8>) {
    write_digits(seconds / 3600, 2, out);
    out.push(b':');
    write_digits(seconds / 60 % 60, 2, out);
    out.push(b':');
    write_digits(seconds % 60, 2, out);
    write_fraction(fraction, digits, out);
}

/// Writes a fraction of so many digits with a point before it, without zeros at its end.
pub fn write_fraction(fraction: i64, digits: u32, out: &mut Vec<u8>) {
    if fraction > 0 {
        out.push(b'.');
        write_digits(fraction, digits as usize, out);
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_day_is_written_as_the_date_that_is_read_as_it() {
        for day in FIRST_DAY..=LAST_DAY {
            let mut text = Vec::new();
            write_date(day, &mut text);
            assert_eq!(stamp(&text).map(|stamp| stamp.seconds), Some(day * DAY));
        }
    }
}
