//! Completion by io_uring: one multishot receive per connection, which the kernel repeats by itself into buffers that it
//! takes from a shared ring (`io_uring_register_buf_ring(3)`, `io_uring_prep_recvmsg_multishot(3)`).
//!
//! Set up as cheaply as the interface allows: a single issuer, completions run when they are waited for and not by an
//! interrupt of the thread, registered sockets and a registered ring. Needs Linux 6.1.

use crate::load::Load;
use crate::receive::closed;
use crate::sys;
use io_uring::types::{BufRingEntry, Fixed, RecvMsgOut};
use io_uring::{IoUring, cqueue, opcode, squeue};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

/// The one group of buffers.
const GROUP: u16 = 0;
const PAGE: usize = 4096;

/// The buffers that the kernel fills.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffers {
    pub(crate) count: u16,
    pub(crate) bytes: u32,
}

pub(crate) struct Uring {
    /// Dropped first: the kernel must let go of the buffers before they are freed.
    ring: IoUring,
    pool: Pool,
    /// What a stamped read brings beside data. The kernel reads it when a receive is armed.
    message: Box<libc::msghdr>,
    stamps: bool,
    completed: Vec<cqueue::Entry>,
    rearmed: u64,
}

impl Uring {
    pub(crate) fn new(load: &Load, stamps: bool, buffers: Buffers) -> io::Result<Self> {
        if !buffers.count.is_power_of_two() {
            return Err(io::Error::other("--buffers must be a power of two"));
        }
        let sockets: Vec<RawFd> = load.sockets().collect();
        let entries = u32::try_from(sockets.len()).map_err(io::Error::other)?.next_power_of_two();
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_defer_taskrun()
            .setup_cqsize(entries.max(u32::from(buffers.count)) * 2)
            .build(entries)?;
        ring.submitter().register_files(&sockets)?;
        ring.submitter().register_ring_fd()?;
        let pool = Pool::register(&ring, buffers)?;
        // SAFETY: msghdr is plain data, and all-zero is its empty value.
        let mut message: Box<libc::msghdr> = Box::new(unsafe { std::mem::zeroed() });
        message.msg_controllen = sys::CONTROL_BYTES as _;
        let mut uring = Self { ring, pool, message, stamps, completed: Vec::new(), rearmed: 0 };
        for slot in 0..sockets.len() {
            uring.arm(slot)?;
        }
        uring.ring.submit()?;
        Ok(uring)
    }

    pub(crate) const fn rearmed(&self) -> u64 {
        self.rearmed
    }

    pub(crate) fn turn(&mut self, load: &mut Load) -> io::Result<()> {
        self.ring.submit_and_wait(1)?;
        let mut completed = std::mem::take(&mut self.completed);
        completed.extend(self.ring.completion());
        for entry in completed.drain(..) {
            self.take(&entry, load)?;
        }
        self.completed = completed;
        self.pool.publish();
        Ok(())
    }

    fn take(&mut self, entry: &cqueue::Entry, load: &mut Load) -> io::Result<()> {
        let slot = entry.user_data() as usize;
        if !cqueue::more(entry.flags()) {
            self.rearmed += 1;
            self.arm(slot)?;
        }
        let length = match entry.result() {
            result if result == -libc::ENOBUFS => return Ok(()),
            result => usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))?,
        };
        let Some(buffer) = cqueue::buffer_select(entry.flags()) else { return Err(closed()) };
        let filled = self.pool.filled(buffer, length);
        if self.stamps {
            let out = RecvMsgOut::parse(filled, &self.message).map_err(|()| {
                io::Error::other("a buffer is too small for the head of a message; raise --buffer-bytes")
            })?;
            if out.payload_data().is_empty() {
                return Err(closed());
            }
            load.took(slot, out.payload_data(), sys::stamp_in(out.control_data()))?;
        } else {
            load.took(slot, filled, None)?;
        }
        self.pool.give_back(buffer);
        Ok(())
    }

    fn arm(&mut self, slot: usize) -> io::Result<()> {
        let socket = Fixed(u32::try_from(slot).map_err(io::Error::other)?);
        let entry = if self.stamps {
            opcode::RecvMsgMulti::new(socket, &raw const *self.message, GROUP).build()
        } else {
            opcode::RecvMulti::new(socket, GROUP).build()
        };
        self.push(&entry.user_data(slot as u64))
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the entry points at `message` alone, which is boxed and lives as long as the ring.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }
}

/// The ring of buffers, shared with the kernel: it takes from the head, we append to the tail.
struct Pool {
    memory: NonNull<u8>,
    layout: Layout,
    buffers: Buffers,
    /// Where the first buffer begins, after the ring itself.
    start: usize,
    tail: u16,
}

impl Pool {
    fn register(ring: &IoUring, buffers: Buffers) -> io::Result<Self> {
        let start = (usize::from(buffers.count) * size_of::<BufRingEntry>()).next_multiple_of(PAGE);
        let size = start + usize::from(buffers.count) * buffers.bytes as usize;
        let layout = Layout::from_size_align(size, PAGE).map_err(io::Error::other)?;
        // SAFETY: the layout is not empty, since a power of two is at least 1.
        let memory =
            NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        let mut pool = Self { memory, layout, buffers, start, tail: 0 };
        // SAFETY: the memory is page-aligned, holds `count` entries, and `Uring` drops the ring before the pool.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(memory.as_ptr() as u64, buffers.count, GROUP, 0)?;
        }
        for buffer in 0..buffers.count {
            pool.give_back(buffer);
        }
        pool.publish();
        Ok(pool)
    }

    /// What the kernel wrote into a buffer that it has handed over.
    fn filled(&self, buffer: u16, length: usize) -> &[u8] {
        let at = self.start + usize::from(buffer) * self.buffers.bytes as usize;
        // SAFETY: the kernel says which buffer of ours it filled and how far, and leaves it alone until it is given
        // back. That borrows the pool mutably, so the slice is gone by then.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(at), length) }
    }

    /// Lets the kernel have a buffer again, from the next [`Pool::publish`] on.
    fn give_back(&mut self, buffer: u16) {
        let at = usize::from(self.tail & (self.buffers.count - 1));
        let data = self.start + usize::from(buffer) * self.buffers.bytes as usize;
        // SAFETY: entry `at` is inside the ring and, being behind the tail, not the kernel's.
        unsafe {
            let entry = &mut *self.memory.as_ptr().cast::<BufRingEntry>().add(at);
            entry.set_addr(self.memory.as_ptr().add(data) as u64);
            entry.set_len(self.buffers.bytes);
            entry.set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&mut self) {
        // SAFETY: the tail lies in the first entry of the ring; both sides access it atomically.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.memory.as_ptr().cast()).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and the ring that knew of it is gone.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}
