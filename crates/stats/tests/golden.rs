//! Every tool against reference values of numpy, scipy and exact fractions (`golden/make_golden.py`).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use goodput_stats::batch::{Truncation, autocorrelation, effective_samples, integrated_time, mser5};
use goodput_stats::gof::{
    coefficient_of_variation, exponential_cdf, gamma_cdf, index_of_dispersion, kolmogorov_smirnov,
    kolmogorov_smirnov_within, ks_p_value,
};
use goodput_stats::interval::{normal_quantile, student_t_mean, student_t_quantile, wilson};
use goodput_stats::{Dispersion, Method, Samples, early_stopping_samples, order_statistic_ranks, quantile};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

fn golden<T: DeserializeOwned>(part: &str) -> T {
    let text = include_str!("golden/golden.json");
    let mut parts: BTreeMap<String, serde_json::Value> = serde_json::from_str(text).unwrap();
    serde_json::from_value(parts.remove(part).unwrap()).unwrap()
}

/// Within `relative` of the expected value, or within 1e-15 of it where it is nearly zero.
#[track_caller]
fn close(actual: f64, expected: f64, relative: f64, what: &str) {
    let allowed = (relative * expected.abs()).max(1e-15);
    assert!((actual - expected).abs() <= allowed, "{what}: {actual:e}, expected {expected:e}");
}

#[test]
fn quantiles() {
    #[derive(Deserialize)]
    struct Table {
        values: Vec<f64>,
        quantiles: BTreeMap<String, Vec<f64>>,
    }
    #[derive(Deserialize)]
    struct Part {
        levels: Vec<f64>,
        samples: Vec<Table>,
    }
    let part: Part = golden("quantiles");
    for Table { values, quantiles } in part.samples {
        let frozen = values.iter().copied().collect::<Samples>().freeze();
        let mut sorted = values;
        sorted.sort_by(f64::total_cmp);
        assert_eq!(quantiles.len(), Method::ALL.len());
        for method in Method::ALL {
            for (p, expected) in part.levels.iter().zip(&quantiles[method.name()]) {
                let what = format!("n {} p {p} {}", sorted.len(), method.name());
                let value = quantile(&sorted, *p, method).unwrap();
                close(value, *expected, 1e-13, &what);
                assert_eq!(frozen.quantile(*p, method), Some(value), "{what}");
            }
        }
    }
}

#[test]
fn order_statistic_intervals() {
    #[derive(Deserialize)]
    struct Row(u64, f64, f64, Option<u64>, Option<u64>);
    for Row(n, p, confidence, low, high) in golden::<Vec<Row>>("ranks") {
        let ranks = order_statistic_ranks(n, p, confidence);
        assert_eq!((ranks.low, ranks.high), (low, high), "n {n} p {p} confidence {confidence}");
    }
}

#[test]
fn early_stopping() {
    let table: Vec<(f64, f64, u64, u64)> = golden("early_stopping");
    for (p, confidence, over, samples) in table {
        let what = format!("p {p} confidence {confidence} over {over}");
        assert_eq!(early_stopping_samples(p, confidence, over), Some(samples), "{what}");
    }
}

#[test]
fn intervals_of_proportions_and_means() {
    for (successes, n, confidence, low, high) in golden::<Vec<(u64, u64, f64, f64, f64)>>("wilson") {
        let interval = wilson(successes, n, confidence).unwrap();
        let what = format!("{successes} of {n} at {confidence}");
        close(interval.low, low, 1e-11, &what);
        close(interval.high, high, 1e-11, &what);
    }
    #[derive(Deserialize)]
    struct T {
        quantile: Vec<(f64, f64, f64)>,
        mean: Vec<(Vec<f64>, f64, f64, f64)>,
    }
    let t: T = golden("student_t");
    for (freedom, p, expected) in t.quantile {
        close(student_t_quantile(freedom, p).unwrap(), expected, 1e-9, &format!("t {freedom} {p}"));
    }
    for (values, confidence, low, high) in t.mean {
        let interval = student_t_mean(&values, confidence).unwrap();
        let what = format!("mean of {} at {confidence}", values.len());
        close(interval.low, low, 1e-9, &what);
        close(interval.high, high, 1e-9, &what);
    }
}

#[test]
fn normal_law() {
    for (p, expected) in golden::<Vec<(f64, f64)>>("normal") {
        close(normal_quantile(p).unwrap(), expected, 1e-10, &format!("quantile {p}"));
    }
}

#[test]
fn kolmogorov_smirnov_test() {
    #[derive(Deserialize)]
    struct Sample {
        values: Vec<f64>,
        mean: f64,
        statistic: f64,
        p_value: f64,
    }
    #[derive(Deserialize)]
    struct Part {
        distances: Vec<(usize, f64, f64)>,
        samples: Vec<Sample>,
    }
    let part: Part = golden("kolmogorov_smirnov");
    for (n, distance, expected) in part.distances {
        let p = ks_p_value(n, distance);
        let allowed = if n <= 100 { 1e-12 } else { 0.03 / n as f64 };
        assert!((p - expected).abs() <= allowed, "n {n} d {distance}: {p}, expected {expected}");
    }
    for Sample { values, mean, statistic, p_value } in part.samples {
        let test = kolmogorov_smirnov(&values, exponential_cdf(mean).unwrap()).unwrap();
        close(test.statistic, statistic, 1e-13, "statistic");
        close(test.p_value, p_value, 1e-4, "p-value");
    }
}

#[test]
fn laws_of_gaps() {
    #[derive(Deserialize)]
    struct Part {
        gamma: Vec<(f64, f64, f64, f64)>,
        exponential: Vec<(f64, f64, f64)>,
    }
    let part: Part = golden("laws");
    for (shape, mean, x, expected) in part.gamma {
        close(gamma_cdf(shape, mean).unwrap()(x), expected, 1e-11, &format!("gamma {shape} {mean} {x}"));
    }
    for (mean, x, expected) in part.exponential {
        close(exponential_cdf(mean).unwrap()(x), expected, 1e-14, &format!("exponential {mean} {x}"));
    }
}

#[test]
fn autocorrelations() {
    #[derive(Deserialize)]
    struct Series {
        series: Vec<f64>,
        rho: Vec<f64>,
        integrated_time: f64,
    }
    for Series { series, rho, integrated_time: expected } in golden::<Vec<Series>>("autocorrelation") {
        let found = autocorrelation(&series, 19).unwrap();
        assert_eq!(found.len(), rho.len());
        for (lag, (value, expected)) in found.iter().zip(&rho).enumerate() {
            assert!((value - expected).abs() < 1e-12, "lag {lag}: {value}, expected {expected}");
        }
        close(integrated_time(&series).unwrap(), expected, 1e-10, "integrated time");
        close(effective_samples(&series).unwrap(), series.len() as f64 / expected, 1e-10, "effective n");
    }
}

#[test]
fn truncation_points() {
    #[derive(Deserialize)]
    struct Series {
        series: Vec<f64>,
        from: Option<usize>,
    }
    for Series { series, from } in golden::<Vec<Series>>("mser5") {
        assert_eq!(mser5(&series), from.map_or(Truncation::NotSettled, Truncation::From));
    }
}

#[test]
fn moments_and_dispersion() {
    #[derive(Deserialize)]
    struct Moments {
        values: Vec<f64>,
        mean: f64,
        std: f64,
    }
    for Moments { values, mean, std } in golden::<Vec<Moments>>("moments") {
        let samples: Samples = values.into_iter().collect();
        // serde_json reads a long number to within one unit in the last place.
        close(samples.mean().unwrap(), mean, f64::EPSILON, "mean");
        close(samples.std().unwrap(), std, 1e-12, "std");
    }
    #[derive(Deserialize)]
    struct Dispersion {
        counts: Vec<u64>,
        index: f64,
        gaps: Vec<f64>,
        cv: f64,
    }
    let part: Dispersion = golden("dispersion");
    close(index_of_dispersion(&part.counts).unwrap(), part.index, 1e-13, "index of dispersion");
    close(coefficient_of_variation(&part.gaps).unwrap(), part.cv, 1e-13, "cv");
}

#[test]
fn streams_of_a_renewal_process() {
    #[derive(Deserialize)]
    struct Stream {
        points: Vec<f64>,
        squared_cv: f64,
        level: f64,
        windows: usize,
        index: f64,
        low: f64,
        high: f64,
        gaps: Vec<f64>,
        tolerance: f64,
        distance: f64,
    }
    for s in golden::<Vec<Stream>>("renewal_streams") {
        let found = Dispersion::of_renewal(&s.points, s.squared_cv, s.level).unwrap();
        assert_eq!(found.windows, s.windows);
        close(found.index, s.index, 1e-12, "index of dispersion");
        close(found.low, s.low, 1e-9, "least");
        close(found.high, s.high, 1e-9, "most");
        let law = gamma_cdf(s.squared_cv.recip(), 1.0).unwrap();
        let distance = kolmogorov_smirnov_within(&s.gaps, law, s.tolerance).unwrap().statistic;
        close(distance, s.distance, 1e-10, "distance within a tolerance");
    }
}
