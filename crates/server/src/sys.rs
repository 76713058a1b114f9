//! What the standard library does not offer: nanosecond alarms, kernel receive stamps, a larger listen queue, more
//! open files, and a reset instead of a close.
//!
//! The only module with `unsafe`. Every call hands the kernel a pointer to a live, fully initialised local of the
//! stated size and checks the result.
#![expect(unsafe_code, reason = "thin wrappers around system calls that no safe interface covers")]

use goodput_core::time::Nanos;
use mio::net::TcpStream;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Listens again on the same socket with a queue that takes a burst of connects (the kernel caps it at
/// `net.core.somaxconn`).
pub(crate) fn widen_backlog(listener: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::listen(listener.as_raw_fd(), 65_535) })
}

/// Makes the next close of `stream` send a reset and drop what is unsent.
pub(crate) fn reset_on_close(stream: &TcpStream) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    set_option(stream.as_raw_fd(), libc::SO_LINGER, &linger)
}

/// Raises the soft limit on open files to the hard one, and has the kernel grow this process's table of them now. Left to
/// itself it grows at 64, 128, 256, ... files, and in a process with threads each time waits for an RCU grace period:
/// a stall of 10 ms and more in the middle of a run. `any` is any open file.
pub(crate) fn make_room_for_files(any: &impl AsRawFd) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives both calls.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: as above.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    let highest = libc::c_int::try_from(limit.rlim_cur - 1).unwrap_or(libc::c_int::MAX).min(16_383);
    // SAFETY: no memory is passed.
    let copy = unsafe { libc::fcntl(any.as_raw_fd(), libc::F_DUPFD_CLOEXEC, highest) };
    check(copy)?;
    // SAFETY: the copy was just made and nobody else owns it; dropping it closes it.
    drop(unsafe { OwnedFd::from_raw_fd(copy) });
    Ok(())
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn set_option<T>(socket: RawFd, name: libc::c_int, value: &T) -> io::Result<()> {
    let size = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    // SAFETY: `value` is a live `T` and `size` is its size.
    check(unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, name, std::ptr::from_ref(value).cast(), size) })
}

#[cfg(target_os = "linux")]
pub(crate) use linux::{Alarm, receive, stamp_arrivals};
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{Alarm, receive, stamp_arrivals};

#[cfg(target_os = "linux")]
mod linux {
    use super::{AsRawFd, FromRawFd, Nanos, OwnedFd, TcpStream, check, io, set_option};
    use mio::unix::SourceFd;
    use mio::{Interest, Registry, Token};
    use std::time::Duration;

    /// A `timerfd`: it wakes the poll at nanosecond resolution, where the poll's own timeout counts milliseconds.
    pub(crate) struct Alarm {
        timer: OwnedFd,
        /// What it is set for.
        at: Nanos,
    }

    impl Alarm {
        /// An unarmed alarm registered under `token`.
        pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
            // SAFETY: no memory is passed.
            let fd = unsafe {
                libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC)
            };
            check(fd)?;
            // SAFETY: the descriptor was just created and nobody else owns it.
            let timer = unsafe { OwnedFd::from_raw_fd(fd) };
            registry.register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
            Ok(Self { timer, at: Nanos::ZERO })
        }

        /// Sets the alarm for `at`, later than `now`, and returns the timeout the poll needs beside it: none. Polling
        /// is edge-triggered and arming clears the last expiry, so the timer is never read.
        pub(crate) fn arm(&mut self, now: Nanos, at: Nanos) -> io::Result<Option<Duration>> {
            if self.at == at {
                return Ok(None);
            }
            // A zero value would disarm it.
            let span = at.since(now).0.max(1);
            let value = libc::timespec {
                tv_sec: libc::time_t::try_from(span / 1_000_000_000).unwrap_or(libc::time_t::MAX),
                tv_nsec: (span % 1_000_000_000) as libc::c_long,
            };
            let interval = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let spec = libc::itimerspec { it_interval: interval, it_value: value };
            // SAFETY: `spec` is live and the old value is not asked for.
            check(unsafe {
                libc::timerfd_settime(self.timer.as_raw_fd(), 0, &raw const spec, std::ptr::null_mut())
            })?;
            self.at = at;
            Ok(None)
        }
    }

    /// Asks the kernel to stamp received bytes on every connection accepted from `listener` (they inherit it).
    pub(crate) fn stamp_arrivals(listener: &impl AsRawFd) -> io::Result<()> {
        set_option(listener.as_raw_fd(), libc::SO_TIMESTAMPNS, &1_i32)
    }

    /// Reads, and returns with the byte count the kernel's receive time (Unix ns) of the newest byte if it gave one.
    pub(crate) fn receive(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
        stream.try_io(|| receive_message(stream, buffer))
    }

    fn receive_message(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // Words, so that the control headers in it are aligned.
        let mut control = [0_u64; 16];
        // SAFETY: all-zero is a valid `msghdr`.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: `message` points to `buffer` and `control`, both live and of the stated sizes.
        let count = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, 0) };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        Ok((count, stamp_of(&message)))
    }

    fn stamp_of(message: &libc::msghdr) -> Option<u64> {
        // SAFETY: the kernel filled the control area of `message`, which the caller keeps alive; the macros stay
        // inside it, and a header of this type carries one `timespec`.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(message);
            while !header.is_null() {
                if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_TIMESTAMPNS {
                    let stamp = libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned();
                    let (seconds, nanos) = (u64::try_from(stamp.tv_sec), u64::try_from(stamp.tv_nsec));
                    return Some(seconds.ok()? * 1_000_000_000 + nanos.ok()?);
                }
                header = libc::CMSG_NXTHDR(message, header);
            }
        }
        None
    }
}

#[cfg(not(target_os = "linux"))]
mod portable {
    use super::{AsRawFd, Nanos, TcpStream, io};
    use mio::{Registry, Token};
    use std::io::Read;
    use std::time::Duration;

    /// Elsewhere the poll's own timeout is the alarm.
    pub(crate) struct Alarm;

    impl Alarm {
        pub(crate) fn new(_: &Registry, _: Token) -> io::Result<Self> {
            Ok(Self)
        }

        pub(crate) fn arm(&mut self, now: Nanos, at: Nanos) -> io::Result<Option<Duration>> {
            Ok(Some(Duration::from_nanos(at.since(now).0)))
        }
    }

    pub(crate) fn stamp_arrivals(_: &impl AsRawFd) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn receive(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
        let mut stream = stream;
        stream.read(buffer).map(|count| (count, None))
    }
}
