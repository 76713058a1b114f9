//! Facts about the machine that measures, for the manifest.

use goodput_store::manifest::Host;
use std::fs;
use sysinfo::System;

/// What this machine is. Unknown facts stay empty.
pub(crate) fn host() -> Host {
    let mut system = System::new().ok();
    if let Some(system) = &mut system {
        system.refresh_memory();
        system.refresh_cpu_all();
    }
    let system = system.as_ref();
    let (open_files_soft, open_files_hard) = goodput_net::limits::open_files();
    Host {
        hostname: System::host_name().ok(),
        os: System::long_os_version().ok(),
        kernel: System::kernel_version().ok(),
        arch: Some(std::env::consts::ARCH.to_owned()),
        cpu: system.and_then(|s| s.cpus().first()).map(|cpu| cpu.brand().trim().to_owned()),
        cores: std::thread::available_parallelism().ok().and_then(|n| u32::try_from(n.get()).ok()),
        memory_bytes: system.map(System::total_memory),
        container_cores: container_cores(),
        container_memory_bytes: read_number("/sys/fs/cgroup/memory.max"),
        open_files_soft: Some(open_files_soft),
        open_files_hard: Some(open_files_hard),
    }
}

/// Cores this program may use: what the scheduler allows, or less by quota.
pub(crate) fn usable_cores() -> f64 {
    let cores = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
    container_cores().map_or(cores, |quota| cores.min(quota))
}

/// The CPU quota of this program's control group, in cores; `None` without one.
pub(crate) fn container_cores() -> Option<f64> {
    quota(&fs::read_to_string("/sys/fs/cgroup/cpu.max").ok()?)
}

/// The quota of a version-2 control group, `<quota> <period>` or `max <period>`.
fn quota(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
}

fn read_number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The most memory this process has used, in bytes.
pub(crate) fn memory_peak() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_cores() {
        assert_eq!(quota("150000 100000\n"), Some(1.5));
        for none in ["max 100000\n", "", "1"] {
            assert_eq!(quota(none), None, "{none:?}");
        }
    }
}
