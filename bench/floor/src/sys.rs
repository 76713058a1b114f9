//! System calls without a safe interface in the standard library.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// CPU seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuTime {
    pub(crate) total: f64,
    pub(crate) user: f64,
}

impl CpuTime {
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { total: self.total - earlier.total, user: self.user - earlier.user }
    }
}

/// What this process has used so far, kernel workers of its io_uring included.
pub(crate) fn cpu_time() -> io::Result<CpuTime> {
    // SAFETY: rusage is plain data, all-zero is a value of it, and it outlives the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        check(libc::getrusage(libc::RUSAGE_SELF, &raw mut usage))?;
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    let user = seconds(usage.ru_utime);
    Ok(CpuTime { total: user + seconds(usage.ru_stime), user })
}

/// Lets this process have as many open files as it may.
pub(crate) fn raise_file_limit() -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives both calls.
    unsafe {
        check(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit))?;
        limit.rlim_cur = limit.rlim_max;
        check(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit)).map(drop)
    }
}

/// Asks the kernel to stamp received data in software.
pub(crate) fn enable_receive_stamps(socket: RawFd) -> io::Result<()> {
    let flags: libc::c_uint = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    let size = size_of_val(&flags) as libc::socklen_t;
    // SAFETY: pointer and size describe `flags`, which outlives the call.
    let set = unsafe {
        libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, (&raw const flags).cast(), size)
    };
    check(set).map(drop)
}

pub(crate) fn epoll_create() -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed, and nobody else owns the new descriptor.
    unsafe { check(libc::epoll_create1(libc::EPOLL_CLOEXEC)).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// Watches a socket for data, edge-triggered.
pub(crate) fn epoll_add(poll: &OwnedFd, socket: RawFd, token: u64) -> io::Result<()> {
    let events = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
    let mut event = libc::epoll_event { events, u64: token };
    // SAFETY: `event` outlives the call.
    check(unsafe { libc::epoll_ctl(poll.as_raw_fd(), libc::EPOLL_CTL_ADD, socket, &raw mut event) }).map(drop)
}

/// Waits without end, and leaves in `events` as many as there are, up to its capacity.
pub(crate) fn epoll_wait(poll: &OwnedFd, events: &mut Vec<libc::epoll_event>) -> io::Result<()> {
    events.clear();
    let room = libc::c_int::try_from(events.capacity()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel writes at most `room` events into the vector's own memory and says how many.
    unsafe {
        let ready = check(libc::epoll_wait(poll.as_raw_fd(), events.as_mut_ptr(), room, -1))?;
        events.set_len(ready as usize);
    }
    Ok(())
}

/// Reads once without blocking.
pub(crate) fn receive(socket: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length describe `buffer`.
    let read = unsafe { libc::recv(socket, buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Reads once without blocking, with the kernel's receive stamp in nanoseconds of CLOCK_REALTIME.
pub(crate) fn receive_stamped(socket: RawFd, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    // One SCM_TIMESTAMPING (three timespecs) and its header, aligned as cmsghdr wants it.
    let mut control = [0u64; CONTROL_BYTES / 8];
    let mut iov = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: msghdr is plain data, and all-zero is its empty value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut iov;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_BYTES as _;
    // SAFETY: every pointer in `message` refers to a live local buffer of the stated length.
    let read = unsafe { libc::recvmsg(socket, &raw mut message, libc::MSG_DONTWAIT) };
    let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    Ok((read, stamp_of(&message)))
}

/// Room for one SCM_TIMESTAMPING: a header of 16 bytes and three timespecs.
pub(crate) const CONTROL_BYTES: usize = 64;

fn stamp_of(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel filled msg_control up to msg_controllen; the CMSG walk stays inside it.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_TIMESTAMPING {
                let stamp: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(header).cast());
                return nanoseconds(stamp);
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}

/// The stamp in the control data of a multishot receive.
pub(crate) fn stamp_in(control: &[u8]) -> Option<u64> {
    const DATA: usize = size_of::<libc::cmsghdr>();
    if control.len() < DATA + size_of::<libc::timespec>() {
        return None;
    }
    // SAFETY: both reads are inside `control`, need no alignment, and any bytes are values of these types.
    let (header, stamp): (libc::cmsghdr, libc::timespec) = unsafe {
        (
            control.as_ptr().cast::<libc::cmsghdr>().read_unaligned(),
            control.as_ptr().add(DATA).cast::<libc::timespec>().read_unaligned(),
        )
    };
    let known = header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_TIMESTAMPING;
    known.then_some(stamp).and_then(nanoseconds)
}

fn nanoseconds(stamp: libc::timespec) -> Option<u64> {
    let ns = stamp.tv_sec as u64 * 1_000_000_000 + stamp.tv_nsec as u64;
    (ns != 0).then_some(ns)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
