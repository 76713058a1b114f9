//! The second pass: samples and counts of the requests in the window.

use super::SummaryRequest;
use super::distribution::distribution;
use crate::facts::Fact;
use crate::goodput::Tally;
use crate::interval::{Gathered, Gathering, IntervalMethod, TimeCut};
use crate::load_check::{self, LoadKind};
use crate::metric::{METRICS, Metric, Sample};
use crate::outcome::Outcome;
use crate::reading::{Reading, ReadingReport};
use crate::ruler::{Measures, StartRule};
use crate::slo::Judged;
use crate::summary::{Counts, Distribution, GoodputReport, Stalls, Tokens};
use crate::throughput::PeakOutput;
use crate::time::Nanos;
use crate::timeline::Timeline;
use crate::tokens::TokenSource;
use crate::window::Span;
use std::collections::BTreeMap;

/// Metrics that are always listed, with n = 0 where nothing was measured.
const ALWAYS: [Metric; 13] = [
    Metric::Ttft,
    Metric::Ttfa,
    Metric::FirstChunk,
    Metric::Tpot,
    Metric::Itl,
    Metric::ChunkGap,
    Metric::MaxItl,
    Metric::E2e,
    Metric::E2eClosed,
    Metric::NormalisedLatency,
    Metric::Headers,
    Metric::OutputTokens,
    Metric::InputTokens,
];

/// Everything the second pass gathers.
pub(super) struct Pools<'a> {
    request: &'a SummaryRequest<'a>,
    span: Span,
    cut: TimeCut,
    /// By metric.
    gatherings: Vec<Gathering>,
    /// What is both an ITL sample and a chunk gap: of requests in which every chunk is a token, all of them.
    both: Gathering,
    /// ITL samples and chunk gaps of one request.
    one: [Vec<(f64, u64)>; 2],
    reading: Reading,
    /// The smallest time after which a request was given up.
    censored_from: Option<f64>,
    counts: Counts,
    failed: u64,
    tokens: Tokens,
    token_events: u64,
    streamed_tokens: u64,
    stalled: Stalled,
    tally: Option<Tally<'a>>,
    peak: PeakOutput,
}

/// Gaps over the threshold, and the longest gap.
#[derive(Default)]
struct Stalled {
    count: u64,
    requests: u64,
    total: Nanos,
    /// With the index of the first request that had it.
    longest: Option<(Nanos, u64)>,
}

impl Stalled {
    fn see(&mut self, longest: Option<(Nanos, u64)>) {
        if longest.map(|l| l.0) > self.longest.map(|l| l.0) {
            self.longest = longest;
        }
    }

    fn merge(&mut self, later: &Self) {
        self.count += later.count;
        self.requests += later.requests;
        self.total += later.total;
        self.see(later.longest);
    }

    fn report(&self, threshold: Nanos) -> Stalls {
        Stalls {
            threshold_ms: threshold.as_millis_f64(),
            count: self.count,
            requests: self.requests,
            total_ms: self.total.as_millis_f64(),
            max_itl_ms: self.longest.map(|(gap, _)| gap.as_millis_f64()),
            max_itl_request: self.longest.map(|(_, request)| request),
        }
    }
}

/// What the second pass gives.
pub(super) struct Pooled {
    pub(super) counts: Counts,
    pub(super) tokens: Tokens,
    pub(super) metrics: BTreeMap<String, Distribution>,
    /// By metric.
    pub(super) gathered: Vec<Gathered>,
    pub(super) reading: ReadingReport,
    pub(super) stalls: Stalls,
    pub(super) goodput: Option<GoodputReport>,
    pub(super) peak_output: Option<f64>,
}

impl<'a> Pools<'a> {
    pub(super) fn new(request: &'a SummaryRequest<'a>, span: &Span, facts: &[Fact]) -> Self {
        Self {
            request,
            span: span.clone(),
            // Those that have samples: a failed request must not move the blocks of the others.
            cut: TimeCut::of(facts.iter().filter(|f| f.success && span.holds(f.start)).map(|f| f.start)),
            gatherings: METRICS
                .iter()
                .map(|def| {
                    let usual = IntervalMethod::usual(def.sample);
                    Gathering::new(def.sample, request.intervals.unwrap_or(usual))
                })
                .collect(),
            both: Gathering::new(
                Sample::Gap,
                request.intervals.unwrap_or(IntervalMethod::usual(Sample::Gap)),
            ),
            one: Default::default(),
            reading: Reading::new(),
            censored_from: None,
            counts: Counts {
                issued: 0,
                ok: 0,
                outcomes: Outcome::NAMES.iter().map(|n| ((*n).to_owned(), 0)).collect(),
                censored: 0,
                warmup: 0,
                never_released: 0,
                stale_retries: 0,
            },
            failed: 0,
            tokens: Tokens {
                input: 0,
                output: 0,
                sources: TokenSource::ALL.iter().map(|s| (s.name().to_owned(), 0)).collect(),
                chunks_per_token: None,
                cached_input: None,
                mismatched: 0,
            },
            token_events: 0,
            streamed_tokens: 0,
            stalled: Stalled::default(),
            tally: request.slo.map(Tally::new),
            peak: PeakOutput::new(request.ruler, span, facts),
        }
    }

    /// Adds a measured request; one outside the window counts only for what it put out inside it.
    pub(super) fn add(&mut self, t: &Timeline) {
        let (ruler, protocol) = (self.request.ruler, self.request.load.protocol);
        let m = ruler.measure(t, protocol);
        if m.success {
            self.peak.add(ruler, t, protocol, &m);
        }
        let judged = Judged { timeline: t, measures: &m, ruler, protocol };
        if let Some(tally) = &mut self.tally
            && self.span.completes(Fact::of(t, &m).end)
        {
            tally.complete(judged);
        }
        if !self.span.holds(m.start) {
            return;
        }
        self.count(t, &m);
        if let Some(tally) = &mut self.tally {
            tally.add(judged);
        }
        self.add_reading(t, &m);
        let block = self.cut.block(m.start);
        if m.success {
            self.add_request_samples(judged, block);
            self.add_gap_samples(t, block);
            self.add_tokens(t, &m);
        } else if matches!(t.outcome, Outcome::Timeout { .. })
            && let Some(gone) = t.instants.closed
        {
            let waited = gone.since(m.start).as_millis_f64();
            self.gatherings[Metric::E2eCensored as usize].push_n(block, waited, 1);
            self.censored_from = Some(self.censored_from.map_or(waited, |least| least.min(waited)));
        }
    }

    fn count(&mut self, t: &Timeline, m: &Measures) {
        self.counts.issued += 1;
        self.counts.ok += u64::from(m.success);
        *self.counts.outcomes.entry(t.outcome.name().to_owned()).or_default() += 1;
        self.counts.stale_retries += u64::from(t.connection.stale_retries);
        let censored = !m.success && t.outcome.is_censored();
        self.counts.censored += u64::from(censored);
        self.failed += u64::from(!m.success && !censored);
    }

    fn add_reading(&mut self, t: &Timeline, m: &Measures) {
        let (ruler, load) = (self.request.ruler, &self.request.load);
        let from_schedule = ruler.start == StartRule::ScheduledElseSent && t.instants.scheduled.is_some();
        let own = from_schedule.then(|| load_check::own_lateness(&Fact::of(t, m), load)).flatten();
        self.reading.add(t, m, ruler.token_events.of(load.protocol), own.unwrap_or_default());
    }

    fn add_request_samples(&mut self, judged: Judged<'_>, block: usize) {
        let m = judged.measures;
        for def in METRICS.iter().filter(|d| d.sample == Sample::Request) {
            let value = match def.metric {
                Metric::Fluidity => self.request.slo.and_then(|slo| slo.fluidity(judged)),
                Metric::E2eCensored => m.get(Metric::E2e),
                metric => m.get(metric),
            };
            let gathering = &mut self.gatherings[def.metric as usize];
            match value {
                Some(value) => gathering.push_n(block, value, 1),
                None => gathering.undefined += 1,
            }
        }
    }

    fn add_gap_samples(&mut self, t: &Timeline, block: usize) {
        let (ruler, protocol) = (self.request.ruler, self.request.load.protocol);
        let [itl, gaps] = &mut self.one;
        itl.clear();
        ruler.each_itl(t, protocol, |ms, n| itl.push((ms, n)));
        gaps.clear();
        let (mut stalls, mut longest) = (0_u64, None);
        ruler.each_event(t, protocol, |gap, _| {
            let Some(gap) = gap else { return };
            gaps.push((gap.as_millis_f64(), 1));
            longest = longest.max(Some(gap));
            if gap > self.request.stall_threshold {
                stalls += 1;
                self.stalled.total += gap;
            }
        });
        let add = |gathering: &mut Gathering, samples: &[(f64, u64)]| {
            samples.iter().for_each(|(ms, n)| gathering.push_n(block, *ms, *n));
        };
        self.gatherings[Metric::Itl as usize].undefined += u64::from(itl.is_empty());
        self.gatherings[Metric::ChunkGap as usize].undefined += u64::from(gaps.is_empty());
        if itl == gaps {
            add(&mut self.both, itl);
        } else {
            add(&mut self.gatherings[Metric::Itl as usize], itl);
            add(&mut self.gatherings[Metric::ChunkGap as usize], gaps);
        }
        self.stalled.count += stalls;
        self.stalled.requests += u64::from(stalls > 0);
        self.stalled.see(longest.map(|gap| (gap, t.index)));
    }

    fn add_tokens(&mut self, t: &Timeline, m: &Measures) {
        let output = m.output_tokens.unwrap_or(0);
        self.tokens.input += m.input_tokens.unwrap_or(0);
        self.tokens.output += output;
        if let Some(count) = t.output {
            *self.tokens.sources.entry(count.source.name().to_owned()).or_default() += 1;
        }
        if let Some(cached) = t.server.cached_tokens {
            *self.tokens.cached_input.get_or_insert(0) += u64::from(cached);
        }
        self.tokens.mismatched += u64::from(m.tokens_mismatch);
        if !m.whole {
            self.token_events += m.token_events;
            self.streamed_tokens += output;
        }
    }

    /// With what another part of the run gathered, whose requests come after these.
    pub(super) fn merged(mut self, later: Self) -> Self {
        for (gathering, more) in self.gatherings.iter_mut().zip(later.gatherings) {
            gathering.merge(&more);
        }
        self.both.merge(&later.both);
        self.reading.merge(&later.reading);
        self.censored_from = self.censored_from.into_iter().chain(later.censored_from).reduce(f64::min);
        self.merge_counts(later.counts);
        self.failed += later.failed;
        self.tokens.input += later.tokens.input;
        self.tokens.output += later.tokens.output;
        for (source, requests) in later.tokens.sources {
            *self.tokens.sources.entry(source).or_default() += requests;
        }
        self.tokens.cached_input =
            self.tokens.cached_input.into_iter().chain(later.tokens.cached_input).reduce(|a, b| a + b);
        self.tokens.mismatched += later.tokens.mismatched;
        self.token_events += later.token_events;
        self.streamed_tokens += later.streamed_tokens;
        self.stalled.merge(&later.stalled);
        if let (Some(tally), Some(more)) = (&mut self.tally, &later.tally) {
            tally.merge(more);
        }
        self.peak.merge(&later.peak);
        self
    }

    fn merge_counts(&mut self, later: Counts) {
        let counts = &mut self.counts;
        counts.issued += later.issued;
        counts.ok += later.ok;
        for (outcome, requests) in later.outcomes {
            *counts.outcomes.entry(outcome).or_default() += requests;
        }
        counts.censored += later.censored;
        counts.stale_retries += later.stale_retries;
    }

    pub(super) fn finish(mut self, request: &SummaryRequest<'_>, seconds: Option<f64>) -> Pooled {
        let gathered = gathered(self.gatherings, self.both);
        let metrics = METRICS
            .iter()
            .map(|d| (d, &gathered[d.metric as usize]))
            .filter(|(d, gathered)| is_listed(d.metric, gathered.sorted.n(), self.censored_from, request))
            .map(|(d, gathered)| {
                let limit = self.censored_from.filter(|_| d.metric == Metric::E2eCensored);
                (d.name.to_owned(), distribution(d, gathered, request, limit))
            })
            .collect();
        if let Some(tally) = &self.tally {
            self.counts.censored = tally.censored;
        }
        let failed = self.failed;
        let goodput = self.tally.map(|t| t.report(seconds, failed, |metric| &gathered[metric as usize]));
        self.tokens.chunks_per_token =
            (self.streamed_tokens > 0).then(|| self.token_events as f64 / self.streamed_tokens as f64);
        Pooled {
            counts: self.counts,
            tokens: self.tokens,
            metrics,
            stalls: self.stalled.report(request.stall_threshold),
            goodput,
            peak_output: self.peak.peak(),
            gathered,
            reading: self.reading.finish(),
        }
    }
}

/// The samples of every metric, of which ITL and chunk gap are one and the same where all of them are `both`.
fn gathered(mut gatherings: Vec<Gathering>, both: Gathering) -> Vec<Gathered> {
    let twins = [Metric::Itl as usize, Metric::ChunkGap as usize];
    let are_one = twins.iter().all(|metric| gatherings[*metric].is_empty());
    if !are_one {
        twins.iter().for_each(|metric| gatherings[*metric].merge(&both));
    }
    let mut gathered: Vec<Gathered> = gatherings.into_iter().map(Gathering::freeze).collect();
    if are_one {
        let both = both.freeze();
        for metric in twins {
            let undefined = gathered[metric].undefined;
            gathered[metric] = both.clone();
            gathered[metric].undefined = undefined;
        }
    }
    gathered
}

/// Whether a metric is listed: the main ones always, the others where they say something.
fn is_listed(metric: Metric, n: u64, censored_from: Option<f64>, request: &SummaryRequest<'_>) -> bool {
    let from_schedule = request.load.kind != LoadKind::Closed;
    match metric {
        Metric::E2eCensored => censored_from.is_some(),
        Metric::TtftSent => from_schedule && request.ruler.start == StartRule::ScheduledElseSent && n > 0,
        metric => ALWAYS.contains(&metric) || n > 0,
    }
}
