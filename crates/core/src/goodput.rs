//! Goodput: requests that kept every per-request limit, per second; their tokens; and percentile verdicts.
//!
//! Three different things with three names:
//! - **request goodput** = good requests that complete in the window / duration, so that it never exceeds the
//!   throughput of the same window; **attainment** = good / evaluated, where evaluated is every
//!   request issued in the window, failed ones included, without those that the run's own end cut off before they
//!   had broken anything and without those that could not be evaluated (both are counted);
//! - **token goodput** = output tokens of the good requests / duration;
//! - **percentile verdict** = pass, fail or undecided for "p95 TTFT <= 500 ms". Failed requests count as slower
//!   than any limit wherever one sample is one request: leaving them out would let rejections improve a tail.
//!
//! Sources: DistServe (OSDI 2024) for goodput; Wilson (1927) for the interval of a share; Conover, Practical
//! Nonparametric Statistics, for the interval of a percentile.

use crate::interval::{CONFIDENCE, Gathered};
use crate::metric::{Metric, Sample};
use crate::slo::{Judged, Judgement, Objective, Slo, Target, Verdict};
use crate::summary::{Attainment, GoodputReport, ObjectiveReport, PercentileVerdict};
use goodput_stats::interval::wilson;
use goodput_stats::quantile::portion;
use goodput_stats::{Method, order_statistic_ranks};

/// Counts while requests pass by.
#[derive(Debug, Clone)]
pub(crate) struct Tally<'a> {
    slo: &'a Slo,
    per_objective: Vec<(Objective, u64, u64)>,
    good: u64,
    bad: u64,
    /// Good requests that complete in the window, and their output tokens.
    completed: u64,
    completed_tokens: u64,
    vacuous: u64,
    not_evaluable: u64,
    pub(crate) censored: u64,
}

impl<'a> Tally<'a> {
    pub(crate) fn new(slo: &'a Slo) -> Self {
        let per_objective = slo.per_request().map(|o| (*o, 0, 0)).collect();
        Self {
            slo,
            per_objective,
            good: 0,
            bad: 0,
            completed: 0,
            completed_tokens: 0,
            vacuous: 0,
            not_evaluable: 0,
            censored: 0,
        }
    }

    /// A request that completes in the window, whenever it started.
    pub(crate) fn complete(&mut self, request: Judged<'_>) {
        if self.slo.judge(request) == Verdict::Good {
            self.completed += 1;
            self.completed_tokens += request.measures.output_tokens.unwrap_or(0);
        }
    }

    /// A request that starts in the window.
    pub(crate) fn add(&mut self, request: Judged<'_>) {
        let mut vacuous = false;
        for (objective, met, broken) in &mut self.per_objective {
            match self.slo.judge_objective(objective, request) {
                Judgement::Met => *met += 1,
                Judgement::Vacuous => {
                    *met += 1;
                    vacuous = true;
                }
                Judgement::Broken => *broken += 1,
                Judgement::NotEvaluable => {}
            }
        }
        self.vacuous += u64::from(vacuous);
        match self.slo.judge(request) {
            Verdict::Good => self.good += 1,
            Verdict::Bad => self.bad += 1,
            Verdict::Censored => self.censored += 1,
            Verdict::NotEvaluable => self.not_evaluable += 1,
        }
    }

    /// Adds what was counted in another part of the run, under the same objectives.
    pub(crate) fn merge(&mut self, other: &Self) {
        for ((_, met, broken), (_, more_met, more_broken)) in
            self.per_objective.iter_mut().zip(&other.per_objective)
        {
            *met += more_met;
            *broken += more_broken;
        }
        self.good += other.good;
        self.bad += other.bad;
        self.completed += other.completed;
        self.completed_tokens += other.completed_tokens;
        self.vacuous += other.vacuous;
        self.not_evaluable += other.not_evaluable;
        self.censored += other.censored;
    }

    /// The report over a window of this many seconds. `gathered` gives a metric's samples, `failed` is the number of
    /// requests in the window that failed.
    pub(crate) fn report<'s>(
        self,
        seconds: Option<f64>,
        failed: u64,
        gathered: impl Fn(Metric) -> &'s Gathered,
    ) -> GoodputReport {
        let limited = !self.per_objective.is_empty();
        let evaluated = self.good + self.bad;
        let per_second = |n: u64| seconds.filter(|_| limited).map(|s| n as f64 / s);
        let verdicts = self.slo.objectives.iter().filter_map(|o| match o.target {
            Target::PerRequest => None,
            Target::Percentile(level) => Some(verdict(o, level, gathered(o.metric), failed)),
        });
        GoodputReport {
            slo: self.slo.to_string(),
            request_per_s: per_second(self.completed),
            token_per_s: per_second(self.completed_tokens),
            good: if limited { self.good } else { 0 },
            evaluated: if limited { evaluated } else { 0 },
            attainment: attainment(self.good, if limited { evaluated } else { 0 }),
            verdicts: verdicts.collect(),
            per_objective: self.per_objective.iter().map(objective_report).collect(),
            vacuous: self.vacuous,
            not_evaluable: self.not_evaluable,
            censored: self.censored,
            inline: self.slo.is_inline(),
        }
    }
}

fn objective_report((objective, met, broken): &(Objective, u64, u64)) -> ObjectiveReport {
    let judged = met + broken;
    ObjectiveReport {
        metric: objective.metric.name().into(),
        limit: objective.limit,
        met: *met,
        broken: *broken,
        attainment: (judged > 0).then(|| *met as f64 / judged as f64),
    }
}

fn attainment(good: u64, evaluated: u64) -> Attainment {
    let interval = wilson(good, evaluated, CONFIDENCE);
    Attainment {
        value: interval.map(|_| good as f64 / evaluated as f64),
        low: interval.map(|i| i.low),
        high: interval.map(|i| i.high),
    }
}

/// The verdict on one percentile: its interval against the limit. Where a sample is a request the interval comes from
/// order statistics, and ranks beyond the samples belong to failed requests, which are slower than any limit. Gaps and
/// tokens have the interval that is printed beside them.
fn verdict(objective: &Objective, level: f64, gathered: &Gathered, failed: u64) -> PercentileVerdict {
    let sorted = &gathered.sorted;
    let by_request = objective.metric.def().sample == Sample::Request;
    let n = sorted.n() + if by_request { failed } else { 0 };
    let (low, high) = if by_request {
        let ranks = order_statistic_ranks(n, level, CONFIDENCE);
        let at = |rank| sorted.order_statistic(rank);
        (ranks.low.map(at), ranks.high.and_then(at))
    } else {
        let (low, high) = gathered.intervals(&[level], Method::InverseCdf)[0];
        (low.map(Some), high)
    };
    let over = low.is_some_and(|low| low.is_none_or(|value| !objective.keeps(value)));
    let verdict = match high {
        Some(high) if objective.keeps(high) => "pass",
        _ if over => "fail",
        _ => "undecided",
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank between 1 and n")]
    let rank = (portion(n, level).ceil() as u64).max(1);
    PercentileVerdict {
        objective: objective.to_string(),
        verdict: verdict.into(),
        value: sorted.order_statistic(rank),
        low: low.flatten(),
        high,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::{Gathering, IntervalMethod};

    /// Samples one by one, each in a block of its own.
    fn gathered(sample: Sample, values: impl Iterator<Item = f64>) -> Gathered {
        let mut gathering = Gathering::new(sample, IntervalMethod::usual(sample));
        values.enumerate().for_each(|(i, value)| gathering.push_n(i * 50 / 500, value, 1));
        gathering.freeze()
    }

    #[test]
    fn a_share_of_the_throughput_is_the_goodput() {
        // Oracle: 96 % attained at 9.5 requests/s is a goodput of 9.12 requests/s.
        let requests = 9_500_u64;
        let seconds = requests as f64 / 9.5;
        let good = requests * 96 / 100;
        assert!((good as f64 / seconds - 9.12).abs() < 1e-12);
        let a = attainment(good, requests);
        assert_eq!(a.value, Some(0.96));
        assert!(a.low < a.value && a.value < a.high);
    }

    #[test]
    fn nothing_evaluated_is_undefined() {
        assert_eq!(attainment(0, 0), Attainment { value: None, low: None, high: None });
    }

    #[test]
    fn percentile_verdicts() {
        let samples = gathered(Sample::Request, (1..=500).map(f64::from));
        let check = |limit, failed| {
            let objective = Objective { metric: Metric::Ttft, limit, target: Target::Percentile(0.95) };
            verdict(&objective, 0.95, &samples, failed)
        };
        // Oracle: n = 500, p95 at 95 %: ranks 465 and 485.
        let v = check(490.0, 0);
        assert_eq!((v.value, v.low, v.high), (Some(475.0), Some(465.0), Some(485.0)));
        assert_eq!(v.verdict, "pass");
        assert_eq!(check(485.0, 0).verdict, "pass", "limits are inclusive");
        assert_eq!(check(475.0, 0).verdict, "undecided");
        assert_eq!(check(464.0, 0).verdict, "fail");
        // A tenth of all requests failed: the p95 is one of them, whatever the limit.
        let v = check(1e9, 50);
        assert_eq!((v.verdict.as_str(), v.value), ("fail", None));
    }

    #[test]
    fn few_samples_decide_nothing() {
        let samples = gathered(Sample::Request, [1.0, 2.0].into_iter());
        let objective = Objective { metric: Metric::Ttft, limit: 5.0, target: Target::Percentile(0.95) };
        assert_eq!(verdict(&objective, 0.95, &samples, 0).verdict, "undecided");
        let none = gathered(Sample::Request, std::iter::empty());
        assert_eq!(verdict(&objective, 0.95, &none, 0).verdict, "undecided");
    }

    #[test]
    fn gaps_of_one_request_do_not_decide_like_independent_ones() {
        // 50 blocks of ten equal gaps: 500 samples that are worth 50.
        let check = |sample, metric| {
            let samples = gathered(sample, (0..500).map(|i| f64::from(i / 10)));
            let objective = Objective { metric, limit: 27.0, target: Target::Percentile(0.5) };
            verdict(&objective, 0.5, &samples, 0).verdict
        };
        assert_eq!(check(Sample::Request, Metric::Ttft), "pass");
        assert_eq!(check(Sample::Gap, Metric::ChunkGap), "undecided");
    }
}
