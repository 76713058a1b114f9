//! Two pages of one server: what happened between them.
//!
//! A counter on a page counts since the process began, so a page alone says nothing of a run. Differences are
//! taken per series, never over sums of series, and a counter that fell means that the process began again: then
//! the later page is all that is known, and it is a lower limit. All counts of one histogram are judged together;
//! repairing them one by one would mix two lives of a process in one distribution. Besides falling counts, a
//! changed creation time or a changed start of the process gives a restart away that the counts alone hide.

use crate::expose::{Labels, Page};
use crate::histogram::{Histogram, HistogramError};
use std::collections::{BTreeMap, BTreeSet};

/// Two pages of one server, the earlier first.
#[derive(Debug, Clone, Copy)]
pub struct Scrapes<'a> {
    before: &'a Page,
    after: &'a Page,
    restarted: bool,
}

/// What one series did between two pages.
#[derive(Debug, Clone, PartialEq)]
pub struct Delta<T> {
    /// What was added. After a reset: what the later page has, which is a lower limit.
    pub value: T,
    /// Whether the process, or this series, began again in between.
    pub reset: bool,
}

/// The deltas of a family.
#[derive(Debug, Clone, PartialEq)]
pub struct Deltas<T> {
    /// By the labels of the series. One that only the later page has began at nothing.
    pub series: BTreeMap<Labels, Delta<T>>,
    /// Series that the earlier page has and the later one has not: what they did is unknown.
    pub vanished: Vec<Labels>,
}

impl<'a> Scrapes<'a> {
    /// Two pages of one server.
    #[must_use]
    pub fn new(before: &'a Page, after: &'a Page) -> Self {
        let starts = [before, after].map(|page| page.value("process_start_time_seconds", &Labels::default()));
        let restarted = matches!(starts, [Some(before), Some(after)] if before != after);
        Self { before, after, restarted }
    }

    /// Whether the process says of itself that it began again in between.
    #[must_use]
    pub const fn restarted(&self) -> bool {
        self.restarted
    }

    /// What each series of a histogram observed in between.
    ///
    /// # Errors
    /// The later page has no such histogram, or one of the pages has a damaged one.
    pub fn histograms(&self, family: &str) -> Result<Deltas<Histogram>, HistogramError> {
        let after = Histogram::of(self.after, family)?;
        let before = match Histogram::of(self.before, family) {
            // A family without a series has no lines on the pages of some servers.
            Err(HistogramError::Missing(_)) => BTreeMap::new(),
            before => before?,
        };
        Ok(self.deltas(family, &before, after, |after, before| after.since(before)))
    }

    /// What each series of a counter grew by; `name` is that of its lines, `_total` included.
    #[must_use]
    pub fn counters(&self, name: &str) -> Deltas<f64> {
        let read = |page: &Page| -> BTreeMap<Labels, f64> {
            let usable = page.samples(name).filter(|sample| sample.value.is_finite());
            usable.map(|sample| (sample.labels.clone(), sample.value)).collect()
        };
        let base = name.strip_suffix("_total").unwrap_or(name);
        self.deltas(base, &read(self.before), read(self.after), |after, before| {
            (after >= before).then(|| after - before)
        })
    }

    fn deltas<T>(
        &self,
        family: &str,
        before: &BTreeMap<Labels, T>,
        after: BTreeMap<Labels, T>,
        since: impl Fn(&T, &T) -> Option<T>,
    ) -> Deltas<T> {
        let created = format!("{family}_created");
        let recreated = |labels: &Labels| {
            let [before, after] = [self.before, self.after].map(|page| page.value(&created, labels));
            matches!((before, after), (Some(before), Some(after)) if before != after)
        };
        let kept: BTreeSet<_> = after.keys().cloned().collect();
        let delta = |(labels, after): (Labels, T)| {
            let same_life = !self.restarted && !recreated(&labels);
            let delta = match before.get(&labels) {
                None => Delta { value: after, reset: self.restarted },
                Some(before) => match since(&after, before).filter(|_| same_life) {
                    Some(value) => Delta { value, reset: false },
                    None => Delta { value: after, reset: true },
                },
            };
            (labels, delta)
        };
        Deltas {
            series: after.into_iter().map(delta).collect(),
            vanished: before.keys().filter(|labels| !kept.contains(*labels)).cloned().collect(),
        }
    }
}

impl<T> Deltas<T> {
    /// Whether any series began again, or is gone.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        !self.vanished.is_empty() || self.series.values().any(|delta| delta.reset)
    }
}
