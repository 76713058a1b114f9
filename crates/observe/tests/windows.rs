//! Windows between two scrapes: the cases of `testdata/cases` that are about server metrics.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use goodput_observe::delta::Scrapes;
use goodput_observe::engine_names::Engine;
use goodput_observe::expose::{Format, Labels, Page, read};
use goodput_observe::histogram::{Bounds, Histogram, NoQuantile, SumDoubt};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

struct Case {
    before: Page,
    after: Page,
    expected: Value,
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cases").join(name)
}

fn case(name: &str) -> Case {
    let page = |file| read(&fs::read(folder(name).join(file)).unwrap(), Format::Text).whole().unwrap();
    let expected = serde_json::from_slice(&fs::read(folder(name).join("expected.json")).unwrap()).unwrap();
    Case { before: page("before.metrics"), after: page("after.metrics"), expected }
}

impl Case {
    fn scrapes(&self) -> Scrapes<'_> {
        Scrapes::new(&self.before, &self.after)
    }

    /// The window of the case's metric, all its series pooled.
    fn window(&self) -> Histogram {
        self.pooled(self.expected["metric"].as_str().unwrap())
    }

    fn pooled(&self, family: &str) -> Histogram {
        let deltas = self.scrapes().histograms(family).unwrap();
        Histogram::pooled(deltas.series.values().map(|delta| &delta.value)).unwrap().unwrap()
    }

    fn number(&self, key: &str) -> f64 {
        self.expected[key].as_f64().unwrap()
    }

    fn growth(&self, counter: &str) -> f64 {
        self.scrapes().counters(counter).series.values().map(|delta| delta.value).sum()
    }
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1e-9), "{found} is not {expected}");
}

fn interpolated(histogram: &Histogram, q: f64) -> f64 {
    histogram.quantile(q).unwrap().interpolated.unwrap()
}

#[test]
fn a_window_is_the_difference_of_two_pages() {
    let case = case("48-vllm-ttft-window-delta");
    let window = case.window();
    assert_eq!(window.count(), case.number("count"));
    near(window.mean().unwrap(), case.number("mean"));
    near(interpolated(&window, 0.5), case.number("p50"));
    near(interpolated(&window, 0.9), case.number("p90"));
    near(interpolated(&window, 0.99), case.number("p99"));
    let p90 = window.quantile(0.9).unwrap();
    assert_eq!(p90.bounds, Bounds::Within { above: 0.1, up_to: 0.25 });
    assert_eq!(p90.bounds.to_string(), "in (0.1, 0.25]");
    assert_eq!(window.sum_doubt(true), None);
    let after = Histogram::of(&case.after, "vllm:time_to_first_token_seconds").unwrap();
    let alone = after.into_values().next().unwrap();
    near(interpolated(&alone, 0.99), case.number("after_only_p99"));
}

#[test]
fn above_the_highest_edge_there_is_only_above() {
    let case = case("49-quantile-above-top-bucket");
    let window = case.window();
    near(window.mean().unwrap(), case.number("mean"));
    near(interpolated(&window, 0.5), case.number("p50"));
    let p90 = window.quantile(0.9).unwrap();
    assert_eq!(p90.bounds, Bounds::Within { above: 5.0, up_to: 10.0 });
    near(p90.interpolated.unwrap(), case.number("p90"));
    let p95 = window.quantile(0.95).unwrap();
    assert_eq!(p95.bounds, Bounds::Above { ceiling: 10.0 });
    assert_eq!(p95.bounds.to_string(), "> 10");
    assert_eq!((p95.bounds.lower(), p95.bounds.upper()), (Some(10.0), None));
    near(p95.interpolated.unwrap(), case.number("p95"));
    assert_eq!(window.sum_doubt(true), Some(SumDoubt::Saturated));
}

#[test]
fn without_an_observation_there_is_no_number() {
    let case = case("51-no-observation-in-window");
    for metric in case.expected["null_metrics"].as_array().unwrap() {
        let window = case.pooled(metric.as_str().unwrap());
        assert_eq!(window.count(), 0.0);
        assert_eq!(window.quantile(0.5), Err(NoQuantile::NoObservation));
        assert_eq!((window.mean(), window.sum_doubt(true)), (None, None));
    }
    let after = Histogram::of(&case.after, "vllm:one_bucket_seconds").unwrap().into_values().next().unwrap();
    assert_eq!(after.quantile(0.5), Err(NoQuantile::NoEdges));
    assert_eq!((after.count(), after.mean(), after.floor()), (5.0, Some(0.2), None));
}

#[test]
fn a_reset_is_judged_for_a_whole_histogram() {
    let case = case("53-counter-reset-visible");
    let deltas = case.scrapes().histograms("vllm:time_to_first_token_seconds").unwrap();
    assert!(deltas.is_incomplete());
    let delta = deltas.series.values().next().unwrap();
    assert!(delta.reset);
    assert_eq!(delta.value.count(), case.number("count"));
    near(delta.value.mean().unwrap(), case.number("mean"));
    near(interpolated(&delta.value, 0.5), case.number("p50"));
}

#[test]
fn several_engines_are_pooled_by_edge_and_never_averaged() {
    let case = case("55-several-engines");
    let window = case.window();
    assert_eq!(window.count(), case.number("count"));
    near(window.mean().unwrap(), case.number("mean"));
    near(interpolated(&window, 0.95), case.number("p95"));
    let parts = case.scrapes().histograms("vllm:time_to_first_token_seconds").unwrap();
    let each: Vec<_> = parts.series.values().map(|delta| interpolated(&delta.value, 0.95)).collect();
    near(each[0], 0.32);
    near(each[1], 0.96875);
    let gauge = |name| Engine::Vllm.family(name).unwrap().merged(&case.after).unwrap();
    near(gauge("vllm:num_requests_running"), 8.0);
    near(gauge("vllm:kv_cache_usage_perc"), 0.6);
}

#[test]
fn buckets_in_any_order_and_spelling() {
    let page = fs::read(folder("56-exposition-syntax").join("page.metrics")).unwrap();
    let page = read(&page, Format::Text).whole().unwrap();
    let series = Histogram::of(&page, "demo:lat_seconds").unwrap();
    let histogram = &series[&Labels::new([("model_name", "m")])];
    assert_eq!(histogram.edges(), [0.5, 10.0, f64::INFINITY]);
    assert_eq!(histogram.cumulative(), [1.0, 3.0, 3.0]);
    near(interpolated(histogram, 0.5), 2.875);
}

#[test]
fn an_itl_sample_is_an_output_and_not_a_token() {
    let case = case("58-itl-histogram-is-per-output");
    let itl = case.pooled("vllm:inter_token_latency_seconds");
    near(itl.mean().unwrap(), case.number("itl_event_mean"));
    let after_the_first =
        case.growth("vllm:generation_tokens_total") - case.growth("vllm:request_success_total");
    near(after_the_first / itl.count(), case.number("tokens_per_event"));
    near(itl.sum().unwrap() / after_the_first, case.number("per_token"));
    let tpot = case.pooled("vllm:request_time_per_output_token_seconds");
    near(tpot.mean().unwrap(), case.number("request_tpot_mean"));
}

#[test]
fn ranks_tell_one_thing_several_times() {
    let case = case("59-sglang-counters-inflated");
    let client: Value =
        serde_json::from_slice(&fs::read(folder("59-sglang-counters-inflated").join("client.json")).unwrap())
            .unwrap();
    let growth = case.growth("sglang:num_requests_total");
    assert_eq!(growth, case.number("counter_delta"));
    let ratio = growth / client["requests_sent"].as_f64().unwrap();
    assert_eq!(ratio, client["n"].as_f64().unwrap() + 1.0);
    let running = Engine::Sglang.family("sglang:num_running_reqs").unwrap();
    assert_eq!(running.merged(&case.after), Some(case.number("running")));
}

#[test]
fn below_the_floor_there_is_only_the_floor() {
    let case = case("61-everything-in-first-bucket");
    let window = case.window();
    for (q, key) in [(0.5, "p50"), (0.99, "p99")] {
        let quantile = window.quantile(q).unwrap();
        assert_eq!(quantile.bounds, Bounds::UpTo { floor: 0.001 });
        assert_eq!(quantile.bounds.to_string(), "<= 0.001");
        near(quantile.interpolated.unwrap(), case.number(key));
    }
    assert_eq!(window.mean(), Some(0.0));
    assert_eq!(window.sum_doubt(true), Some(SumDoubt::Zero));
    assert_eq!(window.sum_doubt(false), None, "numbers of preemptions may well be 0");
}

fn page(text: &str) -> Page {
    read(text.as_bytes(), Format::Text).whole().unwrap()
}

const ONE: &str = "# TYPE h histogram\nh_bucket{le=\"1\"} 3\nh_bucket{le=\"+Inf\"} 5\nh_sum 9\nc_total 7\n";

#[test]
fn a_restart_that_the_counts_hide_is_told_by_times() {
    let later = "# TYPE h histogram\nh_bucket{le=\"1\"} 4\nh_bucket{le=\"+Inf\"} 6\nh_sum 10\nc_total 8\n";
    let window = |before: &str, after: &str| {
        let (before, after) = (page(&format!("{ONE}{before}")), page(&format!("{later}{after}")));
        let scrapes = Scrapes::new(&before, &after);
        let histogram = scrapes.histograms("h").unwrap().series.into_values().next().unwrap();
        let counter = scrapes.counters("c_total").series.into_values().next().unwrap();
        ((histogram.value.count(), histogram.reset), (counter.value, counter.reset))
    };
    assert_eq!(window("", ""), ((1.0, false), (1.0, false)));
    let (before, after) = ("process_start_time_seconds 100\n", "process_start_time_seconds 200\n");
    assert_eq!(window(before, before), ((1.0, false), (1.0, false)));
    assert_eq!(window(before, after), ((6.0, true), (8.0, true)));
    assert_eq!(window("h_created 1\n", "h_created 2\n"), ((6.0, true), (1.0, false)));
    assert_eq!(window("c_created 1\n", "c_created 2\n"), ((1.0, false), (8.0, true)));
}

#[test]
fn series_come_and_go() {
    let before = page("c_total{m=\"a\"} 5\nc_total{m=\"b\"} 5\nc_total{m=\"x\"} NaN\n");
    let after = page("c_total{m=\"b\"} 3\nc_total{m=\"c\"} 2\nc_total{m=\"x\"} NaN\n");
    let deltas = Scrapes::new(&before, &after).counters("c_total");
    let found: Vec<_> = deltas
        .series
        .iter()
        .map(|(labels, delta)| (labels.get("m").unwrap(), delta.value, delta.reset))
        .collect();
    assert_eq!(found, [("b", 3.0, true), ("c", 2.0, false)]);
    assert_eq!(deltas.vanished, [Labels::new([("m", "a")])]);
    assert!(deltas.is_incomplete());
    let new = Scrapes::new(&page(""), &page(ONE)).histograms("h").unwrap();
    assert_eq!(
        (new.series.len(), new.is_incomplete()),
        (1, false),
        "a family that was not there yet began at 0"
    );
}

#[test]
fn other_edges_mean_another_process_and_cannot_be_added() {
    let other = page("# TYPE h histogram\nh_bucket{le=\"2\"} 9\nh_bucket{le=\"+Inf\"} 9\nh_sum 9\n");
    let before = page(ONE);
    let delta = Scrapes::new(&before, &other).histograms("h").unwrap().series.into_values().next().unwrap();
    assert_eq!((delta.reset, delta.value.count()), (true, 9.0));
    let [one, two] =
        [&before, &other].map(|page| Histogram::of(page, "h").unwrap().into_values().next().unwrap());
    assert_eq!(
        Histogram::pooled([&one, &two]).unwrap_err().to_string(),
        "histograms with different bucket edges cannot be added: [1.0] against [2.0]; give both servers the same \
         buckets, or report them apart"
    );
    assert_eq!(Histogram::pooled([]), Ok(None));
}

#[test]
fn what_is_no_histogram_is_refused_by_name() {
    let of = |text: &str| Histogram::of(&page(text), "h").unwrap_err().to_string();
    assert_eq!(of("x 1\n"), "the page has no histogram `h`");
    assert_eq!(of("# TYPE h gauge\nh{le=\"1\",gt=\"0\"} 1\n"), "the page has no histogram `h`");
    assert_eq!(
        of("# TYPE h histogram\nh_bucket{a=\"b\",le=\"1\"} 1\n"),
        "`h{a=\"b\"}` has no bucket le=\"+Inf\", so its total is unknown"
    );
    assert_eq!(
        of("# TYPE h histogram\nh_bucket{le=\"one\"} 1\n"),
        "a bucket of `h{le=\"one\"}` has no number as its `le` label"
    );
    assert_eq!(
        of("# TYPE h histogram\nh_bucket{le=\"+Inf\"} NaN\n"),
        "a bucket of `h` holds NaN, and a count was expected"
    );
}

#[test]
fn counts_that_fall_are_raised_and_said_so() {
    let histogram = Histogram::new([(1.0, 5.0), (2.0, 3.0), (f64::INFINITY, 6.0)], None).unwrap();
    assert_eq!((histogram.cumulative(), histogram.is_repaired()), (&[5.0, 5.0, 6.0][..], true));
    let sum = |sum| Histogram::new([(1.0, 2.0), (f64::INFINITY, 2.0)], Some(sum)).unwrap().sum_doubt(true);
    assert_eq!(
        (sum(1.5), sum(-1.0), sum(2.5)),
        (None, Some(SumDoubt::OutsideBuckets), Some(SumDoubt::Saturated))
    );
}
