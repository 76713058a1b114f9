//! Connections opened before the clock starts, so that no request of the run has to wait for one that could have
//! been had beforehand. What they cost is reported on its own, and never in a latency.

use crate::connection::{Connection, OpenError};
use crate::target::Target;
use mio::{Events, Interest, Poll, Token};
use std::io;
use std::time::{Duration, Instant};

/// Connections begun at once: more would overflow the accept queue of a server that has its default backlog.
const OPENING_AT_ONCE: usize = 64;

/// Connections that are ready, and how that went.
#[derive(Debug, Default)]
pub(crate) struct Warmed {
    /// Ready connections.
    pub(crate) ready: Vec<Connection>,
    /// Time from begin to usable of each, in order of completion.
    pub(crate) opening: Vec<Duration>,
    /// The first failure, if any.
    pub(crate) failure: Option<String>,
}

/// Opens connections, spread evenly over the targets. Failures are not fatal: the requests that miss a connection
/// open their own and report what happens.
pub(crate) fn open_connections(targets: &[Target], count: usize, limit: Duration) -> io::Result<Warmed> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(OPENING_AT_ONCE);
    let mut opening: Vec<Option<(Connection, Instant)>> = (0..OPENING_AT_ONCE).map(|_| None).collect();
    let mut warmed = Warmed::default();
    let (mut begun, mut open) = (0, 0);
    let give_up = Instant::now() + limit;
    while warmed.failure.is_none() && (begun < count || open > 0) {
        while begun < count && open < OPENING_AT_ONCE && warmed.failure.is_none() {
            let place = opening.iter().position(Option::is_none).unwrap_or(0);
            match begin(&poll, place, begun, targets) {
                Ok(connection) => opening[place] = Some((connection, Instant::now())),
                Err(message) => warmed.failure = Some(message),
            }
            open += usize::from(opening[place].is_some());
            begun += 1;
        }
        let left = give_up.saturating_duration_since(Instant::now());
        if left.is_zero() {
            warmed.failure = Some(format!("{open} connections were not ready after {limit:?}"));
            break;
        }
        poll.poll(&mut events, Some(left))?;
        for event in &events {
            let place = event.token().0;
            let Some((connection, started)) = &mut opening[place] else { continue };
            match progress(connection) {
                Ok(false) => continue,
                Ok(true) => warmed.opening.push(started.elapsed()),
                Err(e) => warmed.failure = Some(e.to_string()),
            }
            let (mut connection, _) = opening[place].take().expect("the place was just looked at");
            open -= 1;
            poll.registry().deregister(&mut connection.stream)?;
            if warmed.failure.is_none() {
                warmed.ready.push(connection);
            }
        }
    }
    Ok(warmed)
}

fn begin(poll: &Poll, place: usize, number: usize, targets: &[Target]) -> Result<Connection, String> {
    let target = number % targets.len();
    let id = u32::try_from(number).unwrap_or(u32::MAX);
    let mut connection = Connection::begin(id, target, &targets[target]).map_err(|e| match e {
        OpenError::Io(e) => e.to_string(),
        OpenError::Tls(e) => e.to_string(),
    })?;
    let interest = Interest::READABLE | Interest::WRITABLE;
    poll.registry().register(&mut connection.stream, Token(place), interest).map_err(|e| e.to_string())?;
    Ok(connection)
}

/// Drives TCP and TLS as far as they go.
fn progress(connection: &mut Connection) -> io::Result<bool> {
    if !connection.tcp_is_up()? {
        return Ok(false);
    }
    let mut buffer = [0; 16 << 10];
    while connection.is_encrypted() && !connection.is_open()? {
        match connection.receive(&mut buffer) {
            Ok(read) if read.bytes == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                connection.decrypt(&buffer[..read.bytes], &mut Vec::new())?;
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(e),
        }
    }
    connection.is_open()
}
