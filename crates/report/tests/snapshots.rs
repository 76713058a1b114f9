//! The texts, word for word.

mod bless;
mod sample;

use goodput_core::metric::Metric;
use goodput_core::summary::{Connections, ErrorBound, Finding, Severity, Summary};
use goodput_report::findings::{FindingContext, findings};
use goodput_report::text::{ReadyConnections, ReportContext, report, rulers_table};

fn context() -> ReportContext {
    ReportContext {
        path: Some("runs/a".into()),
        url: "http://127.0.0.1:9001".into(),
        protocol: "openai-chat".into(),
        model: "m".into(),
        engine: Some("vllm".into()),
        engine_version: Some("0.33.0".into()),
        partial: None,
        goodput: "0.1.0".into(),
        client: Some("100 % of reads with kernel stamps; 0.90 cores used".into()),
        ready: Some(ReadyConnections {
            count: 116,
            p50_ms: Some(0.1),
            p99_ms: Some(0.31),
            max_ms: Some(0.42),
        }),
        self_check: Some("of this host on 2026-01-02: good up to 256 streams at 25,600 chunks/s".into()),
    }
}

/// The text is that of the file, keeps the width, and ends with a newline.
fn check(name: &str, text: &str) {
    bless::check(&format!("tests/snapshots/{name}.txt"), text);
    assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{name} ends with one newline");
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{name}: too wide: {line}");
        assert_eq!(line.trim_end(), line, "{name}: blanks at the end: {line:?}");
    }
}

#[test]
fn a_run_with_nothing_wrong() {
    check("clean", &report(&with_findings(sample::summary()), &context()));
}

#[test]
fn a_run_beside_the_servers_own_record() {
    let mut s = sample::summary();
    s.truth = Some(sample::truth());
    check("truth", &report(&with_findings(s), &context()));
}

/// 500 tokens at 20 ms with one gap of 1,500 ms: the p99 of the gaps is 20 ms and the report shows the stall.
fn stalled() -> Summary {
    let mut s = sample::summary();
    let tpot = (498.0 * 20.0 + 1_500.0) / 499.0;
    s.metrics = [
        (Metric::Ttft, 1, [50.0; 3], 50.0),
        (Metric::Tpot, 1, [tpot; 3], tpot),
        (Metric::Itl, 499, [20.0; 3], 1_500.0),
        (Metric::ChunkGap, 499, [20.0; 3], 1_500.0),
        (Metric::E2e, 1, [50.0 + 499.0 * tpot; 3], 50.0 + 499.0 * tpot),
    ]
    .map(|(m, n, percentiles, max)| (m.name().to_owned(), sample::distribution(m, n, percentiles, max)))
    .into();
    (s.counts.issued, s.counts.ok) = (1, 1);
    s.counts.outcomes.insert("ok".into(), 1);
    s.stalls.count = 1;
    s.stalls.requests = 1;
    s.stalls.total_ms = 1_500.0;
    s.stalls.max_itl_ms = Some(1_500.0);
    s.stalls.max_itl_request = Some(0);
    s.goodput = None;
    s.windows.clear();
    s
}

#[test]
fn the_stall_that_p99_does_not_show() {
    let text = report(&stalled(), &context());
    assert!(text.contains("max ITL 1,500 ms in request 0; 1 gap over 500 ms in 1 request, 1,500 ms in all"));
    assert!(text.contains("20.00"), "the p99 of the gaps is shown beside it");
    check("stall", &text);
}

/// An overloaded server behind a cap, which refuses some requests and is cut off: as much as can be wrong at once.
fn trouble() -> Summary {
    let mut s = sample::summary();
    s.partial = true;
    s.counts.issued = 4_600;
    s.counts.censored = 150;
    s.counts.never_released = 1_400;
    s.counts.stale_retries = 2;
    for (name, n) in [("http_error", 400), ("timeout", 42), ("stream_error", 7), ("cancelled", 151)] {
        s.counts.outcomes.insert(name.into(), n);
    }
    s.load.concurrency = Some(64);
    s.load.offered_rps = Some(92.0);
    s.load.lateness_ms.as_mut().expect("open loop").p99 = 2_310.4;
    s.load.lateness_ms.as_mut().expect("open loop").max = 2_480.9;
    s.load.client_limited = true;
    s.load.reasons =
        vec!["first tokens may have waited 12.400 ms to be read at p99, more than 5.012 ms".into()];
    s.load.remedies = vec!["raise --receive-threads where cores are free".into()];
    let gaps = s.load.gaps.as_mut().expect("a steady law");
    (gaps.verdict, gaps.dispersion) = ("fail".into(), Some(3.214));
    gaps.reasons = vec![
        "arrivals cluster: their dispersion over 63 windows is 3.214, outside of 0.491 to 1.747".into(),
        "the cap of 64 held 3120 of 4600 requests back".into(),
    ];
    s.tokens.cached_input = Some(12_800);
    s.tokens.mismatched = 12;
    s.tokens.chunks_per_token = Some(0.42);
    s.tokens.sources = [("server".to_owned(), 3_700), ("chunks".to_owned(), 300)].into();
    for (metric, n, percentiles, max) in [
        (Metric::Ttft, 4_000, [1_204.0, 2_290.0, 2_361.9], 2_531.0),
        (Metric::CapWait, 4_600, [1_150.0, 2_240.0, 2_310.4], 2_480.9),
        (Metric::ClientQueue, 4_600, [1_150.0, 2_240.0, 2_310.4], 2_480.9),
        (Metric::E2eCensored, 4_042, [1_890.0, 2_940.0, 30_000.0], 30_000.0),
    ] {
        s.metrics.insert(metric.name().into(), sample::distribution(metric, n, percentiles, max));
    }
    let g = s.goodput.as_mut().expect("an SLO");
    (g.good, g.evaluated, g.vacuous, g.not_evaluable, g.censored) = (3_300, 4_450, 5, 0, 150);
    (g.request_per_s, g.token_per_s, g.inline) = (Some(81.06), Some(5_188.0), true);
    g.attainment.value = Some(0.741_57);
    (g.attainment.low, g.attainment.high) = (Some(0.728_5), Some(0.754_2));
    g.verdicts[0].verdict = "undecided".into();
    g.verdicts[0].high = None;
    s.metrics.insert("fluidity".into(), sample::distribution(Metric::Fluidity, 4_000, [0.97, 1.0, 1.0], 1.0));
    for q in s.metrics.get_mut("e2e_censored").expect("just put there").percentiles.values_mut() {
        if q.value == Some(30_000.0) {
            q.method += ", a lower limit";
            q.high = None;
        }
    }
    s.findings = vec![Finding {
        rule: "client_limited".into(),
        severity: Severity::Invalid,
        message: "this client, and not the server, limited the run".into(),
        evidence: s.load.reasons.clone(),
        invalidates: vec!["metrics".into()],
        remedy: s.load.remedies.join("; "),
    }];
    with_findings(s)
}

fn with_findings(mut s: Summary) -> Summary {
    let found = findings(&FindingContext { summary: &s, plan: None, client: None, workload: None });
    s.findings.extend(found);
    s
}

#[test]
fn a_run_with_much_wrong() {
    let mut about = context();
    about.partial = Some("the run was interrupted; 4600 finished requests are on record".into());
    about.engine = None;
    about.engine_version = None;
    check("trouble", &report(&trouble(), &about));
}

#[test]
fn a_closed_loop_of_few_requests() {
    let mut s = sample::summary();
    s.load.kind = "closed".into();
    s.load.concurrency = Some(8);
    (s.load.asked_rps, s.load.scheduled_rps, s.load.lateness_ms, s.load.gaps) = (None, None, None, None);
    s.metrics =
        [(Metric::Ttft, 80, [50.1, 50.8, 51.9], 53.2), (Metric::E2e, 80, [680.2, 681.9, 683.0], 684.4)]
            .map(|(m, n, percentiles, max)| {
                (m.name().to_owned(), sample::distribution(m, n, percentiles, max))
            })
            .into();
    s.stalls.max_itl_ms = None;
    s.goodput = None;
    check("closed", &report(&with_findings(s), &context()));
}

#[test]
fn an_empty_run() {
    let mut s = sample::summary();
    s.counts.issued = 0;
    s.counts.ok = 0;
    s.counts.outcomes.insert("ok".into(), 0);
    s.run = None;
    s.windows.clear();
    s.connections = Connections::default();
    s.load.error_bound_ms = ErrorBound {
        ttft_unknown: Some("no answer has a first token".into()),
        itl_unknown: Some("no answer has two token events".into()),
        ..ErrorBound::default()
    };
    (s.throughput.requests_per_s, s.throughput.peak_output_tokens_per_s) = (None, None);
    (s.concurrency.mean, s.concurrency.little_ratio, s.concurrency.peak) = (None, None, 0);
    for distribution in s.metrics.values_mut() {
        distribution.n = 0;
        distribution.max = None;
        for q in distribution.percentiles.values_mut() {
            (q.value, q.low, q.high, q.support) = (None, None, None, "anecdote".into());
        }
    }
    s.stalls.max_itl_ms = None;
    s.goodput = None;
    check("empty", &report(&with_findings(s), &context()));
}

#[test]
fn a_load_says_what_its_gaps_are_held_against() {
    let unwrapped = |s: &Summary| report(s, &context()).split_whitespace().collect::<Vec<_>>().join(" ");
    let mut s = sample::summary();
    s.load.asked_rps = None;
    let text = unwrapped(&s);
    assert!(
        text.contains("open loop: asked Poisson at a changing rate, the seed scheduled 99.87/s"),
        "{text}"
    );
    s.load.gaps = None;
    let text = unwrapped(&s);
    assert!(text.contains("open loop: no rate asked"), "{text}");
    assert!(text.contains("there is no law to hold the gaps against"), "{text}");
}

/// More percentiles than fit beside each other go into a second table.
#[test]
fn many_percentiles() {
    let mut s = sample::summary();
    s.goodput = None;
    for distribution in s.metrics.values_mut() {
        let p99 = distribution.percentiles["p99"].clone();
        for (name, support) in [("p5", "ok"), ("p90", "ok"), ("p99.9", "weak"), ("p99.99", "anecdote")] {
            let mut q = p99.clone();
            q.support = support.into();
            distribution.percentiles.insert(name.into(), q);
        }
    }
    check("many_percentiles", &report(&s, &context()));
}

/// Figures of any size keep the page.
#[test]
fn no_figure_breaks_the_page() {
    for scale in [0.0, 1e-7, 1e-3, 10.0, 1e3, 1e6] {
        let mut s = trouble();
        for d in s.metrics.values_mut() {
            d.n = (d.n as f64 * scale) as u64;
            d.max = d.max.map(|max| max * scale);
            for q in d.percentiles.values_mut() {
                for value in [&mut q.value, &mut q.low, &mut q.high] {
                    *value = value.map(|value| value * scale);
                }
            }
        }
        let text = report(&s, &context()) + &rulers_table(&[s]);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}

/// The same run as three tools see it: N counts events here, and what broke off is a success there.
fn under_rulers() -> Vec<Summary> {
    let canonical = sample::summary();
    let mut vllm = canonical.clone();
    vllm.ruler = "vllm".into();
    vllm.metrics.insert("itl".into(), sample::distribution(Metric::Itl, 120_000, [21.0, 22.4, 24.9], 25.1));
    vllm.throughput.output_tokens_per_s = Some(6_280.0);
    let mut sglang = canonical.clone();
    sglang.ruler = "sglang".into();
    sglang.counts.ok = 4_010;
    sglang.tokens.output = 256_640;
    sglang.metrics.insert("ttft".into(), sample::distribution(Metric::Ttft, 200, [50.1, 50.8, 51.9], 53.2));
    sglang
        .metrics
        .insert("e2e".into(), sample::distribution(Metric::E2e, 4_010, [680.9, 682.9, 684.0], 690.4));
    let mut same = canonical.clone();
    same.ruler = "vllm-rs".into();
    vec![canonical, vllm, sglang, same]
}

#[test]
fn one_run_under_several_rulers() {
    check("rulers", &rulers_table(&under_rulers()));
    assert_eq!(rulers_table(&[]), "");
}
