//! The store behind a written page: families by an engine's table, series by their labels.
//!
//! Series are looked up by name once and reached by number after that, since an observation happens per token.
//! The store knows no engine; which series exist from the start, and what is observed when, is said by its users.

use crate::engine_names::Spec;
use crate::expose::{Family, Format, Kind, Labels, Page, Sample, number};

/// All families of a page with what was counted.
#[derive(Debug, Clone)]
pub(super) struct Registry {
    families: Vec<FamilyState>,
    /// When every series came to be, in seconds since the Unix epoch; `None` on a page that does not say.
    created: Option<f64>,
}

#[derive(Debug, Clone)]
struct FamilyState {
    spec: &'static Spec,
    /// Upper edges, +Inf left out.
    edges: Vec<f64>,
    series: Vec<(Labels, Cell)>,
}

/// What one series holds.
#[derive(Debug, Clone)]
enum Cell {
    Number(f64),
    /// Observations by bucket, not cumulative, +Inf last.
    Histogram {
        counts: Vec<u64>,
        sum: f64,
    },
}

/// One series of a registry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Series {
    family: usize,
    at: usize,
}

impl Registry {
    /// A registry with the families of `specs` and no series; `edges` gives those of a group.
    pub(super) fn new(
        specs: impl IntoIterator<Item = &'static Spec>,
        edges: impl Fn(&str) -> Vec<f64>,
        created: Option<f64>,
    ) -> Self {
        let family = |spec: &'static Spec| {
            let edges = if spec.kind == Kind::Histogram { edges(spec.edges) } else { Vec::new() };
            FamilyState { spec, edges, series: Vec::new() }
        };
        Self { families: specs.into_iter().map(family).collect(), created }
    }

    /// The series of a family with these labels, made if it is new. A label that the family does not have is left
    /// out, so that one set of labels serves all families of a process.
    ///
    /// # Panics
    /// If the table has no family of this name.
    pub(super) fn series(&mut self, name: &str, labels: &Labels) -> Series {
        let at = self.families.iter().position(|family| family.spec.name == name);
        let family = at.expect("an observer fills families of its own engine's table");
        let state = &mut self.families[family];
        let kept = labels.iter().filter(|(label, _)| state.spec.labels.contains(label));
        let labels = Labels::new(kept);
        if let Some(at) = state.series.iter().position(|(known, _)| *known == labels) {
            return Series { family, at };
        }
        let cell = match state.spec.kind {
            Kind::Histogram => Cell::Histogram { counts: vec![0; state.edges.len() + 1], sum: 0.0 },
            _ => Cell::Number(0.0),
        };
        state.series.push((labels, cell));
        Series { family, at: state.series.len() - 1 }
    }

    /// Adds to a counter.
    pub(super) fn add(&mut self, series: Series, amount: u64) {
        if let Cell::Number(value) = self.cell(series) {
            *value += amount as f64;
        }
    }

    /// Sets a gauge.
    pub(super) fn set(&mut self, series: Series, to: f64) {
        if let Cell::Number(value) = self.cell(series) {
            *value = to;
        }
    }

    /// One observation of a histogram.
    pub(super) fn observe(&mut self, series: Series, value: f64) {
        self.observe_many(series, value, 1, value);
    }

    /// `n` observations in the bucket of `value`, which add `total` to the sum.
    pub(super) fn observe_many(&mut self, series: Series, value: f64, n: u64, total: f64) {
        let state = &mut self.families[series.family];
        let bucket = state.edges.partition_point(|&edge| edge < value);
        if let Cell::Histogram { counts, sum } = &mut state.series[series.at].1 {
            counts[bucket] += n;
            *sum += total;
        }
    }

    fn cell(&mut self, series: Series) -> &mut Cell {
        &mut self.families[series.family].series[series.at].1
    }

    /// The page as it stands, in the names of OpenMetrics; a family without a series is not on it.
    pub(super) fn page(&self) -> Page {
        let filled = self.families.iter().filter(|family| !family.series.is_empty());
        Page { format: Format::OpenMetrics, families: filled.map(|family| self.family(family)).collect() }
    }

    fn family(&self, state: &FamilyState) -> Family {
        let spec = state.spec;
        let name = spec.open_metrics_name();
        let mut family = Family::new(name, spec.kind);
        family.help = Some(format!("Simulated: {}.", spec.rule));
        for (labels, cell) in &state.series {
            match cell {
                Cell::Number(value) => {
                    family.samples.push(Sample::new(spec.name, labels.clone(), *value));
                }
                Cell::Histogram { counts, sum } => {
                    family.samples.extend(buckets(name, labels, &state.edges, counts));
                    let count = counts.iter().sum::<u64>() as f64;
                    family.samples.push(Sample::new(format!("{name}_count"), labels.clone(), count));
                    family.samples.push(Sample::new(format!("{name}_sum"), labels.clone(), *sum));
                }
            }
            if let (Some(created), Kind::Counter | Kind::Histogram) = (self.created, spec.kind) {
                family.samples.push(Sample::new(format!("{name}_created"), labels.clone(), created));
            }
        }
        family
    }
}

/// The cumulative lines of one histogram.
fn buckets(name: &str, labels: &Labels, edges: &[f64], counts: &[u64]) -> Vec<Sample> {
    let mut below = 0;
    let bucket = |(edge, count): (f64, &u64)| {
        below += count;
        let labels = labels.with("le", &number::spell(edge));
        Sample::new(format!("{name}_bucket"), labels, below as f64)
    };
    edges.iter().copied().chain([f64::INFINITY]).zip(counts).map(bucket).collect()
}
