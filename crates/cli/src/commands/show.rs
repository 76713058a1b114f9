//! `goodput show`: a stored run again, under any ruler.

use crate::args::ShowArgs;
use crate::commands::explain::find_ruler;
use crate::exit::{Exit, Failure};
use crate::printer::Printer;
use crate::reading::Reading;
use goodput_core::plan::HttpVersion;
use goodput_core::ruler::RULERS;
use goodput_report::text;
use goodput_store::layout::utc_date;
use goodput_store::manifest::{Client, Manifest};
use goodput_store::reader::RunReader;

/// Prints the run's report, or one table with all rulers.
pub(crate) fn run(args: &ShowArgs, printer: Printer) -> Result<Exit, Failure> {
    let run = RunReader::open(&args.run).map_err(|e| Failure::input(e.to_string()))?;
    let reading = Reading::resolve(&args.reading, Some(run.manifest()))?;
    if run.run().chosen_among() > 1 {
        let (path, among) = (run.run().path().display(), run.run().chosen_among());
        printer.notice(format_args!("showing {path}, the newest of {among} runs"));
    }
    if args.rulers {
        return all_rulers(args, &reading, &run, printer);
    }
    let mut summary = reading.summary(&run, find_ruler(&args.reading.ruler)?)?;
    summary.truth = reading.truth(&run)?;
    if args.json {
        printer.result(to_json(&summary)?);
    } else {
        printer.raw(&text::report(&summary, &text_context(&run)));
    }
    Ok(Exit::Done)
}

fn all_rulers(
    args: &ShowArgs,
    reading: &Reading,
    run: &RunReader,
    printer: Printer,
) -> Result<Exit, Failure> {
    let mut summaries = RULERS.iter().map(|r| reading.summary(run, r)).collect::<Result<Vec<_>, _>>()?;
    let truth = reading.truth(run)?;
    summaries.iter_mut().for_each(|summary| summary.truth.clone_from(&truth));
    if args.json {
        printer.result(to_json(&summaries)?);
    } else {
        printer.raw(&text::rulers_table(&summaries));
    }
    Ok(Exit::Done)
}

/// Indented JSON.
pub(crate) fn to_json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map_err(|e| Failure::invalid(format!("cannot write JSON: {e}")))
}

/// What the report says about the run beside its numbers.
pub(crate) fn text_context(run: &RunReader) -> text::ReportContext {
    let (manifest, plan) = (run.manifest(), run.plan());
    text::ReportContext {
        path: Some(run.run().path().display().to_string()),
        url: manifest.asked.urls.join(", "),
        protocol: plan.target.protocol.name().to_owned(),
        model: plan.target.model.clone(),
        engine: manifest.engine.name.clone(),
        engine_version: manifest.engine.version.clone(),
        partial: run.why_partial(),
        goodput: manifest.goodput.clone(),
        client: client_line(&manifest.client),
        ready: ready_connections(&manifest.client),
        // A simulated run has no client to check.
        self_check: (!plan.target.is_simulated()).then(|| self_check_line(manifest)),
    }
}

/// What a self-check had said of the host before the run was made.
fn self_check_line(manifest: &Manifest) -> String {
    let Some(check) = &manifest.self_check else {
        return "no self-check of this host yet: goodput selfcheck".to_owned();
    };
    let quick = if check.quick { ", a quick one" } else { "" };
    // It takes the path of plain HTTP/1.1, and HTTP/2 goes another.
    let path = if manifest.asked.http == HttpVersion::Http2 { " (over HTTP/1.1)" } else { "" };
    format!("of this host on {}{quick}{path}: {}", utc_date(check.at_unix_s), check.verdict)
}

fn ready_connections(client: &Client) -> Option<text::ReadyConnections> {
    Some(text::ReadyConnections {
        count: client.warm_connections.filter(|count| *count > 0)?,
        p50_ms: client.connect_p50_ms,
        p99_ms: client.connect_p99_ms,
        max_ms: client.connect_max_ms,
    })
}

/// What the client did beside sending: the figures by which it is judged itself.
fn client_line(client: &Client) -> Option<String> {
    let mut parts = Vec::new();
    if let (Some(reads), Some(stamped)) = (client.reads, client.stamped_reads)
        && reads > 0
    {
        let share = 100.0 * stamped as f64 / reads as f64;
        parts.push(format!("{share:.0} % of reads with kernel stamps"));
    }
    parts.extend(client.cores_used.map(|cores| format!("{cores:.2} cores used")));
    (!parts.is_empty()).then(|| parts.join("; "))
}
