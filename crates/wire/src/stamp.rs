//! The arrival stamp of one read.

use goodput_core::time::Nanos;
use goodput_core::timeline::Chunk;

/// When the bytes of one read reached this machine, and how that is known.
///
/// One read has one stamp, that of its newest bytes. What came with them may have come earlier; how much earlier is
/// told afterwards, with [`Exchange::not_before`](crate::exchange::Exchange::not_before), because it is worth finding
/// out only where a read turns out to hold such events.
///
/// Reads whose stamps have the same instant cannot be told apart by time and count as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Arrival on the run's clock.
    pub at: Nanos,
    /// How much later the program read the bytes, in nanoseconds, saturating.
    pub late_ns: u32,
    /// By how much the very last of these bytes may have come before `at`, in nanoseconds: 0 where `at` is its kernel
    /// stamp, [`Stamp::NOT_EXACT`] where `at` is the time of the read, or the stamp of bytes that this read left behind.
    pub early_ns: u32,
    /// Whether `at` is the kernel's receive stamp (`true`) or the time of the read (`false`).
    pub kernel: bool,
}

impl Stamp {
    /// An [`early_ns`](Self::early_ns) that says nothing.
    pub const NOT_EXACT: u32 = Chunk::EARLY_UNKNOWN;

    /// A read at its kernel stamp, which is that of its very last byte.
    #[must_use]
    pub const fn exact(at: Nanos) -> Self {
        Self { at, late_ns: 0, early_ns: 0, kernel: true }
    }

    /// The same, moved to `latest` if it is before it, so that the times of one answer never go back.
    #[must_use]
    pub fn not_before(self, latest: Nanos) -> Self {
        let moved = u32::try_from(latest.since(self.at).0).unwrap_or(Self::NOT_EXACT);
        Self { at: self.at.max(latest), early_ns: self.early_ns.saturating_add(moved), ..self }
    }

    /// A read of which only the time is known.
    #[must_use]
    pub const fn of_read(at: Nanos) -> Self {
        Self { at, late_ns: 0, early_ns: Self::NOT_EXACT, kernel: false }
    }
}
