//! The reader: bytes in, a page and what could not be read out.
//!
//! It is strict about what a line says, and names the line and what was expected; it is lenient where the formats
//! are, or where their writers differ: blanks, labels in any order, a comma after the last label, `# HELP` and
//! `# TYPE` in any order and at any place, exemplars and timestamps, any spelling of numbers. A line that cannot be
//! read is skipped and counted, and the rest of the page stands: a scrape must not be lost to one bad line.
//!
//! No bytes make it panic, and what it holds is bounded by what it was given.

use super::line::{Comment, Line, parse_line};
use super::{Family, Format, Kind, Labels, Page, Sample};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What was found on a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// What could be read.
    pub page: Page,
    /// Lines that could not, the first [`Reading::FAULTS_KEPT`] of them.
    pub faults: Vec<Fault>,
    /// How many lines could not be read.
    pub skipped: usize,
}

/// A line that is not in the format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("metrics page line {line}: {reason}")]
pub struct Fault {
    /// Line number, from 1.
    pub line: usize,
    /// What was expected and what was found, in one sentence.
    pub reason: String,
}

impl Reading {
    /// How many faults are kept with their reasons; further ones are only counted.
    pub const FAULTS_KEPT: usize = 20;

    /// The page, if every line of it could be read.
    ///
    /// # Errors
    /// The first line that could not.
    pub fn whole(self) -> Result<Page, Fault> {
        match self.faults.into_iter().next() {
            None => Ok(self.page),
            Some(fault) => Err(fault),
        }
    }

    fn fault(&mut self, line: usize, reason: impl fmt::Display) {
        self.skipped += 1;
        if self.faults.len() < Self::FAULTS_KEPT {
            self.faults.push(Fault { line, reason: reason.to_string() });
        }
    }
}

/// Reads a page. See the head of this module for what is borne and what is not.
#[must_use]
pub fn read(bytes: &[u8], format: Format) -> Reading {
    let page = Page { format, families: Vec::new() };
    let mut reading = Reading { page, faults: Vec::new(), skipped: 0 };
    let mut reader = Reader::new(format);
    let mut lines = bytes.split(|&b| b == b'\n').enumerate().map(|(at, line)| (at + 1, line)).peekable();
    while let Some((number, bytes)) = lines.next() {
        if bytes.is_empty() && lines.peek().is_none() {
            break;
        }
        if let Err(reason) = reader.line(number, bytes) {
            reading.fault(number, reason);
        }
    }
    for (number, sample) in std::mem::take(&mut reader.samples) {
        if let Err(reason) = reader.place(sample) {
            reading.fault(number, reason);
        }
    }
    if format == Format::OpenMetrics && !reader.ended {
        let last = bytes.split(|&b| b == b'\n').count();
        reading.fault(last, "expected `# EOF` at the end: the page was cut off");
    }
    reading.faults.sort_by_key(|fault| fault.line);
    reading.page.families = reader.families;
    reading
}

struct Reader {
    format: Format,
    families: Vec<Family>,
    /// Where each family stands in `families`.
    places: BTreeMap<String, usize>,
    /// Families whose kind was said.
    typed: BTreeSet<String>,
    /// Samples with their line numbers; they find their families when all metadata has been seen.
    samples: Vec<(usize, Sample)>,
    /// Series that have been placed.
    seen: BTreeSet<(String, Labels, Option<i64>)>,
    ended: bool,
}

impl Reader {
    const fn new(format: Format) -> Self {
        Self {
            format,
            families: Vec::new(),
            places: BTreeMap::new(),
            typed: BTreeSet::new(),
            samples: Vec::new(),
            seen: BTreeSet::new(),
            ended: false,
        }
    }

    fn line(&mut self, number: usize, bytes: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "expected UTF-8".to_owned())?;
        let line = parse_line(text.trim_end_matches('\r'), self.format)?;
        if self.ended && !matches!(line, Line::Blank) {
            return Err("expected nothing after `# EOF`".to_owned());
        }
        match line {
            Line::Blank => Ok(()),
            Line::Comment(Comment::Eof) => {
                self.ended = true;
                Ok(())
            }
            Line::Comment(Comment::Help { name, text }) => {
                let family = self.family(name);
                if family.help.is_some() {
                    return Err(format!("a second `# HELP` of `{name}`"));
                }
                family.help = Some(text);
                Ok(())
            }
            Line::Comment(Comment::Unit { name, unit }) => {
                let family = self.family(name);
                if family.unit.is_some() {
                    return Err(format!("a second `# UNIT` of `{name}`"));
                }
                family.unit = Some(unit.to_owned());
                Ok(())
            }
            Line::Comment(Comment::Type { name, kind }) => self.set_kind(name, kind),
            Line::Sample(sample) => {
                self.samples.push((number, sample));
                Ok(())
            }
        }
    }

    fn set_kind(&mut self, name: &str, kind: Kind) -> Result<(), String> {
        if !self.typed.insert(name.to_owned()) {
            return Err(format!("a second `# TYPE` of `{name}`"));
        }
        self.family(name).kind = kind;
        Ok(())
    }

    /// The family of this name, made if it is new.
    fn family(&mut self, name: &str) -> &mut Family {
        let at = match self.places.get(name) {
            Some(&at) => at,
            None => {
                let at = self.families.len();
                self.places.insert(name.to_owned(), at);
                self.families.push(Family::new(name, Kind::Unknown));
                at
            }
        };
        &mut self.families[at]
    }

    /// Gives a sample to its family.
    fn place(&mut self, sample: Sample) -> Result<(), String> {
        let series = (sample.name.clone(), sample.labels.clone(), sample.timestamp_ms);
        if self.seen.contains(&series) {
            return Err(format!("a second sample of `{}{}`", series.0, series.1));
        }
        self.seen.insert(series);
        let base = self.base(&sample.name).to_owned();
        self.family(&base).samples.push(sample);
        Ok(())
    }

    /// The name of the family that a sample belongs to: one of its own name, or one whose kind brings this suffix.
    fn base<'a>(&self, sample: &'a str) -> &'a str {
        if self.places.contains_key(sample) {
            return sample;
        }
        let kind_of = |name: &str| self.places.get(name).map(|&at| self.families[at].kind);
        let split = SUFFIXES.iter().find_map(|(suffix, kinds, formats)| {
            let base = sample.strip_suffix(suffix)?;
            let fits = kinds.contains(&kind_of(base)?) && formats.contains(&self.format);
            fits.then_some(base)
        });
        split.unwrap_or(sample)
    }
}

const BOTH: &[Format] = &[Format::Text, Format::OpenMetrics];
const OPEN: &[Format] = &[Format::OpenMetrics];

/// What the names of samples end in, for which kinds of family and in which formats.
const SUFFIXES: &[(&str, &[Kind], &[Format])] = &[
    ("_bucket", &[Kind::Histogram, Kind::GaugeHistogram], BOTH),
    ("_sum", &[Kind::Histogram, Kind::Summary], BOTH),
    ("_count", &[Kind::Histogram, Kind::Summary], BOTH),
    ("_total", &[Kind::Counter], OPEN),
    ("_created", &[Kind::Counter, Kind::Histogram, Kind::Summary], OPEN),
    ("_gsum", &[Kind::GaugeHistogram], OPEN),
    ("_gcount", &[Kind::GaugeHistogram], OPEN),
    ("_info", &[Kind::Info], OPEN),
];
