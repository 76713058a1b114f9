//! How long one step of an engine takes.
//!
//! `t = t0 + a * prefill tokens + b * prefill token-context pairs + c * decode tokens + d * KV tokens read
//! (+ e * draft positions)`: weights are read once a step (`t0`), every token is multiplied through them (`a`, `c`),
//! attention of a prefill grows with what stands before each token (`b`), and a decoding sequence reads its whole KV
//! cache (`d`). The terms add up, as if nothing overlapped; a real step lies between their largest and their sum. The
//! form is that of the roofline of Williams, Waterman and Patterson (2009), and of the linear cost models of the
//! Sarathi-Serve and Vidur papers.
//!
//! It never looks at a clock: a step's time is a function of its work, its number and the seed. Sums and products of
//! IEEE doubles are the same on every machine; only noise uses logarithms and exponentials of the platform's library.

use goodput_core::rng::{Seed, Stream};
use goodput_core::time::Nanos;
use serde::Serialize;

/// What one step computes, counted in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepWork {
    /// Tokens of prompts (and of recomputed answers) that are computed.
    pub prefill_tokens: u64,
    /// Pairs of a prefill token and a token it attends to, itself included: a chunk of n tokens after c computed ones
    /// has `n * c + n * (n + 1) / 2`.
    pub prefill_pairs: u64,
    /// Sequences that decode.
    pub decode_sequences: u64,
    /// Tokens that decoding sequences compute: one each, or one and the drafts under speculation.
    pub decode_tokens: u64,
    /// KV entries that decoding sequences read, once a step each.
    pub kv_tokens_read: u64,
}

impl StepWork {
    /// Adds a prefill of `tokens` after `context` computed ones.
    pub fn add_prefill(&mut self, tokens: u32, context: u32) {
        let (n, c) = (u64::from(tokens), u64::from(context));
        self.prefill_tokens += n;
        self.prefill_pairs += n * c + n * (n + 1) / 2;
    }

    /// Adds a sequence that decodes `tokens` after `context` computed ones.
    pub fn add_decode(&mut self, tokens: u32, context: u32) {
        self.decode_sequences += 1;
        self.decode_tokens += u64::from(tokens);
        self.kv_tokens_read += u64::from(context);
    }
}

/// The constants of a step's time, in nanoseconds per unit of work.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct StepCost {
    /// t0: once a step, whatever it computes.
    pub base: f64,
    /// a: per prefill token.
    pub prefill_token: f64,
    /// b: per pair of a prefill token and a token before it.
    pub prefill_pair: f64,
    /// c: per decode token.
    pub decode_token: f64,
    /// d: per KV entry read by a decoding sequence.
    pub kv_token: f64,
    /// e: per draft position, once a step, paid when anything decodes under speculation.
    pub draft_position: f64,
}

impl StepCost {
    /// The time of one step without noise, in nanoseconds. `drafts` are the draft positions of the step.
    #[must_use]
    pub fn nanos(&self, work: &StepWork, drafts: u32) -> f64 {
        let drafts = if work.decode_sequences > 0 { f64::from(drafts) } else { 0.0 };
        self.base
            + self.prefill_token * work.prefill_tokens as f64
            + self.prefill_pair * work.prefill_pairs as f64
            + self.decode_token * work.decode_tokens as f64
            + self.kv_token * work.kv_tokens_read as f64
            + self.draft_position * drafts
    }
}

/// Multiplicative noise of step times: lognormal with mean 1 and a stated coefficient of variation, one independent
/// draw a step.
#[derive(Debug, Clone)]
pub struct Noise {
    stream: Stream,
    sigma: f64,
}

impl Noise {
    /// Noise of coefficient of variation `cv`; 0 is none.
    #[must_use]
    pub fn new(cv: f64, seed: Seed) -> Self {
        Self { stream: seed.stream("step-noise"), sigma: (cv * cv).ln_1p().sqrt() }
    }

    /// The factor of step number `step`.
    #[must_use]
    pub fn factor(&self, step: u64) -> f64 {
        if self.sigma == 0.0 {
            return 1.0;
        }
        (self.sigma * self.stream.at(step).normal() - self.sigma * self.sigma / 2.0).exp()
    }
}

/// The time of step number `step`: whole nanoseconds, never zero, so that time always passes.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates; the constants of a checked profile are neither negative nor NaN"
)]
pub fn step_time(cost: &StepCost, noise: &Noise, work: &StepWork, (step, drafts): (u64, u32)) -> Nanos {
    let nanos = cost.nanos(work, drafts) * noise.factor(step);
    Nanos((nanos.round() as u64).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_meets_its_own_work() {
        let cost = StepCost {
            base: 1.0,
            prefill_token: 10.0,
            prefill_pair: 100.0,
            decode_token: 1e3,
            kv_token: 1e4,
            draft_position: 1e7,
        };
        let mut work = StepWork::default();
        assert_eq!(cost.nanos(&work, 3), 1.0);
        work.add_prefill(3, 5);
        assert_eq!(
            work.prefill_pairs,
            3 * 5 + 6,
            "each of 3 tokens sees 5 before it, itself and the earlier ones"
        );
        assert_eq!(cost.nanos(&work, 3), 1.0 + 30.0 + 2_100.0);
        work.add_decode(4, 7);
        assert_eq!(cost.nanos(&work, 3), 1.0 + 30.0 + 2_100.0 + 4_000.0 + 70_000.0 + 3e7);
    }

    #[test]
    fn a_prefill_in_chunks_attends_to_as_many_pairs_as_in_one() {
        let mut whole = StepWork::default();
        whole.add_prefill(1_000, 0);
        let mut chunks = StepWork::default();
        for (tokens, context) in [(400, 0), (400, 400), (200, 800)] {
            chunks.add_prefill(tokens, context);
        }
        assert_eq!(whole, chunks);
    }

    #[test]
    fn noise_has_mean_one_and_the_stated_cv() {
        let noise = Noise::new(0.2, Seed(5));
        let n = 40_000;
        let factors: Vec<f64> = (0..n).map(|step| noise.factor(step)).collect();
        let mean = factors.iter().sum::<f64>() / n as f64;
        let variance = factors.iter().map(|f| (f - mean).powi(2)).sum::<f64>() / n as f64;
        // Five standard errors of the mean are 0.005; the CV's own is about 0.001.
        assert!((mean - 1.0).abs() < 0.005, "{mean}");
        assert!((variance.sqrt() / mean - 0.2).abs() < 0.006, "{}", variance.sqrt() / mean);
        assert_eq!(Noise::new(0.0, Seed(5)).factor(9), 1.0);
    }

    #[test]
    fn a_step_of_no_cost_still_takes_time() {
        let none = StepCost::default();
        let noise = Noise::new(0.0, Seed(0));
        assert_eq!(step_time(&none, &noise, &StepWork::default(), (0, 0)), Nanos(1));
    }
}
