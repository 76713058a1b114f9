//! Figures as people read them: four significant digits, thousands separated, never more precise than the
//! measurement and never `NaN`.

/// Four significant digits for what is 1 or more, three decimals below; `0` only for an exact zero.
#[must_use]
pub fn figure(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        v if v < 0.000_5 => "<0.001".into(),
        v if v < 9.999_5 => format!("{value:.3}"),
        v if v < 99.995 => format!("{value:.2}"),
        v if v < 999.95 => format!("{value:.1}"),
        _ => grouped(&format!("{value:.0}")),
    }
}

/// A number that somebody gave (a limit, a rate asked for), without digits that nobody typed.
pub(crate) fn given(value: f64) -> String {
    if value.fract() == 0.0 {
        return grouped(&format!("{value:.0}"));
    }
    format!("{value:.6}").trim_end_matches('0').to_owned()
}

/// An interval around a value, with the value's decimals; `-` for an end that the sample does not give.
pub(crate) fn interval(value: f64, low: Option<f64>, high: Option<f64>) -> String {
    let decimals = figure(value).split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let end = |end: Option<f64>| match end {
        None => "-".to_owned(),
        Some(end) if decimals == 0 => grouped(&format!("{end:.0}")),
        Some(end) => format!("{end:.decimals$}"),
    };
    format!("[{}, {}]", end(low), end(high))
}

/// [`figure`], or `-` for what is undefined.
pub(crate) fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), figure)
}

/// A whole number with thousands separated.
#[must_use]
pub fn count(n: u64) -> String {
    grouped(&n.to_string())
}

/// A number and its noun: `1 request`, `2 requests`.
pub(crate) fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// `part` in `whole` with its share: `3 of 200 (1.5 %)`.
pub(crate) fn part(part: u64, whole: u64) -> String {
    if whole == 0 {
        return format!("{} of 0", count(part));
    }
    format!("{} of {} ({})", count(part), count(whole), percent(part as f64 / whole as f64))
}

/// A share as a percentage with one decimal. What is not all is never rounded to all, nor something to nothing.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.05 {
        "<0.1 %".into()
    } else if percent > 99.95 && percent < 100.0 {
        ">99.9 %".into()
    } else {
        format!("{percent:.1} %")
    }
}

/// The name of an arrival law in a sentence.
pub(crate) fn law_title(name: &str) -> &str {
    if name == "poisson" { "Poisson" } else { name }
}

/// Separates the thousands of a string of digits that may begin with a sign.
fn grouped(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let mut text = sign.to_owned();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits() {
        let cases = [
            (0.0, "0"),
            (0.000_4, "<0.001"),
            (0.000_5, "0.001"),
            (0.012_34, "0.012"),
            (9.999_4, "9.999"),
            (9.999_6, "10.00"),
            (22.965_932, "22.97"),
            (99.996, "100.0"),
            (401.26, "401.3"),
            (999.96, "1,000"),
            (1_500.4, "1,500"),
            (1_234_567.0, "1,234,567"),
            (-1_234.0, "-1,234"),
        ];
        for (value, text) in cases {
            assert_eq!(figure(value), text, "{value}");
        }
        assert_eq!(optional(None), "-");
    }

    #[test]
    fn intervals_have_the_decimals_of_their_value() {
        assert_eq!(interval(10.0, Some(9.9), Some(10.1)), "[9.90, 10.10]");
        assert_eq!(interval(999.5, Some(998.25), None), "[998.2, -]");
        assert_eq!(interval(1_500.0, Some(999.6), Some(1_620.4)), "[1,000, 1,620]");
        assert_eq!(interval(0.0, Some(0.0), Some(0.4)), "[0, 0]");
    }

    #[test]
    fn what_was_given_keeps_its_digits() {
        for (value, text) in [(500.0, "500"), (0.5, "0.5"), (1_000.0, "1,000"), (0.123_456, "0.123456")] {
            assert_eq!(given(value), text);
        }
    }

    #[test]
    fn counts_and_nouns() {
        for (n, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(n), text);
        }
        assert_eq!(counted(1, "request"), "1 request");
        assert_eq!(counted(2_000, "request"), "2,000 requests");
        assert_eq!(part(3, 200), "3 of 200 (1.5 %)");
        assert_eq!(part(0, 0), "0 of 0");
    }

    #[test]
    fn shares_are_not_rounded_to_all_or_nothing() {
        for (share, text) in
            [(0.0, "0.0 %"), (0.000_1, "<0.1 %"), (0.952, "95.2 %"), (0.999_9, ">99.9 %"), (1.0, "100.0 %")]
        {
            assert_eq!(percent(share), text, "{share}");
        }
    }
}
