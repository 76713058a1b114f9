//! Readiness by epoll, edge-triggered as the client's own poll is, and one read per readiness.

use crate::load::Load;
use crate::receive::closed;
use crate::sys;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

/// As the client has it.
const READ_MAX: usize = 64 << 10;
const EVENTS: usize = 1_024;

pub(crate) struct Epoll {
    poll: OwnedFd,
    sockets: Vec<RawFd>,
    stamps: bool,
    events: Vec<libc::epoll_event>,
    buffer: Vec<u8>,
}

impl Epoll {
    pub(crate) fn new(load: &Load, stamps: bool) -> io::Result<Self> {
        let poll = sys::epoll_create()?;
        let sockets: Vec<RawFd> = load.sockets().collect();
        for (slot, &socket) in sockets.iter().enumerate() {
            sys::epoll_add(&poll, socket, slot as u64)?;
        }
        let events = Vec::with_capacity(EVENTS);
        Ok(Self { poll, sockets, stamps, events, buffer: vec![0; READ_MAX] })
    }

    pub(crate) fn turn(&mut self, load: &mut Load) -> io::Result<()> {
        sys::epoll_wait(&self.poll, &mut self.events)?;
        for at in 0..self.events.len() {
            self.read(self.events[at].u64 as usize, load)?;
        }
        Ok(())
    }

    fn read(&mut self, slot: usize, load: &mut Load) -> io::Result<()> {
        loop {
            let read = if self.stamps {
                sys::receive_stamped(self.sockets[slot], &mut self.buffer)
            } else {
                sys::receive(self.sockets[slot], &mut self.buffer).map(|bytes| (bytes, None))
            };
            match read {
                Ok((0, _)) => return Err(closed()),
                Ok((bytes, stamp)) => {
                    load.took(slot, &self.buffer[..bytes], stamp)?;
                    // A short read means that the socket is empty.
                    if bytes < READ_MAX {
                        return Ok(());
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            }
        }
    }
}
