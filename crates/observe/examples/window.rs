//! Reads two pages of one server and prints what every histogram of the later one did in between, a line of JSON a
//! series: `window BEFORE AFTER text|openmetrics Q...`. An empty file as BEFORE makes it the page since the start.
//!
//! The line without labels, where there are several series, is all of them pooled.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the lines are the output")]

use goodput_observe::delta::Scrapes;
use goodput_observe::expose::{Format, Kind, Labels, Page, read};
use goodput_observe::histogram::{Bounds, Histogram};
use serde_json::{Value, json};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("window: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let [before, after, format, qs @ ..] = arguments else {
        return Err("usage: window BEFORE AFTER text|openmetrics Q...".to_owned());
    };
    let format = match format.as_str() {
        "text" => Format::Text,
        "openmetrics" => Format::OpenMetrics,
        other => return Err(format!("expected text or openmetrics, found {other:?}")),
    };
    let qs: Result<Vec<f64>, _> = qs.iter().map(|q| q.parse()).collect();
    let qs = qs.map_err(|_| "expected numbers from 0 to 1 as quantiles".to_owned())?;
    let (before, after) = (page(before, format)?, page(after, format)?);
    let scrapes = Scrapes::new(&before, &after);
    for family in after.families.iter().filter(|family| family.kind == Kind::Histogram) {
        let deltas = match scrapes.histograms(&family.name) {
            Ok(deltas) => deltas,
            Err(error) => {
                println!("{}", json!({"family": family.name, "error": error.to_string()}));
                continue;
            }
        };
        for (labels, delta) in &deltas.series {
            println!("{}", line(&family.name, Some(labels), &delta.value, &qs));
        }
        let pooled = Histogram::pooled(deltas.series.values().map(|delta| &delta.value));
        if let (Ok(Some(pooled)), 2..) = (pooled, deltas.series.len()) {
            println!("{}", line(&family.name, None, &pooled, &qs));
        }
    }
    Ok(())
}

fn page(path: &str, format: Format) -> Result<Page, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    if bytes.is_empty() {
        return Ok(Page { format, families: Vec::new() });
    }
    read(&bytes, format).whole().map_err(|fault| format!("{path}: {fault}"))
}

fn line(family: &str, labels: Option<&Labels>, histogram: &Histogram, qs: &[f64]) -> Value {
    let labels: Option<serde_json::Map<String, Value>> =
        labels.map(|labels| labels.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect());
    let quantiles: Vec<_> = qs.iter().map(|&q| quantile(histogram, q)).collect();
    json!({
        "family": family,
        "labels": labels,
        "count": histogram.count(),
        "mean": histogram.mean(),
        "quantiles": quantiles,
    })
}

fn quantile(histogram: &Histogram, q: f64) -> Value {
    match histogram.quantile(q) {
        Err(error) => json!({"q": q, "interpolated": null, "why": error.to_string()}),
        Ok(found) => {
            let at_floor = matches!(found.bounds, Bounds::UpTo { .. });
            json!({
                "q": q,
                "interpolated": found.interpolated,
                "above": found.bounds.lower(),
                "up_to": found.bounds.upper(),
                "below_the_floor": at_floor,
            })
        }
    }
}
