//! The written pages: told what happens, they must say what the engines' own pages would, and look as those look.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod recorded;
mod sglang;
mod vllm;

use goodput_core::time::Nanos;
use goodput_observe::expose::{Format, Labels, Page};
use goodput_observe::histogram::Histogram;
use goodput_observe::page::{Asked, EnginePage, FinishReason, Load, Observation, Output, Stamp, Step};

/// A page with short words for what is told most.
struct Told {
    page: EnginePage,
}

/// A stamp whose clocks are `front_ms` past some day and `engine_ms` past the engine's start.
fn at(front_ms: u64, engine_ms: u64) -> Stamp {
    Stamp {
        frontend: Nanos::from_secs(1_700_000_000) + Nanos::from_millis(front_ms),
        engine: Nanos::from_millis(engine_ms),
    }
}

impl Told {
    fn tell(&mut self, stamp: Stamp, observation: Observation<'_>) {
        self.page.observe(stamp, &observation);
    }

    /// Arrives, waits and is admitted at the given milliseconds of both clocks.
    fn admit(
        &mut self,
        request: u64,
        asked: Asked,
        [arrived, queued, admitted]: [u64; 3],
        cached_tokens: u64,
    ) {
        self.tell(at(arrived, arrived), Observation::Arrived { request, asked });
        self.tell(at(queued, queued), Observation::Queued { request });
        self.tell(at(admitted, admitted), Observation::Admitted { request, cached_tokens });
    }

    /// A step with `tokens` for one request.
    fn output(&mut self, stamp: Stamp, request: u64, tokens: u64) {
        let outputs = [Output { request, tokens }];
        self.tell(stamp, Observation::Step(Step { outputs: &outputs, load: LOAD, ..Step::default() }));
    }

    fn finish(&mut self, stamp: Stamp, request: u64, reason: FinishReason) {
        self.tell(stamp, Observation::Finished { request, reason });
    }

    fn page(&self) -> Page {
        self.page.page(Format::Text)
    }

    /// Count and sum of a histogram, all its series together.
    fn histogram(&self, family: &str) -> (f64, f64) {
        match Histogram::of(&self.page(), family) {
            Ok(series) => {
                let all = Histogram::pooled(series.values()).unwrap().unwrap();
                (all.count(), all.sum().unwrap())
            }
            Err(_) => (0.0, 0.0),
        }
    }

    /// All series of a counter or gauge with these labels among theirs, added.
    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let page = self.page();
        let fits = |found: &Labels| labels.iter().all(|(name, value)| found.get(name) == Some(value));
        page.samples(name).filter(|sample| fits(&sample.labels)).map(|sample| sample.value).sum()
    }

    /// Asserts counts and sums of histograms.
    fn holds(&self, expected: &[(&str, f64, f64)]) {
        for (family, count, sum) in expected {
            let found = self.histogram(family);
            let near = (found.1 - sum).abs() < 1e-9;
            assert!(found.0 == *count && near, "{family}: {found:?}, expected {count} with the sum {sum}");
        }
    }
}

const LOAD: Load =
    Load { running: 3, waiting: 2, deferred: 1, kv_used: 4096, kv_cached: 1024, sequence_tokens: 900 };

fn asks(prompt_tokens: u64, max_tokens: u64) -> Asked {
    Asked { prompt_tokens, max_tokens: Some(max_tokens), streaming: true, choice: None }
}
