//! From figures to a verdict: which loads were measured well, and what is in the way of more. Pure.

use super::report::{Cell, Judgement, Limit, Pacing, Verdict};
use goodput_report::{count, figure};
use goodput_store::manifest::CheckedLoad;

/// Errors up to this at p99 are good, in milliseconds: what a run, too, takes as the client's fault when it is more.
const ERROR_MS: f64 = 1.0;
/// Share of the asked chunks that must have come.
const GOT_SHARE: f64 = 0.95;
/// A server that wrote later than this at p99, in milliseconds, was busy itself.
const SERVER_LATE_MS: f64 = 1.0;
/// Share of the scheduled requests that must have been sent.
const SENT_SHARE: f64 = 0.999;
/// How late requests may leave at p99, in milliseconds.
const SEND_LATE_MS: f64 = 1.0;

/// Judges a cell by its figures. A server that was late excuses the client for chunks that did not come, and for errors
/// that are no larger than its own lateness: it may have lost its core in the middle of a write.
pub(super) fn judge(mut cell: Cell) -> Cell {
    let late = cell.server_late_p99_ms.filter(|late| *late > SERVER_LATE_MS);
    let mut excused = true;
    let mut reasons = Vec::new();
    if cell.failed > 0 || cell.requests == 0 {
        excused = false;
        reasons.push(format!(
            "{} of {} requests failed",
            count(cell.failed),
            count(cell.failed + cell.requests)
        ));
    }
    for (what, spread) in [("TTFT", &cell.ttft_ms), ("ITL", &cell.itl_ms)] {
        match spread {
            None => {
                excused = false;
                reasons.push(format!("{what} could not be compared"));
            }
            Some(e) if e.p99 > ERROR_MS => {
                excused &= late.is_some_and(|late| e.p99 <= late);
                reasons.push(format!("{what} was {} ms off at p99", figure(e.p99)));
            }
            Some(_) => {}
        }
    }
    // The ends of the time that is counted can cut one chunk off each stream.
    let cut = cell.streams as f64 / cell.offered_s;
    if cell.got_chunks_per_s + cut < GOT_SHARE * cell.asked_chunks_per_s {
        excused &= late.is_some();
        let (got, asked) = (figure(cell.got_chunks_per_s), figure(cell.asked_chunks_per_s));
        reasons.push(format!("{got} chunks/s came of {asked}"));
    }
    cell.judgement = match (reasons.is_empty(), excused) {
        (true, _) => Judgement::Good,
        (false, true) => Judgement::Undecided,
        (false, false) => Judgement::Bad,
    };
    reasons.extend(late.map(|late| format!("the server itself was {} ms late at p99", figure(late))));
    cell.reasons = reasons;
    cell
}

/// Judges a row of the open loop.
pub(super) fn judge_pacing(mut row: Pacing) -> Pacing {
    let mut reasons = Vec::new();
    if (row.sent as f64) < SENT_SHARE * row.scheduled as f64 {
        reasons.push(format!("{} of {} requests were sent", count(row.sent), count(row.scheduled)));
    }
    if let Some(late) = row.late_ms.as_ref().filter(|late| late.p99 > SEND_LATE_MS) {
        reasons.push(format!("they left {} ms late at p99", figure(late.p99)));
    }
    if row.gaps.as_deref() == Some("fail") {
        reasons.push("the gaps do not follow the law".to_owned());
    }
    row.good = reasons.is_empty();
    row.reasons = reasons;
    row
}

/// The verdict over all rows. The host is fit if some load of the grid is good and the slowest open loop is kept.
pub(super) fn verdict(cells: &[Cell], pacing: &[Pacing], limits: &[Limit]) -> Verdict {
    let good = good_loads(cells);
    let slowest = pacing.iter().min_by(|a, b| a.asked_rps.total_cmp(&b.asked_rps));
    let late = slowest.filter(|row| !row.good);
    let sentence = match (good.first(), late) {
        (Some(best), None) => good_sentence(cells, &good, *best),
        (Some(_), Some(row)) => format!(
            "not fit for an open loop: at {} requests/s {}",
            figure(row.asked_rps),
            row.reasons.join(", ")
        ),
        (None, _) => nothing_good(cells),
    };
    Verdict {
        fit: !good.is_empty() && late.is_none(),
        sentence,
        good,
        remedies: remedies(cells, pacing, limits),
    }
}

/// The good loads that no other good one covers, the largest rate first.
fn good_loads(cells: &[Cell]) -> Vec<CheckedLoad> {
    let of = |cell: &Cell| CheckedLoad { streams: cell.streams, chunks_per_s: cell.got_chunks_per_s };
    let all: Vec<CheckedLoad> = cells.iter().filter(|c| c.judgement == Judgement::Good).map(of).collect();
    let covered = |load: &CheckedLoad| all.iter().any(|other| other != load && covers(*other, *load));
    let mut edge: Vec<CheckedLoad> = all.iter().copied().filter(|load| !covered(load)).collect();
    edge.sort_by(|a, b| b.chunks_per_s.total_cmp(&a.chunks_per_s));
    edge.dedup();
    edge
}

fn covers(load: CheckedLoad, other: CheckedLoad) -> bool {
    load.streams >= other.streams && load.chunks_per_s >= other.chunks_per_s
}

fn good_sentence(cells: &[Cell], good: &[CheckedLoad], best: CheckedLoad) -> String {
    let within = |error: fn(&Cell) -> Option<f64>| {
        let covered = cells.iter().filter(|cell| {
            let load = CheckedLoad { streams: cell.streams, chunks_per_s: cell.got_chunks_per_s };
            cell.judgement == Judgement::Good && covers(best, load)
        });
        figure(covered.filter_map(error).fold(0.0, f64::max))
    };
    let (ttft, itl) = (within(|cell| Some(cell.ttft_ms?.p99)), within(|cell| Some(cell.itl_ms?.p99)));
    let mut sentence =
        format!("good up to {}: TTFT within {ttft} ms, ITL within {itl} ms at p99", load_in_words(best));
    let others: Vec<String> = good[1..].iter().map(|load| load_in_words(*load)).collect();
    if !others.is_empty() {
        sentence += &format!("; also good: {}", others.join(", "));
    }
    sentence
}

fn load_in_words(load: CheckedLoad) -> String {
    let noun = if load.streams == 1 { "stream" } else { "streams" };
    format!("{} {noun} at {} chunks/s", count(load.streams), figure(load.chunks_per_s))
}

/// Why no load was good: by the smallest.
fn nothing_good(cells: &[Cell]) -> String {
    let smallest = |judgement: Judgement| {
        let of_it = cells.iter().filter(move |cell| cell.judgement == judgement);
        of_it.min_by(|a, b| a.asked_chunks_per_s.total_cmp(&b.asked_chunks_per_s))
    };
    let told = |cell: &Cell| {
        let load = CheckedLoad { streams: cell.streams, chunks_per_s: cell.asked_chunks_per_s };
        format!("already at {} {}", load_in_words(load), cell.reasons.join(", "))
    };
    match (smallest(Judgement::Bad), smallest(Judgement::Undecided)) {
        (Some(cell), _) => format!("not fit to measure: {}", told(cell)),
        (None, Some(cell)) => format!("cannot be told, since the server was late itself: {}", told(cell)),
        (None, None) => "cannot be told: nothing was measured".to_owned(),
    }
}

/// What to do to get further, most telling first.
fn remedies(cells: &[Cell], pacing: &[Pacing], limits: &[Limit]) -> Vec<String> {
    let any = |judgement| cells.iter().any(|cell| cell.judgement == judgement);
    let mut remedies = Vec::new();
    if any(Judgement::Bad) {
        remedies.push(
            "keep to the loads that were good, give this client a core that nothing else uses (--client-cpus), or share the \
             load among more machines"
                .to_owned(),
        );
    }
    if any(Judgement::Undecided) {
        remedies.push(
            "the built-in server was late itself: give it a core of its own (--server-cpus, and another for \
             --client-cpus) to learn more of the client"
                .to_owned(),
        );
    }
    if pacing.iter().any(|row| !row.good) {
        remedies.push(
            "arrivals that must be kept to the millisecond want a core that nothing else uses".to_owned(),
        );
    }
    remedies.extend(
        limits.iter().filter(|l| l.warning).map(|l| format!("{} ({}): {}", l.name, l.value, l.effect)),
    );
    remedies
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::summary::Lateness;
    use goodput_core::truth::ErrorSpread;

    fn spread(p99: f64) -> ErrorSpread {
        ErrorSpread {
            n: 100,
            p50: p99 / 2.0,
            p99,
            max: p99 * 2.0,
            signed_p50: 0.0,
            client_p99: 10.0,
            server_p99: 10.0,
        }
    }

    /// Streams, rate of each, error of TTFT and of ITL; everything that was asked for came.
    fn cell(streams: u64, rate: f64, ttft: f64, itl: f64) -> Cell {
        let asked = streams as f64 * rate;
        Cell {
            streams,
            rate_per_stream: rate,
            offered_s: 4.0,
            asked_chunks_per_s: asked,
            got_chunks_per_s: asked,
            requests: 100,
            failed: 0,
            ttft_ms: Some(spread(ttft)),
            itl_ms: Some(spread(itl)),
            read_late_p99_ms: Some(0.1),
            server_late_p99_ms: Some(0.02),
            cores_used: 0.5,
            cpu_us_per_chunk: Some(5.0),
            judgement: Judgement::Bad,
            reasons: Vec::new(),
        }
    }

    fn row(asked_rps: f64, late_p99: f64) -> Pacing {
        judge_pacing(Pacing {
            asked_rps,
            scheduled_rps: Some(asked_rps),
            sent_rps: Some(asked_rps),
            scheduled: 1_000,
            sent: 1_000,
            late_ms: Some(Lateness { p50: 0.01, p99: late_p99, max: 3.0 }),
            gaps: Some("pass".to_owned()),
            good: false,
            reasons: Vec::new(),
        })
    }

    fn judged(cells: impl IntoIterator<Item = Cell>) -> Vec<Cell> {
        cells.into_iter().map(judge).collect()
    }

    #[test]
    fn a_cell_is_judged_by_its_errors_and_by_what_came() {
        let judgement = |cell: Cell| judge(cell).judgement;
        assert_eq!(judgement(cell(64, 100.0, 1.0, 1.0)), Judgement::Good);
        assert_eq!(judgement(cell(64, 100.0, 1.01, 0.1)), Judgement::Bad);
        assert_eq!(judgement(cell(64, 100.0, 0.1, 1.01)), Judgement::Bad);
        assert_eq!(
            judgement(Cell { got_chunks_per_s: 6_064.0, ..cell(64, 100.0, 0.1, 0.1) }),
            Judgement::Good
        );
        assert_eq!(
            judgement(Cell { got_chunks_per_s: 6_063.0, ..cell(64, 100.0, 0.1, 0.1) }),
            Judgement::Bad
        );
        assert_eq!(judgement(Cell { failed: 1, ..cell(64, 100.0, 0.1, 0.1) }), Judgement::Bad);
        assert_eq!(judgement(Cell { itl_ms: None, ..cell(64, 100.0, 0.1, 0.1) }), Judgement::Bad);
    }

    #[test]
    fn a_late_server_is_named_and_its_cell_blames_nobody() {
        let late = |ttft| judge(Cell { server_late_p99_ms: Some(4.2), ..cell(1_000, 100.0, ttft, 0.1) });
        assert_eq!(
            late(0.1).judgement,
            Judgement::Good,
            "errors are against what the server did, late or not"
        );
        assert_eq!(late(4.2).judgement, Judgement::Undecided);
        assert_eq!(late(5.0).judgement, Judgement::Bad, "more than the server's own lateness explains");
        let slow = judge(Cell {
            got_chunks_per_s: 50_000.0,
            server_late_p99_ms: Some(500.0),
            ..cell(1_000, 100.0, 0.1, 0.1)
        });
        assert_eq!(
            slow.judgement,
            Judgement::Undecided,
            "a server that is behind does not give what was asked"
        );
        assert_eq!(
            late(5.0).reasons,
            ["TTFT was 5.000 ms off at p99", "the server itself was 4.200 ms late at p99"]
        );
    }

    #[test]
    fn the_sentence_names_the_largest_good_load_and_its_errors() {
        let cells = judged([
            cell(1, 100.0, 0.02, 0.01),
            cell(64, 100.0, 0.03, 0.04),
            cell(256, 100.0, 0.05, 0.02),
            cell(1_000, 10.0, 0.9, 0.3),
            cell(1_000, 100.0, 7.0, 3.0),
        ]);
        let verdict = verdict(&cells, &[row(400.0, 0.1), row(2_000.0, 2.0)], &[]);
        assert!(verdict.fit, "the faster open loop is told and does not decide");
        assert_eq!(
            verdict.sentence,
            "good up to 256 streams at 25,600 chunks/s: TTFT within 0.050 ms, ITL within 0.040 ms at p99; also good: \
             1,000 streams at 10,000 chunks/s"
        );
        let load = |streams, chunks_per_s| CheckedLoad { streams, chunks_per_s };
        assert_eq!(verdict.good, [load(256, 25_600.0), load(1_000, 10_000.0)]);
        assert_eq!(verdict.remedies.len(), 2, "{:?}", verdict.remedies);
    }

    #[test]
    fn one_good_stream_is_one_stream() {
        let verdict = verdict(&judged([cell(1, 10.0, 0.0, 0.0)]), &[], &[]);
        assert_eq!(
            verdict.sentence,
            "good up to 1 stream at 10.00 chunks/s: TTFT within 0 ms, ITL within 0 ms at p99"
        );
        assert!(verdict.fit && verdict.remedies.is_empty());
    }

    #[test]
    fn a_host_that_is_not_fit_says_why() {
        let bad = judged([cell(64, 100.0, 9.0, 0.1), cell(1, 10.0, 2.0, 0.1)]);
        let unfit = verdict(&bad, &[row(400.0, 0.1)], &[]);
        assert!(!unfit.fit && unfit.good.is_empty());
        let told = "not fit to measure: already at 1 stream at 10.00 chunks/s TTFT was 2.000 ms off at p99";
        assert_eq!(unfit.sentence, told);

        let late = judged([Cell { server_late_p99_ms: Some(9.0), ..cell(1, 10.0, 2.0, 0.1) }]);
        let unknown = verdict(&late, &[], &[]);
        assert!(
            !unknown.fit && unknown.sentence.starts_with("cannot be told, since the server was late itself")
        );
        assert!(unknown.remedies[0].contains("--server-cpus"));

        let unkept = verdict(&judged([cell(1, 10.0, 0.1, 0.1)]), &[row(2_000.0, 0.1), row(400.0, 1.5)], &[]);
        assert!(!unkept.fit);
        assert_eq!(
            unkept.sentence,
            "not fit for an open loop: at 400.0 requests/s they left 1.500 ms late at p99"
        );
        assert_eq!(verdict(&[], &[], &[]).sentence, "cannot be told: nothing was measured");
    }

    #[test]
    fn arrivals_must_be_sent_in_time_and_by_the_law() {
        let reasons = |row: Pacing| judge_pacing(row).reasons;
        assert!(row(400.0, 1.0).good);
        assert_eq!(reasons(Pacing { sent: 998, ..row(400.0, 0.1) }), ["998 of 1,000 requests were sent"]);
        assert_eq!(reasons(Pacing { sent: 999, ..row(400.0, 0.1) }), [] as [&str; 0]);
        let unlawful = Pacing { gaps: Some("fail".to_owned()), ..row(400.0, 0.1) };
        assert_eq!(reasons(unlawful), ["the gaps do not follow the law"]);
    }

    #[test]
    fn what_the_host_warns_of_is_among_the_remedies() {
        let limit = |warning| Limit {
            name: "steal".to_owned(),
            value: "12 %".to_owned(),
            effect: "ask for a core of your own".to_owned(),
            warning,
        };
        let verdict = verdict(&judged([cell(1, 10.0, 0.1, 0.1)]), &[], &[limit(true), limit(false)]);
        assert_eq!(verdict.remedies, ["steal (12 %): ask for a core of your own"]);
    }
}
