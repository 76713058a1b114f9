//! The progress lines on stderr: how far, how many failed, how much time is left. Silent when stderr is no terminal.

use goodput_core::time::Nanos;
use goodput_drive::driver::Progress;
use goodput_net::run::RunHandle;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const REFRESH: Duration = Duration::from_millis(200);

/// A running progress line. Dropping it clears the line.
pub(crate) struct ProgressLine {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressLine {
    /// Starts the line, unless `quiet` or stderr is piped.
    pub(crate) fn start(handle: RunHandle, quiet: bool) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let thread = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let over = over.clone();
            std::thread::spawn(move || draw(&handle, &over))
        });
        Self { over, thread }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in the drawing thread has been printed already and hurts no figure.
            drop(thread.join());
        }
    }
}

/// A line for work in steps of known length. Dropping it clears the line.
pub(crate) struct StepLine {
    bar: Option<ProgressBar>,
    done_s: f64,
    total_s: f64,
    under_way_s: f64,
}

impl StepLine {
    /// Starts the line for about `total_s` seconds of work, unless `quiet` or stderr is piped.
    pub(crate) fn start(what: &'static str, total_s: f64, quiet: bool) -> Self {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(Some(1_000), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:24} {msg}") {
                bar.set_style(style);
            }
            bar.with_prefix(what)
        });
        Self { bar, done_s: 0.0, total_s, under_way_s: 0.0 }
    }

    /// The step before is done, and this one takes about so many seconds.
    pub(crate) fn step(&mut self, what: &str, seconds: f64) {
        self.done_s += std::mem::replace(&mut self.under_way_s, seconds);
        if let Some(bar) = &self.bar {
            let share = (self.done_s / self.total_s.max(1e-9)).min(1.0);
            bar.set_position((share * 1_000.0) as u64);
            bar.set_message(format!("{what}, {:.0} s left", (self.total_s - self.done_s).max(0.0)));
        }
    }
}

impl Drop for StepLine {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn draw(handle: &RunHandle, over: &AtomicBool) {
    let bar = ProgressBar::with_draw_target(Some(1_000), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {msg}") {
        bar.set_style(style);
    }
    let started = Instant::now();
    while !over.load(Ordering::Relaxed) {
        let progress = handle.progress();
        let share = share_done(&progress, started.elapsed());
        bar.set_position((share.unwrap_or(0.0) * 1_000.0) as u64);
        bar.set_message(describe(&progress, share, started.elapsed()));
        std::thread::sleep(REFRESH);
    }
    bar.finish_and_clear();
}

/// Share of the run that is over: by requests where their number is known, else by time.
fn share_done(progress: &Progress, elapsed: Duration) -> Option<f64> {
    let by_count = progress.planned_requests.map(|planned| progress.ended as f64 / planned.max(1) as f64);
    let by_time = progress.ends_at.map(|end: Nanos| elapsed.as_secs_f64() / end.as_secs_f64().max(1e-9));
    by_count.or(by_time).map(|share| share.clamp(0.0, 1.0))
}

fn describe(progress: &Progress, share: Option<f64>, elapsed: Duration) -> String {
    let mut text = match progress.planned_requests {
        Some(planned) => format!("{}/{planned} done", progress.ended),
        None => format!("{} done", progress.ended),
    };
    text += &format!(", {} in flight", progress.in_flight);
    for (count, what) in [(progress.waiting, "waiting"), (progress.failed, "failed")] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    if progress.ended == 0 && progress.warmup_released > 0 {
        text += ", warming up";
    }
    match share {
        Some(share) if share >= 0.02 => {
            let left = elapsed.as_secs_f64() * (1.0 - share) / share;
            text + &format!(", {left:.0} s left")
        }
        _ => text,
    }
}
