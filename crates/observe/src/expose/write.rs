//! The writer: a page out as text, and an OpenMetrics page said in the older format.

use super::{Family, Format, Kind, Labels, Page, Sample, number};
use std::borrow::Cow;
use std::fmt::{self, Display};

impl Page {
    /// The page in its own format. What [`read`](super::read) makes of it is this page again.
    #[must_use]
    pub fn write(&self) -> String {
        self.to_string()
    }

    /// What this page says, in the names of 0.0.4: `_total` and `_info` move into the names of the families,
    /// creation times become gauges of their own, and exemplars and units go. A page of 0.0.4 stays as it is.
    ///
    /// The rules are those of the Python client, so that a simulated page looks like an engine's.
    #[must_use]
    pub fn in_text(&self) -> Self {
        let families = match self.format {
            Format::Text => self.families.clone(),
            Format::OpenMetrics => self.families.iter().flat_map(family_in_text).collect(),
        };
        Self { format: Format::Text, families }
    }
}

/// Samples that 0.0.4 has no place for in their family.
const APART: &[&str] = &["_created", "_gcount", "_gsum"];

fn family_in_text(family: &Family) -> Vec<Family> {
    let (name, kind) = match family.kind {
        Kind::Counter => (format!("{}_total", family.name), Kind::Counter),
        Kind::Info => (format!("{}_info", family.name), Kind::Gauge),
        Kind::StateSet => (family.name.clone(), Kind::Gauge),
        Kind::GaugeHistogram => (family.name.clone(), Kind::Histogram),
        kind => (family.name.clone(), kind),
    };
    let help = family.help.clone();
    let mut main = Family { help: help.clone(), ..Family::new(name, kind) };
    let mut apart: Vec<_> = APART
        .iter()
        .map(|suffix| Family {
            help: help.clone(),
            ..Family::new(format!("{}{suffix}", family.name), Kind::Gauge)
        })
        .collect();
    for sample in &family.samples {
        let sample = Sample { exemplar: None, ..sample.clone() };
        match apart.iter_mut().find(|own| own.name == sample.name) {
            Some(own) => own.samples.push(sample),
            None => main.samples.push(sample),
        }
    }
    apart.retain(|own| !own.samples.is_empty());
    apart.insert(0, main);
    apart
}

impl Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for family in &self.families {
            write_family(f, family, self.format)?;
        }
        if self.format == Format::OpenMetrics { f.write_str("# EOF\n") } else { Ok(()) }
    }
}

fn write_family(f: &mut fmt::Formatter<'_>, family: &Family, format: Format) -> fmt::Result {
    let open = format == Format::OpenMetrics;
    let name = &family.name;
    if let Some(help) = &family.help {
        writeln!(f, "# HELP {name} {}", escape(help, open))?;
    }
    // A lone sample of a kind that nobody said needs no line that says so.
    if family.kind != Kind::Unknown || family.samples.is_empty() {
        writeln!(f, "# TYPE {name} {}", kind(family.kind, open))?;
    }
    if let (Some(unit), true) = (&family.unit, open) {
        writeln!(f, "# UNIT {name} {unit}")?;
    }
    for sample in &family.samples {
        write_sample(f, sample, open)?;
    }
    Ok(())
}

const fn kind(kind: Kind, open: bool) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
        Kind::Summary => "summary",
        Kind::Unknown if open => "unknown",
        Kind::Unknown => "untyped",
        Kind::Info if open => "info",
        Kind::StateSet if open => "stateset",
        Kind::Info | Kind::StateSet => "gauge",
        Kind::GaugeHistogram if open => "gaugehistogram",
        Kind::GaugeHistogram => "histogram",
    }
}

fn write_sample(f: &mut fmt::Formatter<'_>, sample: &Sample, open: bool) -> fmt::Result {
    write!(f, "{}{} {}", sample.name, sample.labels, number::spell(sample.value))?;
    write_timestamp(f, sample.timestamp_ms, open)?;
    if let (Some(exemplar), true) = (&sample.exemplar, open) {
        let labels = braced(&exemplar.labels);
        write!(f, " # {labels} {}", number::spell(exemplar.value))?;
        write_timestamp(f, exemplar.timestamp_ms, open)?;
    }
    writeln!(f)
}

/// Labels in braces even where there are none, as an exemplar must have them.
fn braced(labels: &Labels) -> String {
    if labels.is_empty() { "{}".to_owned() } else { labels.to_string() }
}

/// Whole milliseconds in 0.0.4, seconds with three decimals in OpenMetrics.
fn write_timestamp(f: &mut fmt::Formatter<'_>, ms: Option<i64>, open: bool) -> fmt::Result {
    match ms {
        None => Ok(()),
        Some(ms) if open => {
            let sign = if ms < 0 { "-" } else { "" };
            write!(f, " {sign}{}.{:03}", ms.unsigned_abs() / 1000, ms.unsigned_abs() % 1000)
        }
        Some(ms) => write!(f, " {ms}"),
    }
}

/// Backslash and line feed escaped, and the quote where it would end the text.
pub(super) fn escape(text: &str, quotes: bool) -> Cow<'_, str> {
    if !text.contains(['\\', '\n', '"']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}
