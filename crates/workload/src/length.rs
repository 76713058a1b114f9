//! Laws of prompt and output lengths, in tokens: their texts on the command line, and the draw for request
//! `i`.
//!
//! Element `i` of a stream gives the length of request `i` alone, so lengths do not depend on how many
//! requests there are. Never reads a file: the values of an empirical law come from a reader that the caller
//! opened.

use goodput_core::plan::LengthLaw;
use goodput_core::rng::Draw;
use std::io::BufRead;
use thiserror::Error;

/// A length law as typed: complete, or naming a file of values.
#[derive(Debug, Clone, PartialEq)]
pub enum LengthText {
    /// A complete law.
    Law(LengthLaw),
    /// `empirical(FILE)`: open the file and hand it to [`read_values`].
    EmpiricalFile(String),
}

/// Text or values that are not a law of lengths.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LengthError {
    /// Not one of the forms.
    #[error(
        "`{0}` is not a length: use `512`, `uniform(100,900)`, `lognormal(mean=500,cv=1.2)`, `lognormal(mean=500,cv=1.2,max=4000)` or `empirical(FILE)`"
    )]
    Form(String),
    /// A form with values that no law has.
    #[error("a length law needs {0}")]
    Values(&'static str),
    /// A file of values with something else in it.
    #[error("line {line} of the values: `{text}` is not a whole number of tokens from 1 to 4294967295")]
    Line {
        /// The line, from 1.
        line: u64,
        /// What stands there.
        text: String,
    },
    /// The file of values could not be read.
    #[error("the values could not be read: {0}")]
    Read(String),
}

/// Reads a law as typed on the command line.
///
/// # Errors
/// [`LengthError::Form`] with the forms there are, or [`LengthError::Values`].
pub fn parse(text: &str) -> Result<LengthText, LengthError> {
    let fail = || LengthError::Form(text.to_owned());
    let trimmed = text.trim();
    let Some((name, rest)) = trimmed.split_once('(') else {
        return checked(LengthLaw::Fixed { tokens: trimmed.parse().map_err(|_| fail())? });
    };
    let inside = rest.strip_suffix(')').ok_or_else(fail)?.trim();
    match name.trim() {
        "empirical" if !inside.is_empty() => Ok(LengthText::EmpiricalFile(inside.to_owned())),
        "uniform" => {
            let (min, max) = inside.split_once(',').ok_or_else(fail)?;
            let number = |part: &str| part.trim().parse().map_err(|_| fail());
            checked(LengthLaw::Uniform { min: number(min)?, max: number(max)? })
        }
        "lognormal" => {
            let (mut mean, mut cv, mut max) = (None, None, None);
            for part in inside.split(',') {
                let (key, value) = part.split_once('=').ok_or_else(fail)?;
                let value = value.trim();
                match key.trim() {
                    "mean" => mean = Some(value.parse().map_err(|_| fail())?),
                    "cv" => cv = Some(value.parse().map_err(|_| fail())?),
                    "max" => max = Some(value.parse().map_err(|_| fail())?),
                    _ => return Err(fail()),
                }
            }
            checked(LengthLaw::Lognormal { mean: mean.ok_or_else(fail)?, cv: cv.ok_or_else(fail)?, max })
        }
        _ => Err(fail()),
    }
}

fn checked(law: LengthLaw) -> Result<LengthText, LengthError> {
    check(&law).map(|()| LengthText::Law(law))
}

/// Whether `law` can be drawn from.
///
/// # Errors
/// [`LengthError::Values`] with what it needs.
pub fn check(law: &LengthLaw) -> Result<(), LengthError> {
    let needs = match law {
        LengthLaw::Fixed { tokens: 0 } => "at least 1 token",
        LengthLaw::Uniform { min: 0, .. } => "at least 1 token as its smallest value",
        LengthLaw::Uniform { min, max } if min > max => "its smallest value first: uniform(MIN,MAX)",
        LengthLaw::Lognormal { mean, .. } if !(*mean >= 1.0 && mean.is_finite()) => {
            "a mean of at least 1 token"
        }
        LengthLaw::Lognormal { cv, .. } if !(*cv >= 0.0 && cv.is_finite()) => {
            "a coefficient of variation from 0"
        }
        LengthLaw::Lognormal { max: Some(0), .. } => "a maximum of at least 1 token",
        LengthLaw::Empirical { values } if values.is_empty() => "at least one value",
        LengthLaw::Empirical { values } if values.contains(&0) => "values of at least 1 token",
        _ => return Ok(()),
    };
    Err(LengthError::Values(needs))
}

/// Reads the values of an empirical law: whole numbers of tokens, separated by blanks, commas or line ends;
/// from `#` to the end of the line is a comment.
///
/// # Errors
/// [`LengthError::Line`] for anything else, [`LengthError::Values`] if there is no value,
/// [`LengthError::Read`].
pub fn read_values(reader: impl BufRead) -> Result<LengthLaw, LengthError> {
    let mut values = Vec::new();
    for (line, number) in reader.lines().zip(1..) {
        let line = line.map_err(|error| LengthError::Read(error.to_string()))?;
        let content = line.split('#').next().unwrap_or_default();
        let words = content.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
        for word in words {
            let value = word.parse().ok().filter(|value| *value > 0);
            values.push(value.ok_or_else(|| LengthError::Line { line: number, text: word.to_owned() })?);
        }
    }
    let law = LengthLaw::Empirical { values };
    check(&law).map(|()| law)
}

/// One length, in tokens, at least 1. `law` has passed [`check`].
///
/// A lognormal has the given mean and coefficient of variation before it is rounded to whole tokens and
/// clipped to `1..=max`; mu = ln(mean) - sigma^2/2 and sigma^2 = ln(1 + cv^2).
#[must_use]
pub fn draw(law: &LengthLaw, random: &mut Draw) -> u32 {
    match law {
        LengthLaw::Fixed { tokens } => *tokens,
        LengthLaw::Uniform { min, max } => {
            let span = u64::from(*max) - u64::from(*min) + 1;
            u32::try_from(u64::from(*min) + random.below(span)).unwrap_or(*max)
        }
        LengthLaw::Lognormal { mean, cv, max } => {
            let sigma_squared = (cv * cv).ln_1p();
            let log = mean.ln() - 0.5 * sigma_squared + sigma_squared.sqrt() * random.normal();
            whole_tokens(log.exp()).min(max.unwrap_or(u32::MAX))
        }
        LengthLaw::Empirical { values } => {
            let position = usize::try_from(random.below(values.len() as u64)).unwrap_or_default();
            values[position]
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, which is the clipping stated"
)]
fn whole_tokens(length: f64) -> u32 {
    (length.round() as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::rng::Seed;
    use proptest::prelude::*;

    fn drawn(law: &LengthLaw, n: u64) -> Vec<u32> {
        let stream = Seed(11).stream("lengths");
        (0..n).map(|i| draw(law, &mut stream.at(i))).collect()
    }

    fn lognormal(mean: f64, cv: f64, max: Option<u32>) -> LengthLaw {
        LengthLaw::Lognormal { mean, cv, max }
    }

    #[test]
    fn texts_of_the_command_line() {
        let cases = [
            ("512", LengthText::Law(LengthLaw::Fixed { tokens: 512 })),
            (" uniform( 100 , 900 ) ", LengthText::Law(LengthLaw::Uniform { min: 100, max: 900 })),
            ("lognormal(mean=500,cv=1.2)", LengthText::Law(lognormal(500.0, 1.2, None))),
            ("lognormal(max=4000, cv=1.2, mean=500)", LengthText::Law(lognormal(500.0, 1.2, Some(4000)))),
            ("empirical(my lengths.txt)", LengthText::EmpiricalFile("my lengths.txt".into())),
        ];
        for (text, law) in cases {
            assert_eq!(parse(text), Ok(law), "{text}");
        }
    }

    #[test]
    fn wrong_texts_say_what_is_right() {
        let cases = [
            ("", "is not a length"),
            ("-5", "is not a length"),
            ("5.5", "is not a length"),
            ("uniform(5)", "is not a length"),
            ("uniform(1,2", "is not a length"),
            ("normal(1,2)", "is not a length"),
            ("lognormal(mean=5)", "is not a length"),
            ("lognormal(mean=5,cv=1,min=2)", "is not a length"),
            ("empirical()", "is not a length"),
            ("0", "at least 1 token"),
            ("uniform(0,3)", "at least 1 token"),
            ("uniform(9,3)", "uniform(MIN,MAX)"),
            ("lognormal(mean=0,cv=1)", "a mean of at least 1"),
            ("lognormal(mean=nan,cv=1)", "a mean of at least 1"),
            ("lognormal(mean=5,cv=-1)", "coefficient of variation"),
            ("lognormal(mean=5,cv=1,max=0)", "a maximum"),
        ];
        for (text, part) in cases {
            let message = parse(text).expect_err(text).to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn values_are_read_from_lines_and_lists() {
        let read = |text: &str| read_values(text.as_bytes());
        assert_eq!(read("5, 6\n# old\n7 # new\n\n8"), Ok(LengthLaw::Empirical { values: vec![5, 6, 7, 8] }));
        assert_eq!(read("5\n0"), Err(LengthError::Line { line: 2, text: "0".into() }));
        assert_eq!(read("5\n6\nx7"), Err(LengthError::Line { line: 3, text: "x7".into() }));
        assert_eq!(read("# none"), Err(LengthError::Values("at least one value")));
    }

    #[test]
    fn uniform_takes_every_value_and_both_ends() {
        let mut values = drawn(&LengthLaw::Uniform { min: 3, max: 6 }, 400);
        values.sort_unstable();
        values.dedup();
        assert_eq!(values, [3, 4, 5, 6]);
        assert!(drawn(&LengthLaw::Uniform { min: 1, max: u32::MAX }, 100).iter().any(|v| *v > 1 << 31));
    }

    #[test]
    fn lognormal_has_its_mean_and_cv() {
        let values: Vec<f64> =
            drawn(&lognormal(500.0, 1.2, None), 60_000).iter().map(|v| f64::from(*v)).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let cv = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt() / mean;
        assert!((mean / 500.0 - 1.0).abs() < 0.02 && (cv / 1.2 - 1.0).abs() < 0.06, "{mean} {cv}");
    }

    #[test]
    fn empirical_draws_only_what_it_was_given() {
        let values = drawn(&LengthLaw::Empirical { values: vec![10, 10, 99] }, 9_000);
        let tens = values.iter().filter(|v| **v == 10).count() as f64;
        assert!(values.iter().all(|v| [10, 99].contains(v)));
        assert!((tens / 9_000.0 - 2.0 / 3.0).abs() < 0.02, "{tens}");
    }

    proptest! {
        #[test]
        fn clipping_holds(mean in 1.0..1e6_f64, cv in 0.0..5.0_f64, max in 1_u32..2_000, i: u64) {
            let length = draw(&lognormal(mean, cv, Some(max)), &mut Seed(1).stream("x").at(i));
            prop_assert!((1..=max).contains(&length));
        }
    }
}
