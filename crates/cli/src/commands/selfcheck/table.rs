//! The self-check as text: tables of what was measured, what this host allows, and the verdict. At most 100 columns.

use super::report::{Ceiling, Cell, Judgement, Limit, Pacing, Report};
use goodput_core::truth::ErrorSpread;
use goodput_report::{count, figure, paragraph, table};

/// The mark of a load that was measured well while the server itself was late.
const GOOD_BUT: &str = "good*";

/// The whole report, ending with a newline.
pub(super) fn text(report: &Report) -> String {
    let sections = [
        head(report),
        grid(&report.cells),
        pacing(&report.pacing),
        ceiling(&report.ceiling),
        facts(report),
        limits(&report.limits),
        verdict(report),
    ];
    let written: Vec<String> = sections.into_iter().filter(|section| !section.is_empty()).collect();
    written.join("\n")
}

fn head(report: &Report) -> String {
    let pinned = |who: &str, cpus: &Option<String>| {
        cpus.as_ref().map_or_else(|| format!("{who} not pinned"), |cpus| format!("{who} on CPU {cpus}"))
    };
    let kind = if report.quick { "quick self-check" } else { "self-check" };
    let line = format!(
        "{kind} of this host against the built-in exact server, in {:.1} s; {}, {}",
        report.took_s,
        pinned("server", &report.server_cpus),
        pinned("client", &report.client_cpus)
    );
    paragraph("goodput     ", &line)
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), figure)
}

fn row(cells: impl IntoIterator<Item = impl Into<String>>) -> Vec<String> {
    cells.into_iter().map(Into::into).collect()
}

fn grid(cells: &[Cell]) -> String {
    if cells.is_empty() {
        return String::new();
    }
    let error = |e: Option<ErrorSpread>| {
        e.map_or_else(|| "-".to_owned(), |e| [e.p50, e.p99, e.max].map(short).join("/"))
    };
    let late = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), short);
    let head = ["load", "asked", "got", "TTFT error", "ITL error", "read", "server", "cores", "us", ""];
    let rows = cells.iter().map(|cell| {
        row([
            load(cell),
            figure(cell.asked_chunks_per_s),
            figure(cell.got_chunks_per_s),
            error(cell.ttft_ms),
            error(cell.itl_ms),
            late(cell.read_late_p99_ms),
            late(cell.server_late_p99_ms),
            short(cell.cores_used),
            optional(cell.cpu_us_per_chunk),
            mark(cell).to_owned(),
        ])
    });
    let mut text = table(&std::iter::once(row(head)).chain(rows).collect::<Vec<_>>());
    text += &paragraph(
        "",
        "Closed loop, streams x tokens/s of each; chunks/s asked and got. Errors against the server's own truth, \
         p50/p99/max in ms; lateness of reading and of the server p99 in ms (a late server is in both sides of an \
         error); cores used by the client and its CPU time per chunk in us, everything kept.",
    );
    if cells.iter().any(|cell| mark(cell) == GOOD_BUT) {
        text += &paragraph(
            "  ",
            &format!("{GOOD_BUT}: although the server itself was more than a millisecond late"),
        );
    }
    for cell in cells.iter().filter(|cell| cell.judgement != Judgement::Good) {
        text += &paragraph("  ", &format!("{}: {}", load(cell), cell.reasons.join("; ")));
    }
    text
}

fn load(cell: &Cell) -> String {
    format!("{} x {}", count(cell.streams), cell.rate_per_stream)
}

/// Three digits at most, for columns that are narrow.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v < 0.000_5 => "<.001".to_owned(),
        v if v < 0.095 => format!("{value:.3}"),
        v if v < 9.95 => format!("{value:.2}"),
        v if v < 99.5 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn mark(cell: &Cell) -> &'static str {
    match cell.judgement {
        Judgement::Good if cell.reasons.is_empty() => "good",
        Judgement::Good => GOOD_BUT,
        Judgement::Undecided => "?",
        Judgement::Bad => "BAD",
    }
}

fn pacing(rows: &[Pacing]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let head = ["Poisson/s", "scheduled", "sent", "late p50", "p99", "max", "gaps", ""];
    let lines = rows.iter().map(|r| {
        let late = |of: fn(&goodput_core::summary::Lateness) -> f64| optional(r.late_ms.as_ref().map(of));
        row([
            figure(r.asked_rps),
            format!("{} ({}/s)", count(r.scheduled), optional(r.scheduled_rps)),
            format!("{} ({}/s)", count(r.sent), optional(r.sent_rps)),
            late(|late| late.p50),
            late(|late| late.p99),
            late(|late| late.max),
            r.gaps.clone().unwrap_or_else(|| "-".to_owned()),
            if r.good { "good".to_owned() } else { "BAD".to_owned() },
        ])
    });
    let mut text = table(&std::iter::once(row(head)).chain(lines).collect::<Vec<_>>());
    text += &paragraph("", "Open loop. Sent minus scheduled in ms; whether the gaps follow the law.");
    for r in rows.iter().filter(|r| !r.good) {
        text += &paragraph("  ", &format!("{}/s: {}", figure(r.asked_rps), r.reasons.join("; ")));
    }
    text
}

fn ceiling(rows: &[Ceiling]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let head = ["ceiling", "streams", "chunks/s", "got", "cores", "us/chunk", "ITL p99", "server late"];
    let lines = rows.iter().map(|r| {
        row([
            r.kind.clone(),
            count(r.streams),
            r.asked_chunks_per_s.map_or_else(|| "all".to_owned(), figure),
            figure(r.got_chunks_per_s),
            figure(r.cores_used),
            optional(r.cpu_us_per_chunk),
            optional(r.itl_p99_ms),
            optional(r.server_late_p99_ms),
        ])
    });
    let mut text = table(&std::iter::once(row(head)).chain(lines).collect::<Vec<_>>());
    for r in rows {
        text += &paragraph("  ", &format!("{}: limited by {}", r.kind, r.limited_by));
    }
    text
}

fn facts(report: &Report) -> String {
    let (stamps, timer) = (&report.stamps, &report.timer);
    let share = stamps.kernel_share.map_or_else(String::new, |share| {
        format!(" ({:.1} % of the reads have the kernel's)", share * 100.0)
    });
    let effect = if stamps.source == "kernel" {
        "reading late is in no latency"
    } else {
        "reading late is in every latency: trust differences down to `read late`"
    };
    paragraph("stamps      ", &format!("{}{share}: {effect}", stamps.source))
        + &paragraph(
            "timer       ",
            &format!(
                "wakes p50 {}, p99 {}, max {} us late ({} waits of 1 ms, no load)",
                figure(timer.late_p50_us),
                figure(timer.late_p99_us),
                figure(timer.late_max_us),
                count(timer.n)
            ),
        )
}

fn limits(limits: &[Limit]) -> String {
    let line = |limit: &Limit| {
        let mark = if limit.warning { "  ! " } else { "    " };
        paragraph(mark, &format!("{}: {}; {}", limit.name, limit.value, limit.effect))
    };
    let lines: String = limits.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("this host\n{lines}") }
}

fn verdict(report: &Report) -> String {
    let word = if report.verdict.fit { "verdict     " } else { "NOT FIT     " };
    let mut text = paragraph(word, &report.verdict.sentence);
    for remedy in &report.verdict.remedies {
        text += &paragraph("         -> ", remedy);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::selfcheck::report::{HostKey, SCHEMA, Stamps, Timer};
    use crate::commands::selfcheck::verdict;
    use goodput_core::summary::Lateness;
    use goodput_store::manifest::Host;

    fn cell(streams: u64, itl_p99: f64) -> Cell {
        let spread = |p99| ErrorSpread {
            n: 75_000,
            p50: 0.012,
            p99,
            max: 12.5,
            signed_p50: 0.01,
            client_p99: 10.1,
            server_p99: 10.0,
        };
        verdict::judge(Cell {
            streams,
            rate_per_stream: 100.0,
            offered_s: 3.0,
            asked_chunks_per_s: streams as f64 * 100.0,
            got_chunks_per_s: streams as f64 * 99.8,
            requests: 12_000,
            failed: 0,
            ttft_ms: Some(spread(0.04)),
            itl_ms: Some(spread(itl_p99)),
            read_late_p99_ms: Some(1_234.5),
            server_late_p99_ms: Some(2.5),
            cores_used: 0.512,
            cpu_us_per_chunk: Some(5.43),
            judgement: Judgement::Bad,
            reasons: Vec::new(),
        })
    }

    fn report() -> Report {
        let cells = vec![cell(64, 0.02), cell(1_000, 3.2)];
        let pacing = vec![verdict::judge_pacing(Pacing {
            asked_rps: 2_000.0,
            scheduled_rps: Some(2_010.4),
            sent_rps: Some(2_010.4),
            scheduled: 6_031,
            sent: 6_031,
            late_ms: Some(Lateness { p50: 0.03, p99: 0.2, max: 3.0 }),
            gaps: Some("pass".to_owned()),
            good: false,
            reasons: Vec::new(),
        })];
        let limits = vec![Limit {
            name: "steal".to_owned(),
            value: "3.0 % of the CPU time of the check".to_owned(),
            effect: "repeat at a calmer time".to_owned(),
            warning: true,
        }];
        Report {
            schema: SCHEMA.to_owned(),
            host: HostKey::of(&Host::default()),
            at_unix_s: 0,
            quick: true,
            took_s: 9.8,
            server_cpus: Some("0".to_owned()),
            client_cpus: None,
            verdict: verdict::verdict(&cells, &pacing, &limits),
            cells,
            pacing,
            ceiling: vec![Ceiling {
                kind: "batched".to_owned(),
                streams: 64,
                asked_chunks_per_s: None,
                got_chunks_per_s: 412_345.0,
                cores_used: 1.2,
                cpu_us_per_chunk: Some(2.1),
                itl_p99_ms: None,
                server_late_p99_ms: None,
                limited_by: "this client (receive threads 97 % busy)".to_owned(),
            }],
            stamps: Stamps { source: "kernel".to_owned(), kernel_share: Some(1.0) },
            timer: Timer { n: 300, late_p50_us: 3.0, late_p99_us: 60.0, late_max_us: 400.0 },
            limits,
        }
    }

    /// The text without its lines and columns.
    fn words(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn everything_that_was_found_is_said_within_the_width() {
        let text = text(&report());
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        }
        for said in [
            "quick self-check",
            "server on CPU 0, client not pinned",
            "0.012/3.20/12.5",
            "the server itself was 2.500 ms late at p99",
            "good*: although the server itself was more than a millisecond late",
            "1,000 x 100: ITL was 3.200 ms off at p99",
            "6,031 (2,010/s)",
            "batched: limited by this client (receive threads 97 % busy)",
            "kernel (100.0 % of the reads have the kernel's): reading late is in no latency",
            "p99 60.00",
            "! steal",
            "verdict good up to 64 streams at 6,387 chunks/s",
        ] {
            assert!(words(&text).contains(said), "no `{said}` in\n{text}");
        }
    }

    #[test]
    fn a_host_that_is_not_fit_is_called_so() {
        let mut report = report();
        report.verdict.fit = false;
        report.stamps.source = "user space".to_owned();
        let text = text(&report);
        assert!(text.contains("NOT FIT     ") && text.contains("reading late is in every latency"), "{text}");
    }
}
