//! One way of receiving, chosen once for a run.

use crate::epoll::Epoll;
use crate::load::Load;
use crate::uring::{Buffers, Uring};
use std::io;

pub(crate) enum Receiver {
    Epoll(Epoll),
    Uring(Box<Uring>),
}

impl Receiver {
    pub(crate) fn epoll(load: &Load, stamps: bool) -> io::Result<Self> {
        Epoll::new(load, stamps).map(Self::Epoll)
    }

    pub(crate) fn uring(load: &Load, stamps: bool, buffers: Buffers) -> io::Result<Self> {
        Uring::new(load, stamps, buffers).map(|uring| Self::Uring(Box::new(uring)))
    }

    /// Waits until something has come, and takes all that has.
    pub(crate) fn turn(&mut self, load: &mut Load) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.turn(load),
            Self::Uring(uring) => uring.turn(load),
        }
    }

    pub(crate) fn rearmed(&self) -> u64 {
        match self {
            Self::Epoll(_) => 0,
            Self::Uring(uring) => uring.rearmed(),
        }
    }
}

/// The peer closed a connection that should have been kept.
pub(crate) fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed a connection; it must keep them alive")
}
