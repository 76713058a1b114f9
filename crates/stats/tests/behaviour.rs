//! Cases whose answer can be said beforehand: steady state, dependence, resampling, bins at the edges.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use goodput_stats::batch::{Truncation, autocorrelation, effective_samples, integrated_time, mser5};
use goodput_stats::bootstrap::{block, clustered, clustered_quantile, plain};
use goodput_stats::compare::difference;
use goodput_stats::gof::{
    coefficient_of_variation, exponential_cdf, gamma_cdf, index_of_dispersion, kolmogorov_smirnov, ks_p_value,
};
use goodput_stats::interval::{normal_quantile, student_t_mean, student_t_quantile, two_sided_z, wilson};
use goodput_stats::pool::pool;
use goodput_stats::{Estimate, Method, Resampling, Samples, quantile};

/// A fixed, irregular series in [0, 1): the golden ratio's multiples.
fn irregular(n: usize) -> Vec<f64> {
    (1..=n).map(|i| (i as f64 * 0.618_033_988_749_894_9).fract()).collect()
}

const HOW: Resampling = Resampling { resamples: 1_000, confidence: 0.95, seed: 11 };

fn mean(values: &mut [f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn width(estimate: Option<Estimate>) -> f64 {
    let estimate = estimate.unwrap();
    estimate.high - estimate.low
}

#[test]
fn nothing_has_no_figures() {
    let samples = Samples::new();
    assert!(samples.is_empty());
    assert_eq!((samples.mean(), samples.std(), samples.min(), samples.max()), (None, None, None, None));
    let sorted = samples.freeze();
    assert_eq!(sorted.quantile(0.5, Method::Linear), None);
    assert_eq!(sorted.order_statistic(1), None);
    assert_eq!(sorted.quantile_interval(0.5, 0.95), (None, None));
    assert_eq!(sorted.certified(0.5, 0.95), None);
    assert_eq!(quantile(&[], 0.5, Method::InverseCdf), None);
}

#[test]
fn a_level_outside_has_no_quantile() {
    for p in [-0.01, 1.01, f64::NAN, f64::INFINITY] {
        assert_eq!(quantile(&[1.0, 2.0], p, Method::Linear), None, "{p}");
    }
}

#[test]
#[should_panic(expected = "a sample must be finite")]
fn an_undefined_figure_is_no_sample() {
    Samples::new().push(f64::NAN);
}

#[test]
fn ranks_outside_have_no_order_statistic() {
    let sorted = [3.0, 1.0, 2.0].into_iter().collect::<Samples>().freeze();
    let found: Vec<Option<f64>> = (0..5).map(|rank| sorted.order_statistic(rank)).collect();
    assert_eq!(found, [None, Some(1.0), Some(2.0), Some(3.0), None]);
}

#[test]
fn minus_zero_is_zero() {
    let samples: Samples = [-0.0, 0.0, -0.0].into_iter().collect();
    assert!(samples.min().unwrap().is_sign_positive());
    assert_eq!(samples.freeze().quantile(0.5, Method::InverseCdf), Some(0.0));
}

/// Many more values than the limit, in many settlings: bins of at most 2^-15, every count kept, ends exact.
#[test]
fn a_long_stream_goes_into_bins() {
    let mut samples = Samples::with_distinct_limit(30_000);
    let mut all = Vec::new();
    for (index, unit) in irregular(60_000).into_iter().enumerate() {
        // Three quarters positive over a factor of e^0.5, the rest zero or negative.
        let value = match index % 8 {
            0 => 0.0,
            1 => -(unit * 0.5).exp(),
            _ => (unit * 0.5).exp(),
        };
        samples.push(value);
        all.push(value);
    }
    all.sort_by(f64::total_cmp);
    let (mean, std) = (samples.mean().unwrap(), samples.std().unwrap());
    let sorted = samples.freeze();
    assert!(!sorted.is_exact());
    assert_eq!(sorted.relative_error(), 2f64.powi(-16));
    assert_eq!((sorted.n(), sorted.min(), sorted.max()), (60_000, Some(all[0]), all.last().copied()));
    assert_eq!((sorted.mean(), sorted.std()), (Some(mean), Some(std)));
    for (rank, value) in (1..).zip(&all) {
        let found = sorted.order_statistic(rank).unwrap();
        assert!((found - value).abs() <= 2f64.powi(-16) * value.abs(), "rank {rank}: {found} for {value}");
    }
}

/// Whoever merges, the coarser bins and the smaller limit hold, and nothing is counted twice.
#[test]
fn exact_and_binned_samples_merge() {
    let fine: Samples = irregular(500).into_iter().collect();
    let mut coarse = Samples::with_distinct_limit(100);
    coarse.extend(irregular(9_000));
    let mut one = fine.clone();
    one.merge(&coarse);
    let mut other = coarse.clone();
    other.merge(&fine);
    let (one, other) = (one.freeze(), other.freeze());
    assert_eq!(one.n(), 9_500);
    assert_eq!(one.relative_error(), other.relative_error());
    for rank in 1..=9_500 {
        assert_eq!(one.order_statistic(rank), other.order_statistic(rank), "rank {rank}");
    }
}

#[test]
fn pooling_weighs_by_samples() {
    // 90 quick requests on one replica, 10 slow ones on another: the p50s are 1 and 100, the pooled one is 1.
    let quick: Samples = (0..90).map(|_| 1.0).collect();
    let slow: Samples = (0..10).map(|_| 100.0).collect();
    let pooled = pool([&quick, &slow]).freeze();
    assert_eq!(pooled.quantile(0.5, Method::InverseCdf), Some(1.0));
    assert_eq!(pooled.quantile(0.9, Method::InverseCdf), Some(1.0));
    assert_eq!(pooled.quantile(0.91, Method::InverseCdf), Some(100.0));
    assert_eq!(pooled.mean(), Some(10.9));
    assert_eq!(pool([]).n(), 0);
}

#[test]
fn steady_state() {
    let noise = irregular(1_000);
    let with = |start_up: fn(usize) -> f64| -> Vec<f64> {
        noise.iter().enumerate().map(|(index, noise)| start_up(index) + noise * 0.1).collect()
    };
    assert_eq!(mser5(&vec![3.0; 100]), Truncation::From(0));
    // The first 120 samples are a start-up: cut there and nowhere else.
    assert_eq!(mser5(&with(|index| if index < 120 { 10.0 } else { 0.0 })), Truncation::From(120));
    // A queue that grows through the run never settles.
    assert_eq!(mser5(&with(|index| index as f64)), Truncation::NotSettled);
    assert_eq!(mser5(&noise[..49]), Truncation::TooShort);
    assert_eq!(mser5(&vec![1.0; 50]), Truncation::From(0));
    assert_eq!(mser5(&[]), Truncation::TooShort);
}

#[test]
fn dependence() {
    assert_eq!(autocorrelation(&[], 5), None);
    assert_eq!(autocorrelation(&[2.0; 9], 5), None);
    assert_eq!(effective_samples(&[2.0; 9]), None);
    let alternating: Vec<f64> = (0..100).map(|index| if index % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let found = autocorrelation(&alternating, 1_000).unwrap();
    assert_eq!(found.len(), 100);
    for (lag, value) in found.iter().enumerate() {
        let sign = if lag % 2 == 0 { 1.0 } else { -1.0 };
        assert!((value - sign * (100 - lag) as f64 / 100.0).abs() < 1e-12, "lag {lag}");
    }
    // Negative correlation is not worth more than independence.
    assert_eq!(integrated_time(&alternating), Some(1.0));
    assert_eq!(effective_samples(&alternating), Some(100.0));
    // Every value five times over: about a fifth as many independent samples.
    let repeated: Vec<f64> = irregular(400).into_iter().flat_map(|value| [value; 5]).collect();
    let effective = effective_samples(&repeated).unwrap();
    assert!((380.0..900.0).contains(&effective), "{effective}");
}

/// The interval of a mean is as wide as theory says, and wider where samples hang together.
#[test]
fn bootstraps_see_dependence() {
    let values = irregular(400);
    let spread = values.iter().copied().collect::<Samples>().std().unwrap();
    let expected = 2.0 * 1.96 * spread / 20.0;
    let independent = width(plain(&values, &HOW, mean));
    assert!((independent / expected - 1.0).abs() < 0.1, "{independent} {expected}");

    // 40 clusters of ten equal samples are worth 40 samples, not 400: wider by the root of ten.
    let clusters: Vec<[f64; 10]> = irregular(40).into_iter().map(|value| [value; 10]).collect();
    let flat: Vec<f64> = clusters.concat();
    let as_samples = width(plain(&flat, &HOW, mean));
    for by_cluster in [width(clustered(&clusters, &HOW, mean)), width(block(&flat, 40, &HOW, mean))] {
        assert!(by_cluster > 1.3 * as_samples, "{by_cluster} {as_samples}");
    }
    let ratio = width(clustered(&clusters, &HOW, mean)) / as_samples;
    assert!((ratio / 10_f64.sqrt() - 1.0).abs() < 0.1, "{ratio}");
}

#[test]
fn blocks_are_neighbours_and_wrap_around() {
    let ascending: Vec<f64> = (0..12).map(f64::from).collect();
    let followed = |resample: &mut [f64]| {
        let whole = resample.chunks(5).all(|block| {
            block.windows(2).all(|pair| pair[1] == pair[0] + 1.0 || (pair[0], pair[1]) == (11.0, 0.0))
        });
        Some(if whole && resample.len() == 12 { 1.0 } else { 0.0 })
    };
    let found = block(&ascending, 5, &HOW, followed).unwrap();
    assert_eq!((found.value, found.low, found.high), (1.0, 1.0, 1.0));
    // One block as long as the series holds every sample once.
    let all = block(&ascending, 12, &HOW, |values| Some(values.iter().sum())).unwrap();
    assert_eq!((all.low, all.high), (66.0, 66.0));
}

#[test]
fn a_seed_is_an_interval() {
    let values = irregular(50);
    let first = plain(&values, &HOW, mean);
    assert_eq!(first, plain(&values, &HOW, mean));
    assert_ne!(first, plain(&values, &Resampling { seed: 12, ..HOW }, mean));
    // Pinned, so that a stored seed means the same interval for ever.
    let found = first.unwrap();
    assert_eq!((found.low.to_bits(), found.high.to_bits()), PINNED, "{found:?}");
}
const PINNED: (u64, u64) = (4_601_260_467_638_853_684, 4_603_426_801_868_975_445);

#[test]
fn undefined_statistics_are_counted() {
    // Defined only where the resample holds the 3.
    let of = |values: &mut [f64]| values.contains(&3.0).then_some(1.0);
    let found = plain(&[1.0, 2.0, 3.0], &HOW, of).unwrap();
    // (2/3)^3 of the resamples do not.
    assert!((250..350).contains(&found.undefined), "{found:?}");
    assert_eq!(plain(&[1.0, 2.0], &HOW, of), None);
    assert_eq!(plain(&[], &HOW, mean), None);
    assert_eq!(clustered::<[f64; 1]>(&[], &HOW, mean), None);
    assert_eq!(clustered_quantile::<[f64; 1]>(&[], 0.5, Method::Linear, &HOW), None);
    assert_eq!(plain(&[1.0], &Resampling { confidence: 1.0, ..HOW }, mean), None);
    assert_eq!(plain(&[1.0], &Resampling { resamples: 0, ..HOW }, mean), None);
}

#[test]
fn differences() {
    let before = irregular(300);
    let same = difference(&before, &before, &HOW, mean).unwrap();
    assert_eq!(same.value, 0.0);
    assert!(same.low < 0.0 && 0.0 < same.high);
    let after: Vec<f64> = before.iter().map(|value| value * 1.5).collect();
    let p90 = |values: &mut [f64]| {
        values.sort_unstable_by(f64::total_cmp);
        quantile(values, 0.9, Method::Linear)
    };
    let slower = difference(&before, &after, &HOW, p90).unwrap();
    assert!(slower.low > 0.3 && slower.high < 0.6, "{slower:?}");
    // Two independent means vary by the root of two more than one.
    let ratio = width(difference(&before, &before, &HOW, mean)) / width(plain(&before, &HOW, mean));
    assert!((ratio / 2_f64.sqrt() - 1.0).abs() < 0.1, "{ratio}");
    assert_eq!(difference(&[], &before, &HOW, mean), None);
}

#[test]
fn fits_of_gap_laws() {
    // Quantiles of the law itself are as near as n samples can be: 1/(2n).
    let n = 200;
    let exponential: Vec<f64> = (0..n).map(|i| -2.0 * (1.0 - (i as f64 + 0.5) / n as f64).ln()).collect();
    let test = kolmogorov_smirnov(&exponential, exponential_cdf(2.0).unwrap()).unwrap();
    assert!((test.statistic - 1.0 / 400.0).abs() < 1e-12);
    assert_eq!(test.p_value, 1.0);
    // Gamma with shape 1 is the same law; half the mean is not.
    let gamma = kolmogorov_smirnov(&exponential, gamma_cdf(1.0, 2.0).unwrap()).unwrap();
    assert!((gamma.statistic - test.statistic).abs() < 1e-9);
    assert!(kolmogorov_smirnov(&exponential, exponential_cdf(1.0).unwrap()).unwrap().p_value < 1e-6);
    // A constant rate is not a Poisson process.
    let constant = kolmogorov_smirnov(&[2.0; 50], exponential_cdf(2.0).unwrap()).unwrap();
    assert!((constant.statistic - (1.0 - (-1.0_f64).exp())).abs() < 1e-15);
    assert!(constant.p_value < 1e-9);
    assert_eq!(kolmogorov_smirnov(&[], |_| 0.5), None);
    // One sample: P(D >= d) = 2 (1 - d).
    assert!((ks_p_value(1, 0.75) - 0.5).abs() < 1e-15);
    // Exact values on one side of the switch, the limit law on the other.
    assert!((ks_p_value(100, 0.12) - ks_p_value(101, 0.12 * (100.0_f64 / 101.0).sqrt())).abs() < 5e-4);
}

#[test]
fn laws_need_positive_parameters() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(exponential_cdf(bad).is_none(), "{bad}");
        assert!(gamma_cdf(bad, 1.0).is_none() && gamma_cdf(1.0, bad).is_none(), "{bad}");
    }
}

#[test]
fn dispersion() {
    assert_eq!(index_of_dispersion(&[5, 5, 5, 5]), Some(0.0));
    assert_eq!(index_of_dispersion(&[1, 3]), Some(1.0));
    assert_eq!(index_of_dispersion(&[0, 0, 0, 12]), Some(12.0));
    assert_eq!(index_of_dispersion(&[0, 0]), None);
    assert_eq!(index_of_dispersion(&[4]), None);
    assert_eq!(coefficient_of_variation(&[2.0, 2.0]), Some(0.0));
    assert_eq!(coefficient_of_variation(&[1.0, 3.0]), Some(0.5));
    assert_eq!(coefficient_of_variation(&[-1.0, 1.0]), None);
    assert_eq!(coefficient_of_variation(&[]), None);
}

#[test]
fn intervals_say_none_where_there_is_none() {
    assert_eq!(wilson(0, 0, 0.95), None);
    assert_eq!(wilson(3, 2, 0.95), None);
    assert_eq!(wilson(1, 2, 1.0), None);
    assert_eq!(wilson(1, 2, -0.5), None);
    assert_eq!(student_t_mean(&[1.0], 0.95), None);
    assert_eq!(student_t_mean(&[1.0, 2.0], 0.0), None);
    assert_eq!(student_t_quantile(0.0, 0.5), None);
    assert_eq!(student_t_quantile(5.0, 1.0), None);
    assert_eq!(normal_quantile(0.0), None);
    assert_eq!(two_sided_z(0.0), None);
    assert!((two_sided_z(0.95).unwrap() - 1.959_963_984_540_054).abs() < 1e-9);
}

#[test]
fn batches_of_a_series_that_remembers() {
    use goodput_stats::batch::batch_means;
    use goodput_stats::interval::student_t_mean;
    // 80 values, each a hundred times in a row: 80 independent samples, which the batches see and a plain interval does not.
    let series: Vec<f64> = (0..80).flat_map(|i| [f64::from(i * i * 31 % 97); 100]).collect();
    let batched = batch_means(&series, 20, 0.95).unwrap();
    let plain = student_t_mean(&series, 0.95).unwrap();
    let width = |interval: goodput_stats::Interval| interval.high - interval.low;
    assert!(width(batched) > 5.0 * width(plain), "{batched:?} {plain:?}");
    assert!((batched.low + batched.high - plain.low - plain.high).abs() < 1e-9, "around the same mean");
    let half = [2.0; 7];
    assert_eq!(batch_means(&half, 3, 0.95), student_t_mean(&[2.0; 3], 0.95));
    assert_eq!(batch_means(&half, 8, 0.95), None);
    assert_eq!(batch_means(&half, 1, 0.95), None);
    assert_eq!(batch_means(&[], 0, 0.95), None);
}
