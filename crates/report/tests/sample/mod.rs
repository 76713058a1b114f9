//! A summary in which every key is filled and nothing is wrong: tests change what they are about.

use goodput_core::metric::{Metric, Sample};
use goodput_core::outcome::Outcome;
use goodput_core::summary::{
    Attainment, Concurrency, Connections, Counts, Distribution, ErrorBound, GapCheck, GoodputReport,
    Lateness, LoadReport, ObjectiveReport, PercentileVerdict, Quantile, SCHEMA, Stalls, Summary, Throughput,
    Tokens, Window,
};
use goodput_core::tokens::TokenSource;
use goodput_core::truth::{ErrorSpread, TruthReport};

/// 4,000 requests of 64 tokens at 100/s against a server with TTFT 50 ms and ITL 10 ms.
pub(crate) fn summary() -> Summary {
    let metrics = [
        (Metric::Ttft, 4_000, [50.12, 50.81, 51.94], 53.2),
        (Metric::TtftSent, 4_000, [50.1, 50.8, 51.9], 53.1),
        (Metric::Tpot, 4_000, [10.01, 10.02, 10.03], 10.05),
        (Metric::Itl, 252_000, [10.0, 10.4, 10.9], 12.7),
        (Metric::ChunkGap, 252_000, [10.0, 10.4, 10.9], 12.7),
        (Metric::E2e, 4_000, [680.2, 681.9, 683.0], 684.4),
        (Metric::ClientQueue, 4_000, [0.011, 0.034, 0.081], 0.142),
        (Metric::Connect, 20, [0.091, 0.12, 0.13], 0.131),
    ];
    Summary {
        schema: SCHEMA.into(),
        run: Some("a".into()),
        ruler: "canonical".into(),
        partial: false,
        counts: counts(),
        window: window("whole", 40.71, "first start to last completion of the measured set"),
        windows: vec![window("steady", 39.9, "MSER-5 cut the first 10 of 4000 requests")],
        load: load(),
        connections: Connections {
            opened: 20,
            ready: 116,
            reused: 3_864,
            setup_ms: Some(Lateness { p50: 0.091, p99: 0.13, max: 0.131 }),
        },
        throughput: Throughput {
            requests_per_s: Some(98.26),
            input_tokens_per_s: Some(3_144.0),
            output_tokens_per_s: Some(6_288.0),
            total_tokens_per_s: Some(9_432.0),
            peak_output_tokens_per_s: Some(7_104.0),
        },
        concurrency: Concurrency { mean: Some(66.83), peak: 97, little_ratio: Some(1.0) },
        tokens: Tokens {
            input: 128_000,
            output: 256_000,
            sources: TokenSource::ALL
                .map(|source| {
                    (source.name().to_owned(), if source == TokenSource::Server { 4_000 } else { 0 })
                })
                .into(),
            chunks_per_token: Some(1.0),
            cached_input: Some(0),
            mismatched: 0,
        },
        metrics: metrics
            .map(|(m, n, percentiles, max)| (m.name().to_owned(), distribution(m, n, percentiles, max)))
            .into(),
        stalls: Stalls {
            threshold_ms: 500.0,
            count: 0,
            requests: 0,
            total_ms: 0.0,
            max_itl_ms: Some(12.7),
            max_itl_request: Some(1_234),
        },
        goodput: Some(goodput()),
        truth: None,
        findings: Vec::new(),
    }
}

/// A distribution with p50, p95 and p99; the intervals are 1 % to each side.
pub(crate) fn distribution(metric: Metric, n: u64, percentiles: [f64; 3], max: f64) -> Distribution {
    let levels = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)];
    let quantile = |value: f64, level: f64| Quantile {
        value: Some(value),
        low: Some(value * 0.99),
        high: (n as f64 * (1.0 - level) >= 4.0).then_some(value * 1.01),
        support: goodput_stats::support(n, level).name().into(),
        method: match metric.def().sample {
            Sample::Request => "linear, order statistics 95 %".into(),
            Sample::Gap | Sample::Token => "linear, time-block bootstrap 95 %, 50 blocks".into(),
        },
    };
    Distribution {
        unit: metric.def().unit.name().into(),
        sample: metric.def().sample.name().into(),
        n,
        undefined: 0,
        mean: Some(percentiles[0]),
        std: Some(0.5),
        min: Some(percentiles[0] * 0.9),
        max: Some(max),
        percentiles: levels
            .iter()
            .zip(percentiles)
            .map(|((name, level), value)| ((*name).to_owned(), quantile(value, *level)))
            .collect(),
    }
}

/// The server's own record of all requests, from which this client is some microseconds off.
pub(crate) fn truth() -> TruthReport {
    let spread = |n, client_p99, server_p99| ErrorSpread {
        n,
        p50: 0.012,
        p99: 0.031,
        max: 0.214,
        signed_p50: 0.011,
        client_p99,
        server_p99,
    };
    TruthReport {
        matched: 4_000,
        without_truth: 0,
        failed: 0,
        ambiguous: 0,
        unaligned: 0,
        server_only: 0,
        ttft_ms: Some(spread(4_000, 51.94, 51.92)),
        chunk_gap_ms: Some(spread(252_000, 10.91, 10.9)),
        server_late_ms: Some(Lateness { p50: 0.004, p99: 0.02, max: 0.31 }),
    }
}

fn counts() -> Counts {
    Counts {
        issued: 4_000,
        ok: 4_000,
        outcomes: Outcome::NAMES.map(|name| (name.to_owned(), if name == "ok" { 4_000 } else { 0 })).into(),
        censored: 0,
        warmup: 100,
        never_released: 0,
        stale_retries: 0,
    }
}

fn window(kind: &str, duration_s: f64, how: &str) -> Window {
    Window {
        kind: kind.into(),
        start_s: 1.25,
        end_s: 1.25 + duration_s,
        duration_s,
        requests: 4_000,
        how: how.into(),
    }
}

fn load() -> LoadReport {
    LoadReport {
        kind: "open".into(),
        asked_rps: Some(100.0),
        scheduled_rps: Some(99.87),
        offered_rps: Some(99.87),
        concurrency: None,
        lateness_ms: Some(Lateness { p50: 0.011, p99: 0.081, max: 0.142 }),
        read_lateness_ms: Some(Lateness { p50: 0.018, p99: 0.240, max: 3.1 }),
        error_bound_ms: ErrorBound { ttft_p99: Some(0.081), itl_p99: Some(0.0), ..ErrorBound::default() },
        gaps: Some(GapCheck {
            law: "poisson".into(),
            cv: 1.012,
            asked_cv: 1.0,
            ks: Some(0.011),
            ks_p: Some(0.71),
            resolution_ms: 0.05,
            dispersion: Some(0.984),
            dispersion_low: Some(0.491),
            dispersion_high: Some(1.747),
            dispersion_windows: Some(63),
            verdict: "pass".into(),
            reasons: Vec::new(),
        }),
        client_limited: false,
        reasons: Vec::new(),
        remedies: Vec::new(),
    }
}

fn goodput() -> GoodputReport {
    GoodputReport {
        slo: "ttft:500ms,tpot:50ms,e2e.p95:1000ms".into(),
        request_per_s: Some(98.26),
        token_per_s: Some(6_288.0),
        good: 4_000,
        evaluated: 4_000,
        attainment: Attainment { value: Some(1.0), low: Some(0.999_04), high: Some(1.0) },
        per_objective: [("ttft", 500.0), ("tpot", 50.0)]
            .map(|(metric, limit)| ObjectiveReport {
                metric: metric.into(),
                limit,
                met: 4_000,
                broken: 0,
                attainment: Some(1.0),
            })
            .into(),
        verdicts: vec![PercentileVerdict {
            objective: "e2e.p95:1000ms".into(),
            verdict: "pass".into(),
            value: Some(681.9),
            low: Some(681.7),
            high: Some(682.1),
        }],
        vacuous: 0,
        not_evaluable: 0,
        censored: 0,
        inline: false,
    }
}
