//! What this machine allows: open files, checked before a run instead of failing in the middle of it.

use crate::sys;
use thiserror::Error;

/// Descriptors kept for everything that is not a request: logs, wakers, standard streams, probes.
pub const RESERVED_FILES: u64 = 64;

/// Fewer connections possible than asked for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{asked} connections need {needed} open files, but the limit is {limit}; raise it (`ulimit -n {needed}`) or ask for fewer with --concurrency"
)]
pub struct FileLimit {
    /// Connections asked for.
    pub asked: u64,
    /// Files that takes.
    pub needed: u64,
    /// Files allowed.
    pub limit: u64,
}

/// Raises the soft limit of open files as far as the hard one goes, and returns it.
#[must_use]
pub fn raise_open_files() -> u64 {
    sys::raise_file_limit()
}

/// The soft and the hard limit of open files now.
#[must_use]
pub fn open_files() -> (u64, u64) {
    sys::file_limits()
}

/// Files that the table of open files is made to hold before a run, or fewer if the limit is lower.
const ROOM: u64 = 16_384;

/// Grows the kernel's table of open files once, before threads exist and anything is measured.
pub fn make_room_for_files(limit: u64) {
    sys::make_room_for_files(ROOM.min(limit).saturating_sub(1));
}

/// Checks that `connections` at once fit.
///
/// # Errors
/// [`FileLimit`] with the figures.
pub fn check_open_files(connections: u64, limit: u64) -> Result<(), FileLimit> {
    let needed = connections + RESERVED_FILES;
    if needed <= limit { Ok(()) } else { Err(FileLimit { asked: connections, needed, limit }) }
}

/// CPU time of this process so far, in nanoseconds.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    sys::process_cpu_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_names_its_figures() {
        assert!(check_open_files(100, 1_024).is_ok());
        let refused = check_open_files(1_000, 1_024).map_err(|e| e.to_string());
        assert!(refused.is_err_and(|text| text.contains("ulimit -n 1064")));
    }
}
