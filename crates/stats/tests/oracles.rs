//! Exact values that are fixed from outside: percentiles of few samples, ranks, certificates, support.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use goodput_stats::quantile::beyond;
use goodput_stats::{
    Method, RankInterval, Samples, Support, early_stopping_rank, early_stopping_samples,
    order_statistic_ranks, quantile, support,
};
use serde_json::Value;

#[test]
fn support_by_samples_beyond() {
    assert_eq!(beyond(1_800, 0.99), 18.0);
    assert!((beyond(1_800, 0.999) - 1.8).abs() < 1e-12);
    let table = [
        (1_800, 0.99, Support::Ok),
        (1_800, 0.999, Support::Anecdote),
        (1_000, 0.99, Support::Ok),
        (999, 0.99, Support::Weak),
        (300, 0.99, Support::Weak),
        (299, 0.99, Support::Anecdote),
        (100, 0.9, Support::Ok),
        (30, 0.9, Support::Weak),
        (20, 0.5, Support::Ok),
        (19, 0.5, Support::Weak),
        (1_000, 0.01, Support::Ok),
        (999, 0.01, Support::Weak),
        (0, 0.5, Support::Anecdote),
        (1_000_000, 1.0, Support::Anecdote),
    ];
    for (n, p, expected) in table {
        assert_eq!(support(n, p), expected, "n {n} p {p}");
    }
}

/// Ten samples beyond are ten at every level written in thousandths, whatever the level's double is.
#[test]
fn no_level_falls_into_a_rounding_trap() {
    for thousandths in 1_u64..1_000 {
        let p = thousandths as f64 / 1_000.0;
        for n in [1_000, 2_000, 7_000, 1_000_000, 123_456_000] {
            let tail = thousandths.min(1_000 - thousandths);
            assert_eq!(beyond(n, p), (n / 1_000 * tail) as f64, "n {n} p {p}");
        }
        let ranks: Vec<f64> = (1..=1_000).map(f64::from).collect();
        assert_eq!(quantile(&ranks, p, Method::InverseCdf), Some(thousandths as f64), "p {p}");
        let averaged = quantile(&ranks, p, Method::AveragedInverseCdf);
        assert_eq!(averaged, Some(thousandths as f64 + 0.5), "p {p}");
    }
}

#[test]
fn order_statistic_ranks_at_95_percent() {
    let table = [
        (1_800, 0.99, Some(1_773), Some(1_791)),
        (500, 0.99, Some(490), Some(500)),
        (500, 0.95, Some(465), Some(485)),
        (100, 0.99, Some(97), None),
    ];
    for (n, p, low, high) in table {
        assert_eq!(order_statistic_ranks(n, p, 0.95), RankInterval { low, high }, "n {n} p {p}");
    }
}

#[test]
fn ranks_at_the_edges() {
    let none = RankInterval { low: None, high: None };
    assert_eq!(order_statistic_ranks(0, 0.5, 0.95), none);
    assert_eq!(order_statistic_ranks(100, 1.5, 0.95), none);
    assert_eq!(order_statistic_ranks(100, f64::NAN, 0.95), none);
    assert_eq!(order_statistic_ranks(100, 0.5, 1.0), none);
    assert_eq!(order_statistic_ranks(100, 0.5, 0.0), none);
    assert_eq!(order_statistic_ranks(1, 0.5, 0.95), none);
    // The median of six: all six enclose it with 1 - 2/64 = 96.9 %; five do not reach 95 %.
    assert_eq!(order_statistic_ranks(6, 0.5, 0.95), RankInterval { low: Some(1), high: Some(6) });
    assert_eq!(order_statistic_ranks(5, 0.5, 0.95), none);
    // A tail that equals the limit exactly counts as within it: 2/64 at confidence 31/32.
    assert_eq!(order_statistic_ranks(6, 0.5, 1.0 - 2.0 / 64.0), RankInterval { low: Some(1), high: Some(6) });
    // The largest possible value is bounded from below only, the smallest from above only.
    assert_eq!(order_statistic_ranks(9, 1.0, 0.95), RankInterval { low: Some(9), high: None });
    assert_eq!(order_statistic_ranks(9, 0.0, 0.95), RankInterval { low: None, high: Some(1) });
}

#[test]
fn early_stopping_certificates() {
    let floors = [
        (0.5, 11),
        (0.75, 24),
        (0.8, 31),
        (0.9, 64),
        (0.95, 130),
        (0.97, 219),
        (0.99, 662),
        (0.999, 6_636),
        (0.9999, 66_381),
    ];
    for (p, n) in floors {
        assert_eq!(early_stopping_samples(p, 0.99, 1), Some(n), "p {p}");
        assert_eq!(early_stopping_rank(n, p, 0.99), Some(1), "p {p}");
        assert_eq!(early_stopping_rank(n - 1, p, 0.99), None, "p {p}");
    }
    let over = [0, 1, 2, 5, 10, 20, 50, 100];
    let rows = [
        (0.9, 0.99, [44, 64, 81, 127, 197, 325, 681, 1_246]),
        (0.95, 0.99, [90, 130, 165, 259, 398, 656, 1_372, 2_504]),
        (0.99, 0.99, [459, 662, 838, 1_307, 2_010, 3_304, 6_898, 12_571]),
        (0.99, 0.95, [299, 473, 628, 1_049, 1_693, 2_902, 6_323, 11_799]),
    ];
    for (p, confidence, row) in rows {
        for (over, n) in over.into_iter().zip(row) {
            assert_eq!(early_stopping_samples(p, confidence, over), Some(n), "p {p} over {over}");
        }
    }
    for (over, n) in over.into_iter().zip([4_603, 6_636, 8_403, 13_105, 20_140, 33_097]) {
        assert_eq!(early_stopping_samples(0.999, 0.99, over), Some(n), "p99.9 over {over}");
    }
    assert_eq!(early_stopping_rank(10_000, 0.99, 0.99), Some(77));
    // One sample leaves a tail of exactly 0.1 under p10 at 0.9, which no rounding may turn away.
    assert_eq!(early_stopping_samples(0.1, 0.9, 0), Some(1));
    assert_eq!(early_stopping_samples(1.0, 0.99, 0), None);
    assert_eq!(early_stopping_rank(10_000, 0.99, 1.0), None);
}

#[test]
fn certified_value_is_the_77th_from_the_top() {
    let sorted = (1..=10_000).map(f64::from).collect::<Samples>().freeze();
    assert_eq!(sorted.certified(0.99, 0.99), Some(9_924.0));
    assert_eq!(sorted.quantile(0.99, Method::InverseCdf), Some(9_900.0));
    assert_eq!(sorted.quantile_interval(0.99, 0.95), (Some(9_880.0), Some(9_920.0)));
}

fn case(file: &str) -> Value {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/cases/31-percentiles-of-few-samples/");
    serde_json::from_str(&std::fs::read_to_string(format!("{folder}{file}")).unwrap()).unwrap()
}

/// Percentiles of ten, four, three, one and no sample, given unsorted.
#[test]
fn percentiles_of_few_samples() {
    let (values, expected) = (case("values.json"), case("expected.json"));
    let mut checked = 0;
    for (set, figures) in expected.as_object().unwrap() {
        let samples: Samples =
            values[set].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
        let std = samples.std();
        let sorted = samples.freeze();
        for (figure, value) in figures.as_object().unwrap() {
            let found = match figure.as_str() {
                "std_pop" => std,
                // Both belong to other tools' definitions.
                "std_sample" | "guidellm_p90" => continue,
                name => {
                    let (name, method) = match name.strip_prefix("nr_") {
                        Some(name) => (name, Method::InverseCdf),
                        None => (name, Method::Linear),
                    };
                    sorted.quantile(name[1..].parse::<f64>().unwrap() / 100.0, method)
                }
            };
            match value.as_f64() {
                Some(value) => {
                    assert!((found.unwrap() - value).abs() <= 1e-12 * value, "{set} {figure}: {found:?}");
                }
                None => assert_eq!(found, None, "{set} {figure}"),
            }
            checked += 1;
        }
    }
    assert_eq!(checked, 16);
}
