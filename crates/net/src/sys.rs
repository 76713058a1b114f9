//! The few system calls that have no safe wrapper here. The only module of the crate with `unsafe`.
#![expect(
    unsafe_code,
    reason = "socket options, ancillary data and resource limits have no safe std interface"
)]

use std::io;
use std::os::fd::RawFd;

/// One read with the kernel's receive stamp, if it came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StampedRead {
    /// Bytes read; 0 is the end of the stream.
    pub(crate) bytes: usize,
    /// Nanoseconds of CLOCK_REALTIME at which the newest of these bytes reached this machine.
    pub(crate) realtime_ns: Option<u64>,
}

/// Asks the kernel to stamp received data in software. Without effect where the platform has no such thing.
pub(crate) fn enable_receive_stamps(fd: RawFd) {
    #[cfg(target_os = "linux")]
    {
        let flags: libc::c_uint = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
        // SAFETY: the pointer and the length describe `flags`, which outlives the call.
        unsafe {
            libc::setsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPING,
                (&raw const flags).cast(),
                size_of_val(&flags) as libc::socklen_t,
            );
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = fd;
}

/// Reads once without blocking, with the arrival stamp as ancillary data.
pub(crate) fn receive(fd: RawFd, buffer: &mut [u8]) -> io::Result<StampedRead> {
    // Room for one SCM_TIMESTAMPING (three timespecs) and its header, aligned as cmsghdr wants it.
    let mut control = [0u64; 16];
    let mut iov = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: msghdr is plain data, and all-zero is its empty value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut iov;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: every pointer in `message` refers to a live local buffer of the stated length.
    let read = unsafe { libc::recvmsg(fd, &raw mut message, libc::MSG_DONTWAIT) };
    if read < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(StampedRead { bytes: read as usize, realtime_ns: stamp_of(&message) })
}

#[cfg(target_os = "linux")]
fn stamp_of(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel filled msg_control up to msg_controllen; the CMSG walk stays inside it.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_TIMESTAMPING {
                let stamp: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(header).cast());
                let ns = stamp.tv_sec as u64 * 1_000_000_000 + stamp.tv_nsec as u64;
                return (ns != 0).then_some(ns);
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}

#[cfg(not(target_os = "linux"))]
fn stamp_of(_message: &libc::msghdr) -> Option<u64> {
    None
}

/// Whether an idle connection is unusable: closed by the peer, broken, or holding bytes nobody asked for.
pub(crate) fn is_stale(fd: RawFd) -> bool {
    let mut byte = 0u8;
    // SAFETY: one byte is read into one live byte, without removing it from the socket.
    let peeked = unsafe { libc::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_PEEK | libc::MSG_DONTWAIT) };
    peeked >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock
}

/// Nanoseconds of CLOCK_REALTIME.
pub(crate) fn realtime_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// CPU time this process has used, all threads together.
pub(crate) fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time the calling thread has used.
pub(crate) fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live timespec.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Lets the calling thread's timed waits end on time instead of up to 50 us later, which is Linux's default slack.
pub(crate) fn sharpen_timers() {
    #[cfg(target_os = "linux")]
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches only the calling thread.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0);
    }
}

/// Makes the calling thread, which sleeps most of the time and works a few microseconds at a time, run as soon as it is
/// woken, also where it shares a core with busy threads. Says whether the system gave it the right to (`true`), or only
/// what is left to everyone.
///
/// The right is the lowest real-time priority (`sched_setscheduler(2)`), before which no ordinary thread keeps a core.
/// Without it, Linux 6.12 and later let every thread choose the length of its turns (`sched_runtime` in
/// `sched_setattr(2)`), and one with short turns may cut into a longer turn of another.
pub(crate) fn be_punctual() -> bool {
    sharpen_timers();
    #[cfg(target_os = "linux")]
    {
        let lowest = libc::sched_param { sched_priority: 1 };
        // SAFETY: the call gets a live sched_param and touches only the calling thread.
        let real_time = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const lowest) == 0 };
        if !real_time {
            shorten_turns();
        }
        real_time
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// The shortest turns that the kernel gives, in nanoseconds.
#[cfg(target_os = "linux")]
const SHORT_TURN_NS: u64 = 100_000;

#[cfg(target_os = "linux")]
fn shorten_turns() {
    const OF_THIS_THREAD: libc::pid_t = 0;
    const NO_FLAGS: libc::c_uint = 0;
    let size = size_of::<libc::sched_attr>() as libc::c_uint;
    // SAFETY: sched_attr is plain data; both calls get a live one of the stated size and touch only the calling thread.
    unsafe {
        let mut attributes: libc::sched_attr = std::mem::zeroed();
        let got = libc::syscall(libc::SYS_sched_getattr, OF_THIS_THREAD, &raw mut attributes, size, NO_FLAGS);
        // Other policies have no such turns, or the user's own choice.
        if got == 0 && attributes.sched_policy == libc::SCHED_OTHER as u32 {
            attributes.sched_runtime = SHORT_TURN_NS;
            libc::syscall(libc::SYS_sched_setattr, OF_THIS_THREAD, &raw const attributes, NO_FLAGS);
        }
    }
}

/// Has the kernel grow this process's table of open files now. Left to itself it grows at 64, 128, 256, ... files, and
/// in a process with threads each growth waits for an RCU grace period: a stall of 10 ms and more inside the run.
pub(crate) fn make_room_for_files(files: u64) {
    let highest = libc::c_int::try_from(files).unwrap_or(libc::c_int::MAX);
    // SAFETY: standard error is duplicated to a high number and the copy closed at once; no memory is passed.
    unsafe {
        let copy = libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, highest);
        if copy >= 0 {
            libc::close(copy);
        }
    }
}

/// The soft and the hard limit of open files; zeros if the system does not say.
pub(crate) fn file_limits() -> (u64, u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call gets a live rlimit.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    (limit.rlim_cur, limit.rlim_max)
}

/// Raises the soft limit of open files to the hard one and returns what it is now.
pub(crate) fn raise_file_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a live rlimit.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
            return 0;
        }
        if limit.rlim_cur < limit.rlim_max {
            let wanted = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) == 0 {
                return limit.rlim_max;
            }
        }
    }
    limit.rlim_cur
}
