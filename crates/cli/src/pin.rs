//! CPU lists, and threads that are kept to them. A new thread or process has the CPUs of the thread that started it.

use crate::exit::Failure;
use std::fmt;
use std::str::FromStr;

/// CPUs as people and the kernel write them: `0`, `1-3`, `0,2-3`. Not empty, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CpuList(Vec<usize>);

/// The highest CPU number that can be named.
const LAST: usize = 1_023;

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected CPU numbers up to {LAST} such as 0, 1-3 or 0,2-3");
        let number = |text: &str| text.parse::<usize>().ok().filter(|n| *n <= LAST).ok_or_else(wrong);
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return Err(wrong());
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self(cpus))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

/// Keeps the calling thread, and what it starts from now on, to these CPUs.
#[cfg(target_os = "linux")]
pub(crate) fn pin(cpus: &CpuList) -> Result<(), Failure> {
    let mut set = rustix::thread::CpuSet::new();
    cpus.0.iter().for_each(|cpu| set.set(*cpu));
    rustix::thread::sched_setaffinity(None, &set).map_err(|e| {
        Failure::input(format!("cannot run on CPU {cpus}: {e}"))
            .hint("`taskset -cp $$` lists the CPUs that this shell may use")
    })
}

/// Does something while the calling thread is kept to these CPUs, and puts it back afterwards.
#[cfg(target_os = "linux")]
pub(crate) fn with_affinity<T>(
    cpus: Option<&CpuList>,
    act: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let Some(cpus) = cpus else { return act() };
    let unknown =
        |e: rustix::io::Errno| Failure::input(format!("cannot ask or set this program's CPUs: {e}"));
    let before = rustix::thread::sched_getaffinity(None).map_err(unknown)?;
    pin(cpus)?;
    let done = act();
    rustix::thread::sched_setaffinity(None, &before).map_err(unknown)?;
    done
}

/// Keeps the calling thread to these CPUs.
#[cfg(not(target_os = "linux"))]
pub(crate) fn pin(cpus: &CpuList) -> Result<(), Failure> {
    Err(Failure::input(format!("cannot run on CPU {cpus}: this system has no way to say so")))
}

/// Does something while the calling thread is kept to these CPUs.
#[cfg(not(target_os = "linux"))]
pub(crate) fn with_affinity<T>(
    cpus: Option<&CpuList>,
    act: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    cpus.map_or(Ok(()), pin)?;
    act()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_those_of_the_kernel() {
        let read = |text: &str| text.parse::<CpuList>();
        assert_eq!(read("0"), Ok(CpuList(vec![0])));
        assert_eq!(read("5,1-3,2"), Ok(CpuList(vec![1, 2, 3, 5])));
        assert_eq!(read("0,2-3").map(|list| list.to_string()), Ok("0,2,3".to_owned()));
        for bad in ["", "a", "3-1", "1,,2", "-1", "1024"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
