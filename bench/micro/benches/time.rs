//! Wall-clock time of every task. See README.md of this workspace for what is noise.

use criterion::{Criterion, Throughput};
use goodput_micro::TASKS;
use std::time::Duration;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for (name, make) in TASKS {
        let mut task = make();
        // Groups are named for what an item is, so that whoever reads the results knows.
        let mut group = criterion.benchmark_group(task.unit);
        group.throughput(Throughput::Elements(task.items));
        group.bench_function(name, |bencher| bencher.iter(|| task.run()));
        group.finish();
    }
    criterion.final_summary();
}
