//! One line of a page: blank, comment or sample.

use super::text::Cursor;
use super::{Exemplar, Format, Kind, Labels, Sample, number};

/// What a line is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Line<'a> {
    /// Nothing, or a comment without meaning.
    Blank,
    Comment(Comment<'a>),
    Sample(Sample),
}

/// A comment that says something of a family, or ends the page.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Comment<'a> {
    Help { name: &'a str, text: String },
    Type { name: &'a str, kind: Kind },
    Unit { name: &'a str, unit: &'a str },
    Eof,
}

/// Reads one line, without its end.
pub(super) fn parse_line(text: &str, format: Format) -> Result<Line<'_>, String> {
    let mut cursor = Cursor::new(text);
    cursor.skip_blanks();
    if cursor.is_done() {
        return Ok(Line::Blank);
    }
    if cursor.take('#') {
        let comment = comment(text, cursor, format)?;
        return Ok(comment.map_or(Line::Blank, Line::Comment));
    }
    sample(cursor, format).map(Line::Sample)
}

fn comment<'a>(line: &str, mut cursor: Cursor<'a>, format: Format) -> Result<Option<Comment<'a>>, String> {
    let open = format == Format::OpenMetrics;
    if open && line == "# EOF" {
        return Ok(Some(Comment::Eof));
    }
    cursor.skip_blanks();
    let keyword = cursor.word();
    if !(matches!(keyword, "HELP" | "TYPE") || (open && keyword == "UNIT")) {
        return Ok(None);
    }
    cursor.skip_blanks();
    let name = cursor.name(true)?;
    if !cursor.is_done() && !cursor.skip_blanks() {
        return Err(format!("expected a blank after `{name}`, found {}", cursor.found()));
    }
    let rest = cursor.rest();
    Ok(Some(match keyword {
        "HELP" => Comment::Help { name, text: unescape_help(rest, open) },
        "UNIT" => Comment::Unit { name, unit: rest.trim() },
        _ => Comment::Type { name, kind: kind(rest.trim(), format)? },
    }))
}

fn kind(word: &str, format: Format) -> Result<Kind, String> {
    let open = format == Format::OpenMetrics;
    Ok(match word {
        "counter" => Kind::Counter,
        "gauge" => Kind::Gauge,
        "histogram" => Kind::Histogram,
        "summary" => Kind::Summary,
        "untyped" | "unknown" => Kind::Unknown,
        "info" if open => Kind::Info,
        "stateset" if open => Kind::StateSet,
        "gaugehistogram" if open => Kind::GaugeHistogram,
        _ => {
            let expected = if open {
                "counter, gauge, histogram, summary, info, stateset, gaugehistogram or unknown"
            } else {
                "counter, gauge, histogram, summary or untyped"
            };
            return Err(format!("expected {expected}, found {}", Cursor::new(word).found()));
        }
    })
}

/// Help text: `\\` and `\n`, in OpenMetrics `\"` too; any other backslash is one.
fn unescape_help(text: &str, open: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let (char, used) = match rest[at + 1..].chars().next() {
            Some('\\') => ('\\', 2),
            Some('n') => ('\n', 2),
            Some('"') if open => ('"', 2),
            _ => ('\\', 1),
        };
        out.push(char);
        rest = &rest[at + used..];
    }
    out.push_str(rest);
    out
}

fn sample(mut cursor: Cursor<'_>, format: Format) -> Result<Sample, String> {
    let name = cursor.name(true)?.to_owned();
    let spaced = cursor.skip_blanks();
    let mut labels = Labels::default();
    if cursor.take('{') {
        labels = read_labels(&mut cursor)?;
        cursor.skip_blanks();
    } else if !spaced {
        return Err(format!("expected a blank or `{{` after `{name}`, found {}", cursor.found()));
    }
    let value = value(&mut cursor)?;
    let mut sample = Sample::new(name, labels, value);
    cursor.skip_blanks();
    if !cursor.is_done() && !cursor.at('#') {
        sample.timestamp_ms = Some(timestamp(&mut cursor, format)?);
        cursor.skip_blanks();
    }
    // In 0.0.4 a `#` here is no comment by the letter, but servers that think they were asked for OpenMetrics write
    // exemplars there, and nothing else can be meant.
    if cursor.take('#') {
        if format == Format::OpenMetrics {
            sample.exemplar = Some(exemplar(&mut cursor, format)?);
        }
    } else if !cursor.is_done() {
        return Err(format!("expected the end of the line, found {}", cursor.found()));
    }
    Ok(sample)
}

fn exemplar(cursor: &mut Cursor<'_>, format: Format) -> Result<Exemplar, String> {
    cursor.skip_blanks();
    if !cursor.take('{') {
        return Err(format!("expected the exemplar's labels in braces, found {}", cursor.found()));
    }
    let labels = read_labels(cursor)?;
    cursor.skip_blanks();
    let value = value(cursor)?;
    cursor.skip_blanks();
    let timestamp_ms = if cursor.is_done() { None } else { Some(timestamp(cursor, format)?) };
    cursor.skip_blanks();
    if cursor.is_done() {
        Ok(Exemplar { labels, value, timestamp_ms })
    } else {
        Err(format!("expected the end of the line, found {}", cursor.found()))
    }
}

/// Labels up to the closing brace, the opening one taken.
fn read_labels(cursor: &mut Cursor<'_>) -> Result<Labels, String> {
    let mut labels = Labels::default();
    loop {
        cursor.skip_blanks();
        if cursor.take('}') {
            return Ok(labels);
        }
        let name = cursor.name(false)?.to_owned();
        cursor.skip_blanks();
        if !cursor.take('=') {
            return Err(format!("expected `=` after the label `{name}`, found {}", cursor.found()));
        }
        cursor.skip_blanks();
        let value = cursor.quoted()?;
        if !labels.insert(&name, value) {
            return Err(format!("the label `{name}` stands twice"));
        }
        cursor.skip_blanks();
        if !cursor.take(',') && !cursor.at('}') {
            return Err(format!("expected `,` or `}}` after the label `{name}`, found {}", cursor.found()));
        }
    }
}

fn value(cursor: &mut Cursor<'_>) -> Result<f64, String> {
    let found = cursor.found();
    number::parse(cursor.word()).ok_or_else(|| format!("expected a number, found {found}"))
}

/// Seconds that a timestamp may be from the epoch: beyond, milliseconds no longer survive a float.
const TIMESTAMP_MAX_S: f64 = 1e11;

fn timestamp(cursor: &mut Cursor<'_>, format: Format) -> Result<i64, String> {
    let found = cursor.found();
    let word = cursor.word();
    match format {
        Format::Text => {
            word.parse().map_err(|_| format!("expected a timestamp in whole milliseconds, found {found}"))
        }
        Format::OpenMetrics => number::parse(word)
            .filter(|seconds| seconds.abs() <= TIMESTAMP_MAX_S)
            .map(|seconds| {
                #[expect(clippy::cast_possible_truncation, reason = "bounded a line above")]
                let ms = (seconds * 1e3).round() as i64;
                ms
            })
            .ok_or_else(|| format!("expected a timestamp in seconds, found {found}")),
    }
}
