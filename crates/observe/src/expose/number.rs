//! How numbers are spelt on a page.
//!
//! Both engines write their pages with the official Python client, whose spelling is Python's `repr` with Go's
//! earlier switch to exponents: `1.0`, `1e-05`, `1e+06`, `+Inf`. Readers of edges compare values, but people and
//! shell scripts compare text, so the simulated pages spell as the real ones do.

/// A number as the Python client spells it.
#[must_use]
pub fn spell(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let shortest = format!("{value:e}");
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{sign}{}", lay_out(&digits, exponent, value > 0.0))
}

/// The digits d.ddd times ten to `exponent`, laid out: Python writes an exponent outside 1e-4..1e16; Go, for
/// positive numbers, from 1e6 on, which the client follows with a `0` in front of any exponent it writes itself.
fn lay_out(digits: &str, exponent: i32, positive: bool) -> String {
    let (first, rest) = digits.split_at(1);
    let fraction = if rest.is_empty() { String::new() } else { format!(".{rest}") };
    if !(-4..16).contains(&exponent) {
        return format!("{first}{fraction}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
    }
    if positive && exponent >= 6 {
        return format!("{first}{fraction}e+0{exponent}");
    }
    let Ok(point) = usize::try_from(exponent) else {
        return format!("0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1));
    };
    if digits.len() > point + 1 {
        format!("{}.{}", &digits[..=point], &digits[point + 1..])
    } else {
        format!("{digits}{}.0", "0".repeat(point + 1 - digits.len()))
    }
}

/// A number in any spelling that is met on pages: decimal with or without exponent, `NaN`, `+Inf`, `inf`,
/// `Infinity`, in any case.
#[must_use]
pub fn parse(text: &str) -> Option<f64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spelt_as_python_and_go_do() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.3, "0.3"),
            (7680.0, "7680.0"),
            (41295.0, "41295.0"),
            (999_999.0, "999999.0"),
            (1e6, "1e+06"),
            (1.1e6, "1.1e+06"),
            (5_278_015_488.0, "5.278015488e+09"),
            (1.796_011_104_54e9, "1.79601110454e+09"),
            (123_456_789_012.5, "1.234567890125e+011"),
            (-1e6, "-1000000.0"),
            (1e15, "1e+015"),
            (1e16, "1e+16"),
            (-1e16, "-1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.000_12, "0.00012"),
            (1e-5, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (0.001_620_000_000_000_000_1, "0.0016200000000000001"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(spell(value), text);
        }
    }

    #[test]
    fn read_in_any_spelling() {
        for text in ["+Inf", "Inf", "inf", "+inf", "Infinity", "INF"] {
            assert_eq!(parse(text), Some(f64::INFINITY), "{text}");
        }
        assert_eq!(parse("-Inf"), Some(f64::NEG_INFINITY));
        assert!(["NaN", "nan", "NAN"].into_iter().all(|text| parse(text).is_some_and(f64::is_nan)));
        assert_eq!(parse("1e+01"), Some(10.0));
        assert_eq!(parse(".5"), Some(0.5));
        for text in ["", "1,5", "0x10", "1e", "--1", "1 ", "1_000"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_spelt_is_read_to_the_last_bit(bits: u64) {
            let value = f64::from_bits(bits);
            let back = parse(&spell(value)).expect("a number");
            prop_assert!(back.to_bits() == value.to_bits() || (value.is_nan() && back.is_nan()));
        }
    }
}
