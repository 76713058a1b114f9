//! Laws: what is written reads the same, any bytes are borne, and histograms keep to what was observed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use goodput_core::time::Nanos;
use goodput_observe::expose::{Exemplar, Family, Format, Kind, Labels, Page, Sample, read};
use goodput_observe::fuzz::exercise;
use goodput_observe::histogram::{Bounds, Histogram};
use goodput_observe::page::{
    Asked, Choice, EnginePage, FinishReason, Load, Observation, Output, Rejection, Setup, Stamp, Step,
};
use proptest::prelude::*;
use std::fs;
use std::path::Path;

const METRIC: &str = "[a-zA-Z_:][a-zA-Z0-9_:]{0,8}";

fn labels() -> impl Strategy<Value = Labels> {
    let value = prop_oneof![".{0,6}", "[\\\\\"\n{},=# é]{0,6}"];
    prop::collection::btree_map("[a-zA-Z_][a-zA-Z0-9_]{0,5}", value, 0..4).prop_map(Labels::new)
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>().prop_filter("NaN is not equal to itself", |value| !value.is_nan()),
        (0..1_000_000_u64).prop_map(|count| count as f64),
        Just(f64::INFINITY),
    ]
}

/// Milliseconds that survive the way through seconds.
fn timestamp() -> impl Strategy<Value = Option<i64>> {
    prop::option::of(-100_000_000_000_000..100_000_000_000_000_i64)
}

fn family(format: Format) -> impl Strategy<Value = Family> {
    let text = [Kind::Counter, Kind::Gauge, Kind::Histogram, Kind::Summary, Kind::Unknown];
    let open = [Kind::Info, Kind::StateSet, Kind::GaugeHistogram];
    let kinds: Vec<_> = if format == Format::Text { text.to_vec() } else { [&text[..], &open].concat() };
    let sample = (labels(), number(), timestamp(), prop::option::of((labels(), number(), timestamp())));
    let help = prop::option::of("[^ \t\r\n][^\r]{0,10}[^\r]|");
    let unit = prop::option::of("[a-z]{1,6}");
    let samples = prop::collection::vec(sample, 0..5);
    (METRIC, prop::sample::select(kinds), help, unit, samples).prop_map(
        move |(name, kind, help, unit, samples)| {
            let open = format == Format::OpenMetrics;
            let suffix = suffix(kind, open);
            let mut family = Family::new(&name, kind);
            family.help = help;
            family.unit = unit.filter(|_| open);
            let samples = samples.into_iter().map(|(labels, value, timestamp_ms, exemplar)| Sample {
                timestamp_ms,
                exemplar: exemplar.filter(|_| open).map(|(labels, value, timestamp_ms)| Exemplar {
                    labels,
                    value,
                    timestamp_ms,
                }),
                ..Sample::new(format!("{name}{suffix}"), labels, value)
            });
            let mut seen = Vec::new();
            for sample in samples {
                let series = (sample.labels.clone(), sample.timestamp_ms);
                if !seen.contains(&series) {
                    seen.push(series);
                    family.samples.push(sample);
                }
            }
            family
        },
    )
}

const fn suffix(kind: Kind, open: bool) -> &'static str {
    match kind {
        Kind::Counter if open => "_total",
        Kind::Histogram => "_bucket",
        Kind::Summary => "_sum",
        Kind::Info => "_info",
        Kind::GaugeHistogram => "_gcount",
        _ => "",
    }
}

fn page(format: Format) -> impl Strategy<Value = Page> {
    prop::collection::vec(family(format), 0..6).prop_map(move |families| {
        let mut page = Page { format, families: Vec::new() };
        // Families with names that begin alike could own each other's samples.
        for (at, mut family) in families.into_iter().enumerate() {
            let old = family.name.clone();
            family.name = format!("f{at}:{old}");
            family.samples.iter_mut().for_each(|sample| sample.name = format!("f{at}:{}", sample.name));
            page.families.push(family);
        }
        // A lone sample makes its own family, after those that are declared.
        page.families.sort_by_key(|family| {
            family.kind == Kind::Unknown
                && family.help.is_none()
                && family.unit.is_none()
                && !family.samples.is_empty()
        });
        page
    })
}

/// The quantile of the inverse CDF, from the observations themselves.
fn inverse_cdf(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (q * sorted.len() as f64).ceil().max(1.0);
    sorted[rank as usize - 1]
}

fn histogram(edges: &[f64], values: &[f64]) -> Histogram {
    let count = |edge: f64| values.iter().filter(|&&value| value <= edge).count() as f64;
    let buckets = edges.iter().copied().chain([f64::INFINITY]).map(|edge| (edge, count(edge)));
    Histogram::new(buckets, Some(values.iter().sum())).unwrap()
}

fn edges() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::btree_set(1..1000_u32, 1..12)
        .prop_map(|edges| edges.into_iter().map(|edge| f64::from(edge) / 8.0).collect())
}

fn values() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec((0..1200_u32).prop_map(|value| f64::from(value) / 8.0), 1..60)
}

proptest! {
    #[test]
    fn a_page_of_text_reads_as_it_was(page in page(Format::Text)) {
        let text = page.write();
        prop_assert_eq!(read(text.as_bytes(), Format::Text).whole().unwrap(), page, "{}", text);
    }

    #[test]
    fn a_page_of_open_metrics_reads_as_it_was(page in page(Format::OpenMetrics)) {
        let text = page.write();
        prop_assert_eq!(read(text.as_bytes(), Format::OpenMetrics).whole().unwrap(), page, "{}", text);
    }

    #[test]
    fn any_bytes_are_borne(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        exercise(&bytes);
    }

    #[test]
    fn a_quantile_lies_in_its_bounds(edges in edges(), values in values(), q in 0.0..=1.0_f64) {
        let truth = inverse_cdf(&values, q);
        let quantile = histogram(&edges, &values).quantile(q).unwrap();
        let holds = match quantile.bounds {
            Bounds::UpTo { floor } => truth <= floor,
            Bounds::Within { above, up_to } => above < truth && truth <= up_to,
            Bounds::Above { ceiling } => truth > ceiling,
        };
        prop_assert!(holds, "{} is not {}", truth, quantile.bounds);
    }

    #[test]
    fn a_sum_of_real_observations_is_believed(edges in edges(), values in values()) {
        let doubt = histogram(&edges, &values).sum_doubt(false);
        let top = edges.last().unwrap();
        let saturated = values.iter().sum::<f64>() / values.len() as f64 > *top;
        prop_assert_eq!(doubt.is_some(), saturated);
    }

    #[test]
    fn pooling_is_the_histogram_of_all_observations(edges in edges(), parts in prop::collection::vec(values(), 1..5)) {
        let histograms: Vec<_> = parts.iter().map(|part| histogram(&edges, part)).collect();
        let pooled = Histogram::pooled(&histograms).unwrap().unwrap();
        prop_assert_eq!(&pooled, &histogram(&edges, &parts.concat()));
        let bounds = |histogram: &Histogram| histogram.quantile(0.5).unwrap().bounds.upper().unwrap_or(f64::INFINITY);
        let each: Vec<_> = histograms.iter().map(bounds).collect();
        let (low, high) = (each.iter().copied().fold(f64::INFINITY, f64::min), each.iter().copied().fold(0.0, f64::max));
        prop_assert!((low..=high).contains(&bounds(&pooled)), "a pooled quantile lies between those of the parts");
    }
}

proptest! {
    // Whole pages, several times over: fewer of them.
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Real pages with some bytes changed, moved or cut out.
    #[test]
    fn damaged_pages_are_borne(
        (file, option) in (prop::sample::select(vec!["vllm", "sglang", "llamacpp"]), 0..2_u8),
        start in 0.0..1.0_f64,
        damage in prop::collection::vec((0..4000_usize, any::<u8>()), 0..12),
    ) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/recorded/{file}_metrics.txt"));
        let page = fs::read(path).unwrap();
        let start = (start * page.len() as f64) as usize;
        let mut bytes = vec![option];
        bytes.extend(page[start..].iter().take(4000));
        for (at, byte) in damage {
            let at = 1 + at % bytes.len().max(2);
            if at < bytes.len() {
                bytes[at] = byte;
            }
        }
        exercise(&bytes);
    }

    #[test]
    fn told_in_any_order_pages_stay_whole(told in prop::collection::vec(any::<(u8, u8, u8)>(), 0..120)) {
        let setup = Setup { speculative_tokens: 2, decode_log_interval: 3, ..Setup::new("m\"\\\n") };
        for mut page in [EnginePage::vllm(&setup), EnginePage::sglang(&setup)] {
            for (at, &(kind, request, amount)) in told.iter().enumerate() {
                tell(&mut page, at as u64, kind, u64::from(request % 8), u64::from(amount));
            }
            for format in [Format::Text, Format::OpenMetrics] {
                let text = page.render(format);
                let read = read(text.as_bytes(), format).whole().unwrap();
                prop_assert_eq!(&read, &page.page(format));
                for family in read.families.iter().filter(|family| family.kind == Kind::Histogram) {
                    let series = Histogram::of(&read, &family.name).unwrap();
                    prop_assert!(series.values().all(|histogram| !histogram.is_repaired()));
                }
            }
        }
    }
}

fn tell(page: &mut EnginePage, at: u64, kind: u8, request: u64, amount: u64) {
    let stamp = Stamp { frontend: Nanos(at * 1_000_003), engine: Nanos(at * 999_999) };
    let outputs = [Output { request, tokens: 1 + amount % 3 }];
    let asked = Asked {
        prompt_tokens: amount,
        max_tokens: Some(amount),
        streaming: amount.is_multiple_of(2),
        choice: amount.is_multiple_of(3).then_some(Choice { group: request / 2, of: 2 }),
    };
    let load = Load { running: amount, ..Load::default() };
    let step = Step { prefill_tokens: amount % 5, outputs: &outputs, load, ..Step::default() };
    page.observe(
        stamp,
        &match kind % 10 {
            0 | 1 => Observation::Arrived { request, asked },
            2 => Observation::Queued { request },
            3 => Observation::Admitted { request, cached_tokens: amount / 2 },
            4 => Observation::Preempted { request },
            5 => Observation::Finished { request, reason: FinishReason::Stop },
            6 => Observation::GivenUp { request },
            7 => Observation::Rejected { request, reason: Rejection::QueuedTokens },
            _ => Observation::Step(step),
        },
    );
}
