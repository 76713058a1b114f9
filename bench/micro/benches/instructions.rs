//! Instructions of one run of every task, counted by callgrind. Needs valgrind and `gungraun-runner`.
#![expect(missing_docs, reason = "what the macros make has none")]

use goodput_micro::{Make, TASKS, Task};
use gungraun::prelude::*;

// The task is returned, so that its input is not freed while instructions are counted.
#[library_benchmark]
#[benches::task(iter = TASKS, setup = make)]
fn run(mut task: Task) -> Task {
    task.run();
    task
}

fn make((_, make): (&str, Make)) -> Task {
    make()
}

library_benchmark_group!(name = micro, benchmarks = [run]);
main!(library_benchmark_groups = micro);
