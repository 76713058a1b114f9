//! The SLO file: TOML with all five parts, or it is refused with the name of the missing one.
//!
//! ```toml
//! window = "steady"                 # or "whole"
//! workload = "sharegpt, chat model" # what it holds for, in words
//! attainment = 0.9                  # share of requests that must keep the limits without a percentile
//!
//! [load]
//! rate = "20/s"                     # or concurrency = 64
//!
//! [[objective]]
//! metric = "tpot"
//! limit = "50ms"                    # for each request
//!
//! [[objective]]
//! metric = "ttft"
//! limit = "500ms"
//! percentile = 95                   # over the window
//! ```

use super::parse::{SloError, checked, checked_level, limit_of, metric};
use super::{Objective, OfferedLoad, Slo, Target};
use crate::units::parse_rate;
use crate::window::WindowKind;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    window: Option<WindowKind>,
    workload: Option<String>,
    attainment: Option<f64>,
    load: Option<LoadPart>,
    #[serde(default)]
    objective: Vec<ObjectivePart>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadPart {
    rate: Option<Limit>,
    concurrency: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ObjectivePart {
    metric: Option<String>,
    limit: Option<Limit>,
    percentile: Option<f64>,
}

/// A quantity as text with its unit, or a bare number where the number has none.
#[derive(Deserialize)]
#[serde(untagged)]
enum Limit {
    Text(String),
    Number(f64),
}

impl Limit {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        }
    }
}

impl Slo {
    /// Reads an SLO file.
    ///
    /// # Errors
    /// [`SloError::Missing`] with the name of the first missing part; [`SloError::Syntax`] and the others with
    /// what was expected.
    pub fn from_toml(text: &str) -> Result<Self, SloError> {
        let file: File = toml::from_str(text).map_err(|e| SloError::Syntax(e.to_string()))?;
        let missing = |part| SloError::Missing { part };
        if file.objective.is_empty() {
            return Err(missing("metric"));
        }
        let objectives = file.objective.iter().map(objective).collect::<Result<Vec<_>, _>>()?;
        let attainment = file.attainment;
        if attainment.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
            return Err(SloError::Syntax("attainment must be a share above 0 and at most 1".into()));
        }
        if attainment.is_none() && objectives.iter().any(|o| o.target == Target::PerRequest) {
            return Err(missing("percentile (or attainment)"));
        }
        let window = Some(file.window.ok_or_else(|| missing("window"))?);
        let workload = file.workload.filter(|w| !w.trim().is_empty());
        let workload = Some(workload.ok_or_else(|| missing("workload"))?);
        let load = Some(offered_load(file.load)?);
        checked(Self { objectives, attainment, window, workload, load })
    }
}

fn objective(part: &ObjectivePart) -> Result<Objective, SloError> {
    let name = part.metric.as_deref().ok_or(SloError::Missing { part: "metric" })?;
    let target = match part.percentile {
        None => Target::PerRequest,
        Some(percent) => Target::Percentile(
            checked_level(percent).ok_or_else(|| SloError::Percentile { text: percent.to_string() })?,
        ),
    };
    let metric = metric(name, target)?;
    let limit = part
        .limit
        .as_ref()
        .ok_or_else(|| SloError::Syntax(format!("the objective on {name} has no limit")))?;
    Ok(Objective { metric, limit: limit_of(metric, &limit.text())?, target })
}

fn offered_load(part: Option<LoadPart>) -> Result<OfferedLoad, SloError> {
    match part {
        Some(LoadPart { rate: Some(rate), concurrency: None }) => {
            parse_rate(&rate.text()).map(OfferedLoad::Rate).map_err(|e| SloError::Syntax(e.to_string()))
        }
        Some(LoadPart { rate: None, concurrency: Some(slots) }) => Ok(OfferedLoad::Concurrency(slots)),
        Some(LoadPart { rate: Some(_), concurrency: Some(_) }) => {
            Err(SloError::Syntax("[load] takes rate or concurrency, not both".into()))
        }
        Some(LoadPart { rate: None, concurrency: None }) | None => {
            Err(SloError::Missing { part: "offered load" })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Metric;

    const WHOLE: [(&str, &str); 4] = [
        ("window", "window = \"steady\"\n"),
        ("workload", "workload = \"chat\"\n"),
        ("percentile (or attainment)", "attainment = 0.9\n"),
        ("offered load", "[load]\nrate = \"20/s\"\n"),
    ];
    const OBJECTIVE: &str = "[[objective]]\nmetric = \"ttft\"\nlimit = \"500ms\"\n";

    fn without(part: &str) -> String {
        let kept = WHOLE.iter().filter(|(name, _)| *name != part).map(|(_, text)| *text);
        kept.chain((part != "metric").then_some(OBJECTIVE)).collect()
    }

    #[test]
    fn a_whole_file_reads() {
        let slo = Slo::from_toml(&without("nothing")).expect("has all five parts");
        assert!(!slo.is_inline());
        assert_eq!(slo.load, Some(OfferedLoad::Rate(20.0)));
        assert_eq!(slo.window, Some(WindowKind::Steady));
        assert_eq!(
            slo.objectives,
            [Objective { metric: Metric::Ttft, limit: 500.0, target: Target::PerRequest }]
        );
    }

    #[test]
    fn a_missing_part_is_named() {
        for part in ["metric", "percentile (or attainment)", "window", "workload", "offered load"] {
            assert_eq!(Slo::from_toml(&without(part)), Err(SloError::Missing { part }), "{part}");
        }
        let nameless = without("metric") + "[[objective]]\nlimit = \"1s\"\n";
        assert_eq!(Slo::from_toml(&nameless), Err(SloError::Missing { part: "metric" }));
    }

    #[test]
    fn a_percentile_needs_no_attainment() {
        let text = without("percentile (or attainment)") + "percentile = 95\n";
        let slo = Slo::from_toml(&text).expect("every objective has a percentile");
        assert_eq!(slo.objectives[0].target, Target::Percentile(0.95));
    }

    #[test]
    fn unknown_members_are_refused() {
        let text = format!("windw = \"steady\"\n{}", without("window"));
        assert!(matches!(Slo::from_toml(&text), Err(SloError::Syntax(e)) if e.contains("windw")));
    }
}
