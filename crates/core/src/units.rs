//! Reading what people type: durations and rates with units.

use crate::time::Nanos;
use thiserror::Error;

/// Text that is not the quantity it should be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not {expected}")]
pub struct UnitError {
    /// What was typed.
    pub text: String,
    /// What was expected, with an example.
    pub expected: &'static str,
}

const DURATION: &str = "a duration such as `500us`, `50ms`, `20s`, `1m30s` or `2h`";
const RATE: &str = "a rate such as `50`, `0.5`, `50/s`, `300/min` or `inf`";

/// Reads a duration: one or more `<number><unit>` with units ns, us, ms, s, m, h. A bare number is refused,
/// except zero, because its unit would be a guess.
///
/// # Errors
/// [`UnitError`] with the text and what was expected.
pub fn parse_duration(text: &str) -> Result<Nanos, UnitError> {
    let fail = || UnitError { text: text.to_owned(), expected: DURATION };
    let mut rest = text.trim();
    if rest == "0" {
        return Ok(Nanos::ZERO);
    }
    if rest.is_empty() {
        return Err(fail());
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(fail)?;
        let value: f64 = rest[..digits].parse().map_err(|_| fail())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ns" => 1e-9,
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" | "sec" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(fail()),
        };
        seconds += value * unit;
        rest = rest[letters..].trim_start();
    }
    Ok(Nanos::from_secs_f64(seconds))
}

/// Reads a rate in requests per second; `inf` is infinity.
///
/// # Errors
/// [`UnitError`] for anything that is not a positive number or `inf`.
pub fn parse_rate(text: &str) -> Result<f64, UnitError> {
    let fail = || UnitError { text: text.to_owned(), expected: RATE };
    let text_trimmed = text.trim();
    if matches!(text_trimmed, "inf" | "Inf" | "infinity") {
        return Ok(f64::INFINITY);
    }
    let (number, per) = match text_trimmed.split_once('/') {
        Some((number, "s" | "sec")) => (number, 1.0),
        Some((number, "m" | "min")) => (number, 60.0),
        Some((number, "h")) => (number, 3600.0),
        Some(_) => return Err(fail()),
        None => (text_trimmed, 1.0),
    };
    let value: f64 = number.trim().parse().map_err(|_| fail())?;
    if value.is_finite() && value > 0.0 { Ok(value / per) } else { Err(fail()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let cases = [
            ("50ms", Some(50_000_000)),
            ("1m30s", Some(90_000_000_000)),
            ("1m 30s", Some(90_000_000_000)),
            ("0.5s", Some(500_000_000)),
            ("0", Some(0)),
            ("2h", Some(7_200_000_000_000)),
            ("20", None),
            ("", None),
            ("ms", None),
            ("-5s", None),
            ("5 parsecs", None),
            ("1.2.3s", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_duration(text).ok(), expected.map(Nanos), "{text}");
        }
    }

    #[test]
    fn rates() {
        assert_eq!(parse_rate("inf"), Ok(f64::INFINITY));
        assert_eq!(parse_rate("0.5"), Ok(0.5));
        assert_eq!(parse_rate("300/min"), Ok(5.0));
        for bad in ["0", "-1", "nan", "x", "5/fortnight", ""] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
    }
}
