//! Theory beside simulation, as JSON and as text.

use super::Queue;
use super::figures::{METHOD, Mean, Seen};
use super::theory::{Theory, one_limit};
use goodput_core::slo::Slo;
use goodput_core::summary::{Quantile, Summary};
use goodput_report::{count, figure, paragraph, table};
use serde::Serialize;

/// Everything that is printed.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Always true: nothing here was measured on a server.
    simulated: bool,
    queue: Described,
    requests: u64,
    warmup: u64,
    seed: u64,
    /// Simulated seconds from the first arrival on to the last departure.
    virtual_s: f64,
    figures: Vec<Figure>,
    /// lambda W by the client's account over L by the line's own.
    little_ratio: f64,
    /// The summary of every run, under the canonical ruler: TTFT is the wait, ITL the service, E2E the residence.
    summary: Summary,
}

/// The queue that was asked for.
#[derive(Debug, Serialize)]
struct Described {
    notation: String,
    rate_rps: f64,
    service_ms: f64,
    service_law: &'static str,
    service_cv: f64,
    servers: u32,
    burstiness: f64,
    arrivals_cv: f64,
    rho: f64,
}

/// One figure by theory and as seen.
#[derive(Debug, Serialize)]
struct Figure {
    name: &'static str,
    /// `ms`, `share` or `requests/s`.
    unit: &'static str,
    /// `null` where there is no formula.
    theory: Option<f64>,
    /// `exact` or `approximation of the mean`; `null` without theory.
    kind: Option<&'static str>,
    /// The theory's name.
    source: Option<&'static str>,
    simulated: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    /// How the interval was made.
    method: Option<String>,
}

impl Report {
    pub(super) fn new(
        queue: &Queue,
        theory: &Theory,
        seen: &Seen,
        summary: Summary,
        slo: Option<&Slo>,
    ) -> Self {
        let within = slo.and_then(one_limit).and_then(|(metric, limit)| seen.share_within(metric, limit));
        Self {
            simulated: true,
            queue: Described {
                notation: theory.notation.clone(),
                rate_rps: queue.rate,
                service_ms: queue.service.as_millis_f64(),
                service_law: queue.law.name(),
                service_cv: queue.law.squared_cv().sqrt(),
                servers: queue.servers,
                burstiness: queue.burstiness,
                arrivals_cv: queue.burstiness.sqrt().recip(),
                rho: theory.rho,
            },
            requests: queue.requests,
            warmup: queue.warmup,
            seed: queue.seed.0,
            virtual_s: seen.end.as_secs_f64(),
            figures: figures(queue, theory, seen, &summary, within),
            little_ratio: seen.little_ratio(),
            summary,
        }
    }
}

impl Figure {
    /// Nothing known yet.
    fn new(name: &'static str, unit: &'static str) -> Self {
        Self {
            name,
            unit,
            theory: None,
            kind: None,
            source: None,
            simulated: None,
            low: None,
            high: None,
            method: None,
        }
    }

    /// By an exact formula, if there is one.
    fn exact(self, theory: Option<f64>, source: &'static str) -> Self {
        let known = |text| theory.map(|_| text);
        Self { theory, kind: known("exact"), source: known(source), ..self }
    }

    /// As seen, `scale` of the figure's unit to one of the mean's.
    fn seen(self, mean: Mean, scale: f64) -> Self {
        Self {
            simulated: Some(mean.value * scale),
            low: mean.interval.map(|interval| interval.low * scale),
            high: mean.interval.map(|interval| interval.high * scale),
            method: mean.interval.map(|_| METHOD.to_owned()),
            ..self
        }
    }

    /// As the summary has it, with the ends of an interval of batch means.
    fn counted(self, value: Option<f64>, ends: Option<(f64, f64)>) -> Self {
        let method = ends.map(|_| METHOD.to_owned());
        Self {
            simulated: value,
            low: ends.map(|(low, _)| low),
            high: ends.map(|(_, high)| high),
            method,
            ..self
        }
    }

    /// As the summary has it.
    fn percentile(self, quantile: Option<&Quantile>) -> Self {
        let Some(q) = quantile else { return self };
        Self { simulated: q.value, low: q.low, high: q.high, method: Some(q.method.clone()), ..self }
    }
}

/// `within` is the share within the SLO's one limit, where it is such a one.
fn figures(
    queue: &Queue,
    theory: &Theory,
    seen: &Seen,
    summary: &Summary,
    within: Option<Mean>,
) -> Vec<Figure> {
    let ms = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1e3);
    let source = theory.source;
    let residence = theory.mean_wait.map(|wait| wait + queue.service.as_secs_f64());
    let percentile = |name: &str| summary.metrics.get("e2e").and_then(|e2e| e2e.percentiles.get(name));
    let mut figures = vec![
        Figure::new("mean_wait", "ms").exact(ms(theory.mean_wait), source).seen(seen.mean_wait(), 1e3),
        Figure::new("mean_residence", "ms").exact(ms(residence), source).seen(seen.mean_residence(), 1e3),
        Figure::new("p_wait", "share").exact(theory.p_wait, source).seen(seen.p_wait(), 1.0),
        Figure::new("residence_p50", "ms")
            .exact(ms(theory.p50_residence), source)
            .percentile(percentile("p50")),
        Figure::new("residence_p99", "ms")
            .exact(ms(theory.p99_residence), source)
            .percentile(percentile("p99")),
    ];
    if let Some((name, wait)) = theory.approximate_mean_wait {
        let approximate = Figure {
            theory: Some(wait * 1e3),
            kind: Some("approximation of the mean"),
            source: Some(name),
            ..Figure::new("mean_wait_approximation", "ms").seen(seen.mean_wait(), 1e3)
        };
        figures.insert(1, approximate);
    }
    if let Some(goodput) = &summary.goodput {
        let rate = theory.attainment.map(|share| share * queue.rate);
        let interval = |scale: Option<f64>| {
            let ends = within.and_then(|within| within.interval).zip(scale);
            ends.map(|(interval, scale)| (interval.low * scale, interval.high * scale))
        };
        figures.push(
            Figure::new("attainment", "share")
                .exact(theory.attainment, source)
                .counted(goodput.attainment.value, interval(Some(1.0))),
        );
        figures.push(
            Figure::new("goodput", "requests/s")
                .exact(rate, source)
                .counted(goodput.request_per_s, interval(summary.throughput.requests_per_s)),
        );
    }
    figures
}

/// The report as text.
pub(super) fn text(report: &Report) -> String {
    let q = &report.queue;
    let mut text = paragraph("SIMULATED   ", "a textbook queue in virtual time; no server was measured");
    text += &paragraph(
        "queue       ",
        &format!(
            "{}: {} arrivals/s (CV {}), {} service of {} ms (CV {}), {} server{}, rho {}",
            q.notation,
            figure(q.rate_rps),
            figure(q.arrivals_cv),
            q.service_law,
            figure(q.service_ms),
            figure(q.service_cv),
            count(q.servers.into()),
            if q.servers == 1 { "" } else { "s" },
            figure(q.rho)
        ),
    );
    text += &paragraph(
        "requests    ",
        &format!(
            "{} after {} for warm-up, seed {}, {} simulated seconds",
            count(report.requests),
            count(report.warmup),
            report.seed,
            figure(report.virtual_s)
        ),
    );
    if let Some(goodput) = &report.summary.goodput {
        text += &paragraph("SLO         ", &goodput.slo);
    }
    let head = ["", "unit", "theory", "simulated", "95 % interval", "theory by"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(report.figures.iter().map(row)).collect();
    text += "\n";
    text += &table(&rows);
    text += "\n";
    let little = format!("lambda W by the client over L by the line: {}", figure(report.little_ratio));
    text += &paragraph("Little      ", &little);
    text += &paragraph("intervals   ", &methods(&report.figures));
    text
}

fn row(f: &Figure) -> Vec<String> {
    let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), figure);
    let interval = match (f.low, f.high) {
        (None, None) => "-".to_owned(),
        (low, high) => format!("[{}, {}]", shown(low), shown(high)),
    };
    let by = match (f.source, f.kind) {
        (Some(source), Some("exact")) => source.to_owned(),
        (Some(source), Some(_)) => format!("{source} (approximate mean)"),
        _ => "no formula".to_owned(),
    };
    let title = f.name.replace('_', " ");
    vec![title, f.unit.to_owned(), shown(f.theory), shown(f.simulated), interval, by]
}

/// Each way of making an interval once.
fn methods(figures: &[Figure]) -> String {
    let mut methods: Vec<&str> = Vec::new();
    for method in figures.iter().filter_map(|f| f.method.as_deref()) {
        if !methods.contains(&method) {
            methods.push(method);
        }
    }
    methods.join("; ")
}
