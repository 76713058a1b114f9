//! The arrival stamp of one read.

use goodput_core::time::Nanos;

/// When the bytes of one read reached this machine, and how that is known.
///
/// One read has one stamp, that of its newest bytes. Reads whose stamps have the same instant cannot be told
/// apart by time and count as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Arrival on the run's clock.
    pub at: Nanos,
    /// How much later the program read the bytes, in nanoseconds, saturating.
    pub late_ns: u32,
    /// Whether `at` is the kernel's receive stamp (`true`) or the time of the read (`false`).
    pub kernel: bool,
}
