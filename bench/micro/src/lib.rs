//! What is measured: small pieces of the program, each a [`Task`] over a fixed input.
//!
//! `benches/time.rs` puts them under a clock, `benches/instructions.rs` under a counter of instructions; both take them
//! from [`TASKS`], so that they measure the same. Inputs are recorded streams of real servers and generated ones that are
//! the same at every start. A task is run on what the program itself exports; nothing here is a second implementation.

mod inputs;
mod reading;
mod sending;
mod storing;
mod summing;

/// One thing to measure.
pub struct Task {
    /// What one item is, for example `event`.
    pub unit: &'static str,
    /// Items in one run.
    pub items: u64,
    run: Box<dyn FnMut()>,
}

impl Task {
    fn new(unit: &'static str, items: usize, run: impl FnMut() + 'static) -> Self {
        Self { unit, items: items as u64, run: Box::new(run) }
    }

    /// Does the work once, over all items. Every run does the same.
    pub fn run(&mut self) {
        (self.run)();
    }
}

/// Makes the input of a task.
pub type Make = fn() -> Task;

/// Every task with its name.
pub const TASKS: [(&str, Make); 16] = [
    ("sse_recorded", reading::sse_recorded),
    ("sse_one_event_a_read", reading::sse_one_event_a_read),
    ("reply_recorded", reading::reply_recorded),
    ("reply_chat", reading::reply_chat),
    ("reply_sglang", reading::reply_sglang),
    ("exchange_one_event_a_read", reading::exchange_one_event_a_read),
    ("exchange_64k_reads", reading::exchange_64k_reads),
    ("log_append", storing::log_append),
    ("parquet_write", storing::parquet_write),
    ("parquet_read", storing::parquet_read),
    ("samples_push_freeze", summing::samples_push_freeze),
    ("ruler_measure", summing::ruler_measure),
    ("summarise", summing::summarise_run),
    ("request_encode", sending::request_encode),
    ("schedule_poisson", sending::schedule_poisson),
    ("driver_closed_loop", sending::driver_closed_loop),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_and_runs_again() {
        for (name, make) in TASKS {
            let mut task = make();
            assert!(task.items > 0, "{name}");
            task.run();
            task.run();
        }
    }
}
