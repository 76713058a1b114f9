//! What the engines' metric families are called, and what each of them means: data, one table an engine.
//!
//! A [`Spec`] says of a family its name, type, labels and default edges, which clock its figures are on, when it is
//! observed, and how its series are put together. Tests hold the tables against pages recorded from the real
//! engines. Edges are those an engine has without flags; users change them, so a reader takes edges from the page
//! and only a writer takes them from here.

pub mod llamacpp;
pub mod sglang;
pub mod vllm;

use crate::expose::{Kind, Page};

/// An engine whose page is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// vLLM, the page of its Python API server (0.32 and 0.33).
    Vllm,
    /// SGLang (0.5.23).
    Sglang,
    /// llama.cpp's `llama-server --metrics`.
    LlamaCpp,
}

/// The clock that a figure is a difference on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Clock {
    /// Not a time.
    None,
    /// The API process's wall clock, which may step.
    FrontendWall,
    /// The API process's monotonic clock.
    FrontendMonotonic,
    /// The engine core's or scheduler's monotonic clock.
    Engine,
}

/// How the series of one family (ranks, data-parallel engines) are put together into one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Merge {
    /// They count different things: add them.
    Sum,
    /// They are shares of equal wholes: the mean.
    Mean,
    /// They tell the same thing several times: the largest.
    Max,
}

/// One family of an engine's page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// The family's name on a page of format 0.0.4, a counter's `_total` included.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Names of its labels, in alphabetical order, `le` left out.
    pub labels: &'static [&'static str],
    /// The group of edges that a histogram takes; empty for other types. A flag changes a whole group.
    pub edges: &'static str,
    /// The clock its figures are on.
    pub clock: Clock,
    /// How its series are put together.
    pub merge: Merge,
    /// What is observed and when, in one sentence.
    pub rule: &'static str,
}

impl Engine {
    /// Every engine that is known.
    pub const ALL: [Self; 3] = [Self::Vllm, Self::Sglang, Self::LlamaCpp];

    /// The engine's families.
    #[must_use]
    pub const fn families(self) -> &'static [Spec] {
        match self {
            Self::Vllm => vllm::FAMILIES,
            Self::Sglang => sglang::FAMILIES,
            Self::LlamaCpp => llamacpp::FAMILIES,
        }
    }

    /// What the names of its families begin with.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Vllm => "vllm:",
            Self::Sglang => "sglang:",
            Self::LlamaCpp => "llamacpp:",
        }
    }

    /// The engine that wrote a page, by the names on it.
    #[must_use]
    pub fn of(page: &Page) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|engine| page.families.iter().any(|family| family.name.starts_with(engine.prefix())))
    }

    /// The family of this name.
    #[must_use]
    pub fn family(self, name: &str) -> Option<&'static Spec> {
        self.families().iter().find(|spec| spec.name == name)
    }

    /// The edges of a group without flags, +Inf left out. `max_model_len` (tokens) bounds the groups that count a
    /// request's tokens on vLLM.
    #[must_use]
    pub fn default_edges(self, group: &str, max_model_len: u64) -> Option<Vec<f64>> {
        match self {
            Self::Vllm if group == vllm::REQUEST_TOKENS => Some(vllm::request_token_edges(max_model_len)),
            Self::Vllm => edges_in(vllm::EDGES, group),
            Self::Sglang => edges_in(sglang::EDGES, group),
            Self::LlamaCpp => None,
        }
    }
}

fn edges_in(groups: &[(&str, &[f64])], group: &str) -> Option<Vec<f64>> {
    groups.iter().find(|(name, _)| *name == group).map(|(_, edges)| edges.to_vec())
}

impl Spec {
    /// The family's name in OpenMetrics, where the `_total` of a counter is no part of it.
    #[must_use]
    pub fn open_metrics_name(&self) -> &'static str {
        match self.kind {
            Kind::Counter => self.name.strip_suffix("_total").unwrap_or(self.name),
            _ => self.name,
        }
    }

    /// One figure of a gauge or counter over all its series on a page. `None` without a series.
    #[must_use]
    pub fn merged(&self, page: &Page) -> Option<f64> {
        let values: Vec<_> = page.samples(self.name).map(|sample| sample.value).collect();
        if values.is_empty() {
            return None;
        }
        let sum: f64 = values.iter().sum();
        Some(match self.merge {
            Merge::Sum => sum,
            Merge::Mean => sum / values.len() as f64,
            Merge::Max => values.into_iter().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

/// A counter's row.
const fn counter(name: &'static str, labels: &'static [&'static str], rule: &'static str) -> Spec {
    Spec { name, kind: Kind::Counter, labels, edges: "", clock: Clock::None, merge: Merge::Sum, rule }
}

/// A gauge's row; `merge` says how ranks are put together.
const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    merge: Merge,
    rule: &'static str,
) -> Spec {
    Spec { name, kind: Kind::Gauge, labels, edges: "", clock: Clock::None, merge, rule }
}

/// A histogram's row.
const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    edges: &'static str,
    clock: Clock,
    rule: &'static str,
) -> Spec {
    Spec { name, kind: Kind::Histogram, labels, edges, clock, merge: Merge::Sum, rule }
}
