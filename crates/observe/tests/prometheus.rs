//! Quantiles against those that Prometheus 2.42 computed of the same page (`scripts/prometheus/check.py --bless`).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use goodput_observe::expose::{Format, Page, read};
use goodput_observe::histogram::{Bounds, Histogram, HistogramError, NoQuantile};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn testdata(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/prometheus").join(file)
}

fn shapes() -> Page {
    read(&fs::read(testdata("shapes.txt")).unwrap(), Format::Text).whole().unwrap()
}

fn histogram(family: &str) -> Result<Histogram, HistogramError> {
    Ok(Histogram::of(&shapes(), family)?.into_values().next().unwrap())
}

/// The same doubles, to the last bit; NaN there is no number here.
#[test]
fn interpolations_are_prometheus_own() {
    let golden: Value = serde_json::from_slice(&fs::read(testdata("quantiles.json")).unwrap()).unwrap();
    let families = golden.as_object().unwrap();
    assert_eq!(families.len(), shapes().families.len());
    for (family, answers) in families {
        let histogram = histogram(family).ok();
        for (q, expected) in answers.as_object().unwrap() {
            let quantile = histogram.as_ref().and_then(|h| h.quantile(q.parse().unwrap()).ok());
            let found = quantile.and_then(|quantile| quantile.interpolated);
            assert_eq!(found, expected.as_f64(), "{family} q={q}");
        }
    }
}

#[test]
fn where_prometheus_says_nan_the_reason_is_said() {
    let quantile = |family: &str, q| histogram(family).unwrap().quantile(q);
    assert_eq!(quantile("shape_empty", 0.5), Err(NoQuantile::NoObservation));
    assert_eq!(quantile("shape_no_finite_edge", 0.5), Err(NoQuantile::NoEdges));
    assert!(matches!(histogram("shape_no_total"), Err(HistogramError::NoTotal { .. })));
    let smallest = quantile("shape_all_above", 0.0).unwrap();
    assert_eq!((smallest.interpolated, smallest.bounds), (None, Bounds::Above { ceiling: 0.5 }));
    for q in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert_eq!(quantile("shape_usual", q), Err(NoQuantile::NotAProbability), "{q}");
    }
}

/// metrics.md section 8: p99 = 297 ms on a page of requests that all took less than 300 ms is an artefact.
#[test]
fn an_artefact_of_the_first_bucket_is_called_one() {
    let p99 = histogram("shape_all_in_the_first").unwrap().quantile(0.99).unwrap();
    assert_eq!((p99.interpolated, p99.bounds), (Some(0.297), Bounds::UpTo { floor: 0.3 }));
    assert_eq!(p99.bounds.to_string(), "<= 0.3");
}
