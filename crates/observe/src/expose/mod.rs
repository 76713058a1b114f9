//! Pages of metrics as text: Prometheus' format 0.0.4 and OpenMetrics 1.0, in and out.
//!
//! A [`Page`] holds what stands on it, family by family, in the names of its own format: a counter of OpenMetrics
//! is the family `x` with samples `x_total`, in 0.0.4 it is the family `x_total`. [`read`] takes any bytes and
//! [`Page::write`] gives them back; [`Page::in_text`] says in 0.0.4 what an OpenMetrics page says. Nothing here
//! knows what a metric means.
//!
//! Sources: Prometheus' "Exposition formats", the OpenMetrics 1.0 specification, and for the way from one to the
//! other the official Python client, which both engines use.

mod labels;
mod line;
pub mod number;
mod read;
mod text;
mod write;

pub use labels::Labels;
pub use read::{Fault, Reading, read};

/// A text format of metrics pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Prometheus' text format, version 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The `content-type` of a page.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The format that a `content-type` names; anything but OpenMetrics is text.
    #[must_use]
    pub fn from_content_type(value: &str) -> Self {
        if media_type(value).eq_ignore_ascii_case(OPEN_METRICS) { Self::OpenMetrics } else { Self::Text }
    }

    /// The format to answer with to an `accept` header: OpenMetrics where it is named and nothing that text would
    /// serve is wanted more (RFC 9110, section 12.5.1). A scraper that names neither gets text.
    #[must_use]
    pub fn negotiate(accept: &str) -> Self {
        let wanted = |matches: &dyn Fn(&str) -> bool| {
            let weights = accept.split(',').filter(|part| matches(media_type(part))).map(weight);
            weights.fold(0.0, f64::max)
        };
        let open = wanted(&|media| media.eq_ignore_ascii_case(OPEN_METRICS));
        let text = wanted(&|media| media.eq_ignore_ascii_case("text/plain"));
        if open > 0.0 && open >= text { Self::OpenMetrics } else { Self::Text }
    }
}

const OPEN_METRICS: &str = "application/openmetrics-text";

fn media_type(part: &str) -> &str {
    part.split(';').next().unwrap_or_default().trim()
}

/// The `q` of one part of an accept header; 1 where there is none that can be read.
fn weight(part: &str) -> f64 {
    let q = part.split(';').skip(1).find_map(|parameter| parameter.trim().strip_prefix("q="));
    q.and_then(|q| q.trim().parse().ok()).filter(|q: &f64| (0.0..=1.0).contains(q)).unwrap_or(1.0)
}

/// What a family is said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Only grows, until the process starts again.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets by upper edge `le`, a sum and a count.
    Histogram,
    /// Quantiles that the server computed, a sum and a count.
    Summary,
    /// Facts in labels; OpenMetrics only.
    Info,
    /// One of several states; OpenMetrics only.
    StateSet,
    /// A histogram of what is now, not of what has been; OpenMetrics only.
    GaugeHistogram,
    /// Not said (`untyped` in 0.0.4).
    Unknown,
}

/// All that stands on a metrics page, in its order.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The format whose names the families have.
    pub format: Format,
    /// The families.
    pub families: Vec<Family>,
}

/// The samples under one name, with what is said of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// The name in the `# TYPE` line.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The `# HELP` text, escapes resolved.
    pub help: Option<String>,
    /// The `# UNIT`; OpenMetrics only.
    pub unit: Option<String>,
    /// Its samples, in the order of the page.
    pub samples: Vec<Sample>,
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The name in the line, `_bucket`, `_sum` and the like included.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// The value, in the family's own unit.
    pub value: f64,
    /// When it was taken, where the page says so: milliseconds since the Unix epoch.
    pub timestamp_ms: Option<i64>,
    /// One observation that went into it; OpenMetrics only.
    pub exemplar: Option<Exemplar>,
}

/// One observation, with labels that lead to its trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Exemplar {
    /// Where it leads.
    pub labels: Labels,
    /// What was observed, in the family's unit.
    pub value: f64,
    /// When, in milliseconds since the Unix epoch.
    pub timestamp_ms: Option<i64>,
}

impl Page {
    /// The family of this name, as its format names it.
    #[must_use]
    pub fn family(&self, name: &str) -> Option<&Family> {
        self.families.iter().find(|family| family.name == name)
    }

    /// Every sample whose line has this name, in either format: `x_total`, `x_bucket`, `x`.
    pub fn samples<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Sample> {
        self.families.iter().flat_map(|family| &family.samples).filter(move |sample| sample.name == name)
    }

    /// The value of one series.
    #[must_use]
    pub fn value(&self, name: &str, labels: &Labels) -> Option<f64> {
        self.samples(name).find(|sample| sample.labels == *labels).map(|sample| sample.value)
    }
}

impl Family {
    /// A family without samples, help or unit.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        Self { name: name.into(), kind, help: None, unit: None, samples: Vec::new() }
    }
}

impl Sample {
    /// A sample without timestamp or exemplar.
    #[must_use]
    pub fn new(name: impl Into<String>, labels: Labels, value: f64) -> Self {
        Self { name: name.into(), labels, value, timestamp_ms: None, exemplar: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_follows_the_scraper() {
        let prometheus_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;\
                            q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, format) in [
            (prometheus_2, Format::OpenMetrics),
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/plain", Format::Text),
            ("text/plain, application/openmetrics-text;q=0.5", Format::Text),
            ("application/openmetrics-text; q=0", Format::Text),
            ("Application/OpenMetrics-Text; version=1.0.0", Format::OpenMetrics),
        ] {
            assert_eq!(Format::negotiate(accept), format, "{accept}");
        }
        for format in [Format::Text, Format::OpenMetrics] {
            assert_eq!(Format::from_content_type(format.content_type()), format);
        }
    }
}
