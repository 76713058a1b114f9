//! What this host allows and what else goes on here, each with what follows from it. The readers of the kernel's
//! texts are pure; what a system does not tell is left out.
//!
//! Source of the texts: proc(5), and the kernel's documentation of cgroup v2 and cpufreq.

use super::report::Limit;
use crate::host::container_cores;
use goodput_net::limits::{RESERVED_FILES, open_files};
use goodput_report::{count, figure};
use std::fs;

/// Share of CPU time that a hypervisor may take unseen.
const STEAL_SHARE: f64 = 0.01;
/// Cores that other programs may keep busy unseen.
const BUSY_CORES: f64 = 0.1;
/// Memory under which a long run with many streams may be killed: 1 GiB.
const LITTLE_MEMORY: u64 = 1 << 30;

/// Jiffies of all cores since the start of the system, by `/proc/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CpuTimes {
    /// All of it.
    total: u64,
    /// Idle, waiting for disks included.
    idle: u64,
    /// Taken by the hypervisor for others.
    steal: u64,
    /// Cores of the machine.
    cores: u64,
}

impl CpuTimes {
    /// Now, where the system tells.
    pub(super) fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// The `cpu` line: user, nice, system, idle, iowait, irq, softirq, steal; guest times are in user already.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let jiffies: Vec<u64> = line.split_whitespace().take(8).map_while(|n| n.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, steal] = jiffies[..].try_into().ok()?;
        let idle = idle + iowait;
        let is_core = |line: &&str| {
            line.strip_prefix("cpu").is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()))
        };
        let cores = stat.lines().filter(is_core).count() as u64;
        Some(Self { total: user + nice + system + idle + irq + softirq + steal, idle, steal, cores })
    }

    /// Share of the time since `before` that was stolen.
    fn steal_since(self, before: Self) -> Option<f64> {
        share(self.steal.checked_sub(before.steal)?, self.total.checked_sub(before.total)?)
    }

    /// Cores that were busy since `before`, on average.
    fn busy_since(self, before: Self) -> Option<f64> {
        let idle = share(self.idle.checked_sub(before.idle)?, self.total.checked_sub(before.total)?)?;
        Some((1.0 - idle) * self.cores as f64)
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// What went on around the check.
pub(super) struct Around {
    /// Cores that this program might use before it was kept to some.
    pub(super) cores: f64,
    /// Whether the release thread had real-time priority.
    pub(super) real_time: bool,
    /// A moment before the check.
    pub(super) before: Option<(CpuTimes, CpuTimes)>,
    /// Start and end of the check.
    pub(super) during: Option<(CpuTimes, CpuTimes)>,
}

/// Everything that is known, in the order in which it is printed.
pub(super) fn limits(around: &Around) -> Vec<Limit> {
    let text = |path: &str| fs::read_to_string(path).ok();
    let governor = text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let steal = around.during.and_then(|(before, after)| after.steal_since(before));
    let busy = around.before.and_then(|(before, after)| after.busy_since(before));
    let rows = [
        Some(files(open_files())),
        text("/proc/sys/net/ipv4/ip_local_port_range").as_deref().and_then(port_range).map(ports),
        text("/proc/meminfo").as_deref().and_then(available_memory).map(memory),
        Some(cores(around.cores)),
        Some(quota(container_cores())),
        Some(priority(around.real_time)),
        Some(cpu_governor(governor.as_deref().map(str::trim))),
        steal.map(stolen),
        busy.map(|cores| busy_before(cores, text("/proc/loadavg").as_deref().and_then(load_average))),
    ];
    rows.into_iter().flatten().collect()
}

fn limit(name: &str, value: String, effect: String, warning: bool) -> Limit {
    Limit { name: name.to_owned(), value, effect, warning }
}

fn files((soft, hard): (u64, u64)) -> Limit {
    let streams = hard.saturating_sub(RESERVED_FILES);
    let effect = format!("up to {} streams; a run raises its own limit to the hard one", count(streams));
    let few = streams < 1_000;
    let effect = if few { format!("{effect}; raise it (ulimit -Hn) for more") } else { effect };
    limit("open files", format!("{} soft, {} hard", count(soft), count(hard)), effect, few)
}

/// First and last of the ports for outgoing connections.
fn port_range(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace().map(str::parse);
    let (first, last) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    (first <= last).then_some((first, last))
}

fn ports((first, last): (u64, u64)) -> Limit {
    let n = last - first + 1;
    let effect = format!(
        "up to {} connections to one address; one that is closed keeps its port for a minute, and runs reuse theirs",
        count(n)
    );
    limit("local ports", format!("{first} to {last}"), effect, n < 1_000)
}

/// `MemAvailable`, in bytes.
fn available_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

fn memory(bytes: u64) -> Limit {
    let little = bytes < LITTLE_MEMORY;
    let effect = if little {
        "little for thousands of streams, and a full memory stalls or kills a run: free some"
    } else {
        "enough: a run keeps nothing but what is under way"
    };
    let value = format!("{} GiB free", figure(bytes as f64 / (1_u64 << 30) as f64));
    limit("memory", value, effect.to_owned(), little)
}

fn cores(cores: f64) -> Limit {
    let one = cores < 2.0;
    let effect = if one {
        "release, receive and record share it, and with a local server that too: use a machine with more"
    } else {
        "one for receiving, the rest for a local server"
    };
    limit("cores", figure(cores), effect.to_owned(), one)
}

fn quota(cores: Option<f64>) -> Limit {
    match cores {
        Some(cores) => limit(
            "CPU quota",
            format!("{} cores", figure(cores)),
            "a group that has used it up stands still for the rest of its period, up to 100 ms: take the quota off"
                .to_owned(),
            true,
        ),
        None => limit("CPU quota", "none".to_owned(), "no pauses by the control group".to_owned(), false),
    }
}

/// Without it the rows of the open loop tell whether arrivals are kept all the same, so it is no warning.
fn priority(real_time: bool) -> Limit {
    let (value, effect) = if real_time {
        ("real-time", "no ordinary program on its core delays an arrival")
    } else {
        (
            "ordinary",
            "programs that are busy can delay arrivals; ulimit -r 1, or the right CAP_SYS_NICE, allows more",
        )
    };
    limit("priority of the release thread", value.to_owned(), effect.to_owned(), false)
}

fn cpu_governor(name: Option<&str>) -> Limit {
    let (value, effect, slow) = match name {
        None => ("not told", "usual in virtual machines; the host decides", false),
        Some("performance") => ("performance", "cores are at full speed when work comes", false),
        Some(name) => {
            (name, "cores may sleep when work comes: choose the governor `performance` for exact runs", true)
        }
    };
    limit("CPU governor", value.to_owned(), effect.to_owned(), slow)
}

fn stolen(share: f64) -> Limit {
    let much = share > STEAL_SHARE;
    let effect = if much {
        "the hypervisor gave these cores to others, and figures are worse for it: repeat at a calmer time, or ask for \
         cores of your own"
    } else {
        "the cores were this machine's own"
    };
    limit("steal", format!("{:.1} % of the CPU time of the check", share * 100.0), effect.to_owned(), much)
}

/// The first number of `/proc/loadavg`: runnable tasks, mean over about a minute.
fn load_average(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

fn busy_before(cores: f64, load: Option<f64>) -> Limit {
    let busy = cores > BUSY_CORES;
    let load = load.map_or_else(String::new, |load| format!(", load average {}", figure(load)));
    let effect = if busy {
        "other programs run here, and what they cost is in these figures: stop them, or keep a core free of them"
    } else {
        "nothing else ran here"
    };
    limit("busy cores before", format!("{}{load}", figure(cores)), effect.to_owned(), busy)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  100 5 50 800 20 1 4 20 7 0\ncpu0 50 2 25 400 10 0 2 10 3 0\ncpu1 50 3 25 400 10 1 2 10 4 0\nintr 1 2 3\n";

    #[test]
    fn the_cpu_line_is_read() {
        assert_eq!(CpuTimes::parse(STAT), Some(CpuTimes { total: 1_000, idle: 820, steal: 20, cores: 2 }));
        for bad in ["", "cpu 1 2 3\n", "cpu0 1 2 3 4 5 6 7 8\n", "cpu a b c d e f g h\n"] {
            assert_eq!(CpuTimes::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn shares_are_of_the_time_between() {
        let at = |total, idle, steal| CpuTimes { total, idle, steal, cores: 4 };
        let (before, after) = (at(1_000, 820, 20), at(1_200, 920, 24));
        assert_eq!(after.steal_since(before), Some(0.02));
        assert_eq!(after.busy_since(before), Some(2.0), "half of four");
        assert_eq!(before.steal_since(before), None, "no time has passed");
        assert_eq!(before.steal_since(after), None, "counters never go back");
    }

    #[test]
    fn the_other_texts_are_read() {
        assert_eq!(port_range("32768\t60999\n"), Some((32_768, 60_999)));
        assert_eq!((port_range("60999 32768"), port_range("1")), (None, None));
        let meminfo = "MemTotal:  24000 kB\nMemFree:  1 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(available_memory(meminfo), Some(2 << 20));
        assert_eq!(available_memory("MemTotal: 1 kB\n"), None);
        assert_eq!(load_average("0.52 0.58 0.59 1/467 12345\n"), Some(0.52));
        assert_eq!(load_average(""), None);
    }

    #[test]
    fn what_can_spoil_figures_is_a_warning() {
        let cases = [
            (files((1_024, 1_048_576)), false),
            (files((256, 512)), true),
            (ports((32_768, 60_999)), false),
            (ports((60_000, 60_099)), true),
            (memory(8 << 30), false),
            (memory(1 << 29), true),
            (cores(2.0), false),
            (cores(1.5), true),
            (quota(None), false),
            (quota(Some(1.5)), true),
            (priority(true), false),
            (priority(false), false),
            (cpu_governor(None), false),
            (cpu_governor(Some("performance")), false),
            (cpu_governor(Some("powersave")), true),
            (stolen(0.01), false),
            (stolen(0.12), true),
            (busy_before(0.0, Some(0.5)), false),
            (busy_before(1.0, None), true),
        ];
        for (limit, warning) in cases {
            assert_eq!(limit.warning, warning, "{limit:?}");
            assert!(!limit.value.is_empty() && !limit.effect.is_empty());
        }
        assert_eq!(stolen(0.123).value, "12.3 % of the CPU time of the check");
        assert_eq!(files((1_024, 4_096)).value, "1,024 soft, 4,096 hard");
    }
}
