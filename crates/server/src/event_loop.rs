//! The loop: one thread, one poll, one heap of due times.
//!
//! Every playing connection is either in the heap with the due time of its next write, or blocked on its socket,
//! or silent for ever. The loop plays what is due, arms the alarm for the next due time, and polls. Deadlines are
//! absolute, so a late write does not delay the next.

mod engine;

use crate::answer::{Answer, End, Whole, json_answer, whole_answer};
use crate::clock::Clock;
use crate::conn::{Conn, Pending, Playing, State};
use crate::engine::{Simulated, Waiter};
use crate::fixed::{Fixed, FixedConfig, MODEL_LEN};
use crate::http::{Request, Step};
use crate::ledger::{Arrival, Ledger, Record};
use crate::order::Occasion;
use crate::route::{self, Route};
use crate::script::Scripts;
use crate::shape::{Shape, error_body};
use crate::truth::Truth;
use crate::truth_file::Fate;
use crate::{Service, Setup, StopHandle, sys};
use goodput_core::time::Nanos;
use mio::event::Event;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::time::Duration;

const LISTENER: Token = Token(0);
const ALARM: Token = Token(1);
const FIRST_CONN: usize = 2;
/// How often the stop flag is looked at when nothing happens.
const TICK: Nanos = Nanos::from_millis(20);
/// The last stretch before a due time is spent polling, because waking up from sleep takes about as long.
const SPIN: Nanos = Nanos::from_micros(30);
/// Writes between two looks at the sockets, so that neither starves the other.
const TURNS: usize = 32;
const READ_SIZE: usize = 256 * 1024;

/// A connection's next write, ordered by time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    due: Nanos,
    place: usize,
    /// Tells the connection from a later one at the same place.
    number: u64,
}

pub(crate) struct EventLoop {
    poll: Poll,
    alarm: sys::Alarm,
    listener: TcpListener,
    /// Accepting failed (too many open files) and is tried again at the next tick.
    accept_again: bool,
    conns: Vec<Option<Conn>>,
    free: Vec<usize>,
    next_number: u64,
    turns: BinaryHeap<Reverse<Turn>>,
    /// Requests waiting for a slot, by place and number of their connection.
    waiting: VecDeque<(usize, u64)>,
    serving: usize,
    clock: Clock,
    ledger: Ledger,
    fixed: Fixed,
    scripts: Option<Scripts>,
    engine: Option<Simulated>,
    scratch: Box<[u8]>,
}

impl EventLoop {
    pub(crate) fn new(listener: std::net::TcpListener, setup: Setup) -> io::Result<Self> {
        let clock = Clock::start();
        let (fixed, scripts, engine) = match setup.service {
            Service::Fixed(config) => (config, None, None),
            Service::Engine(config) => {
                let fixed = FixedConfig { incremental: config.incremental, ..FixedConfig::default() };
                let engine = Simulated::new(*config, Nanos(clock.unix(Nanos::ZERO)));
                (fixed, None, Some(engine.map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?))
            }
            Service::Script(plan) => {
                let scripts = Scripts::new(plan).ok_or_else(|| {
                    io::Error::new(
                        io::ErrorKind::InvalidInput,
                        "there is no script to play: give at least one",
                    )
                })?;
                (FixedConfig::default(), Some(scripts), None)
            }
        };
        let mode = match (&scripts, &engine) {
            (Some(_), _) => "script",
            (None, Some(_)) => "engine",
            (None, None) => "fixed",
        };
        listener.set_nonblocking(true)?;
        sys::make_room_for_files(&listener)?;
        sys::widen_backlog(&listener)?;
        sys::stamp_arrivals(&listener)?;
        let poll = Poll::new()?;
        let mut listener = TcpListener::from_std(listener);
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let alarm = sys::Alarm::new(poll.registry(), ALARM)?;
        Ok(Self {
            poll,
            alarm,
            listener,
            accept_again: false,
            conns: Vec::new(),
            free: Vec::new(),
            next_number: 0,
            turns: BinaryHeap::new(),
            waiting: VecDeque::new(),
            serving: 0,
            clock,
            ledger: Ledger::new(mode, clock, setup.truth_file),
            fixed: Fixed::new(fixed),
            scripts,
            engine,
            scratch: vec![0; READ_SIZE].into(),
        })
    }

    /// Serves until told to stop.
    pub(crate) fn run(mut self, stop: &StopHandle) -> io::Result<Truth> {
        let mut events = Events::with_capacity(1_024);
        while !stop.is_stopped() {
            let mut played = 0;
            while played < TURNS && self.play_next()? {
                played += 1;
            }
            self.play_engine()?;
            self.admit()?;
            // A client that has its last answer may read the truth file now; while answers are timed it has to wait.
            if self.serving == 0 {
                self.ledger.flush()?;
            }
            self.wait(&mut events)?;
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    ALARM => {}
                    Token(token) => self.on_socket(token - FIRST_CONN, event)?,
                }
            }
            if self.accept_again {
                self.accept();
            }
        }
        self.close_account()
    }

    /// Waits for sockets, at most until the next turn or the next look at the stop flag.
    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        let now = self.clock.now();
        let engine = self.engine.as_ref().and_then(Simulated::due);
        let turn = self.turns.peek().map(|Reverse(turn)| turn.due);
        let next = [turn, engine].into_iter().flatten().min().unwrap_or(Nanos::MAX);
        let timeout = if next.since(now) <= SPIN {
            Some(Duration::ZERO)
        } else {
            self.alarm.arm(now, next.since(SPIN).min(now + TICK))?
        };
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Plays the earliest turn if it is due.
    fn play_next(&mut self) -> io::Result<bool> {
        match self.turns.peek() {
            Some(Reverse(turn)) if turn.due <= self.clock.now() => {}
            _ => return Ok(false),
        }
        let Some(Reverse(turn)) = self.turns.pop() else { return Ok(false) };
        if self.is_current(turn.place, turn.number) {
            if let Some(conn) = &mut self.conns[turn.place] {
                conn.turn = None;
            }
            self.advance(turn.place)?;
        }
        Ok(true)
    }

    fn is_current(&self, place: usize, number: u64) -> bool {
        self.conns.get(place).and_then(Option::as_ref).is_some_and(|conn| conn.number == number)
    }

    /// Starts waiting requests while slots are free.
    fn admit(&mut self) -> io::Result<()> {
        while self.has_slot()
            && let Some((place, number)) = self.waiting.pop_front()
        {
            if !self.is_current(place, number) {
                continue;
            }
            let Some(conn) = &mut self.conns[place] else { continue };
            if let State::Waiting(pending) = std::mem::replace(&mut conn.state, State::Idle) {
                let now = self.clock.now();
                self.start(place, *pending, now)?;
            }
        }
        Ok(())
    }

    fn has_slot(&self) -> bool {
        self.fixed.config.slots.is_none_or(|slots| self.serving < slots.get())
    }

    fn accept(&mut self) {
        self.accept_again = false;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.add(stream),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => {
                        self.accept_again = true;
                        return;
                    }
                },
            }
        }
    }

    /// Puts a new connection into the table. One that is gone already is only dropped.
    fn add(&mut self, mut stream: mio::net::TcpStream) {
        let place = self.free.pop().unwrap_or(self.conns.len());
        if place == self.conns.len() {
            self.conns.push(None);
        }
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registry = self.poll.registry();
        let ready = stream
            .set_nodelay(true)
            .and_then(|()| registry.register(&mut stream, Token(place + FIRST_CONN), interest));
        if ready.is_err() {
            self.free.push(place);
            return;
        }
        self.ledger.accepted();
        self.conns[place] = Some(Conn::new(stream, self.next_number, self.clock.now()));
        self.next_number += 1;
    }

    /// Takes a connection out of the table; dropping its stream closes it.
    fn remove(&mut self, place: usize, end: End) -> io::Result<()> {
        let Some(conn) = self.conns[place].take() else { return Ok(()) };
        self.free.push(place);
        self.ledger.closed();
        let record = match conn.state {
            State::Idle => None,
            State::Waiting(pending) => Some(pending.record),
            State::Playing(playing) => {
                self.drop_from_engine(&playing.answer);
                playing.record.inspect(|_| self.serving -= 1)
            }
        };
        if end == End::Reset {
            sys::reset_on_close(&conn.stream)?;
        }
        record.map_or(Ok(()), |record| self.ledger.ended(&record, Fate::Disconnected))
    }

    fn on_socket(&mut self, place: usize, event: &Event) -> io::Result<()> {
        let Some(conn) = self.conns.get_mut(place).and_then(Option::as_mut) else { return Ok(()) };
        if event.is_writable() && conn.is_blocked() {
            self.advance(place)?;
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.read(place, event.is_read_closed() || event.is_error())?;
        }
        Ok(())
    }

    /// Reads what there is. `to_end` tells that the end of the stream is among it.
    fn read(&mut self, place: usize, to_end: bool) -> io::Result<()> {
        loop {
            let Some(conn) = &mut self.conns[place] else { return Ok(()) };
            match sys::receive(&conn.stream, &mut self.scratch) {
                Ok((0, _)) => return self.hang_up(place),
                Ok((count, stamp)) => {
                    let stamp = stamp.and_then(|unix| self.clock.at_unix(unix));
                    conn.newest = (stamp.unwrap_or_else(|| self.clock.now()), stamp.is_some());
                    conn.reader.feed(&self.scratch[..count]);
                    if conn.reader.is_overfull() {
                        return self.remove(place, End::Close);
                    }
                    // On an edge-triggered poll a short read has emptied the socket.
                    if count < READ_SIZE && !to_end {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.remove(place, End::Close),
            }
        }
        self.next_request(place)
    }

    /// The client is gone. A request that came whole before that still counts as arrived.
    fn hang_up(&mut self, place: usize) -> io::Result<()> {
        self.next_request(place)?;
        self.remove(place, End::Close)
    }

    /// Answers the next request of a connection if it is idle and the request whole.
    fn next_request(&mut self, place: usize) -> io::Result<()> {
        let Some(conn) = &mut self.conns[place] else { return Ok(()) };
        if !matches!(conn.state, State::Idle) {
            return Ok(());
        }
        match conn.reader.step() {
            Ok(Step::More) => return Ok(()),
            Ok(Step::Continue) => conn.say(b"HTTP/1.1 100 Continue\r\n\r\n"),
            Ok(Step::Request(request)) => return self.route(place, request),
            Err(bad) => {
                let body = error_body(bad.status, "BadRequestError", bad.message);
                let answer = json_answer(bad.status, &body, &[], &Request::default(), Nanos::ZERO);
                conn.state = State::playing(Answer::Whole(answer), None);
            }
        }
        self.advance(place)
    }

    fn route(&mut self, place: usize, request: Request) -> io::Result<()> {
        let route = Route::of(&request, self.fixed.config.incremental);
        if self.scripts.is_some() && !route.is_own() {
            return self.play_script(place, request);
        }
        let now = self.clock.now();
        if let Some(reply) = self.engine.as_mut().and_then(|engine| engine.reply(&request, now)) {
            let content_type = format!("content-type: {}", reply.content_type);
            let answer = whole_answer(reply.status, &reply.body, &[&content_type], &request, Nanos::ZERO);
            return self.play(place, Answer::Whole(answer), None);
        }
        let (status, body) = match route {
            Route::Generate(shape) => return self.generate(place, shape, request),
            Route::Models => (200, route::models(&self.fixed.config.model)),
            Route::Health => (200, Vec::new()),
            Route::Version => (200, route::version()),
            Route::Tokenize => route::tokenize(&request, MODEL_LEN),
            Route::Truth => (200, serde_json::to_vec(&self.truth()).map_err(io::Error::other)?),
            Route::TruthArrivals => {
                (200, serde_json::to_vec(&self.ledger.instants()).map_err(io::Error::other)?)
            }
            Route::TruthReset => {
                self.ledger.reset();
                self.fixed.reset();
                (200, b"{}".to_vec())
            }
            Route::Unknown => (404, route::unknown(&request)),
        };
        let answer: Whole = json_answer(status, &body, &[], &request, Nanos::ZERO);
        self.play(place, Answer::Whole(answer), None)
    }

    /// Begins an answer.
    fn play(&mut self, place: usize, answer: Answer, record: Option<Record>) -> io::Result<()> {
        let Some(conn) = &mut self.conns[place] else { return Ok(()) };
        self.serving += usize::from(record.is_some());
        conn.state = State::playing(answer, record);
        self.advance(place)
    }

    /// Opens the record of the request that just became whole.
    fn arrive(&mut self, place: usize, request_id: Option<String>) -> Option<(Record, Nanos)> {
        let conn = self.conns[place].as_ref()?;
        let (at, kernel) = conn.newest;
        let arrival = Arrival { at, kernel, connection: conn.number, accepted: conn.accepted };
        Some((self.ledger.arrived(arrival, request_id), at))
    }

    fn play_script(&mut self, place: usize, request: Request) -> io::Result<()> {
        let Some((record, arrived)) = self.arrive(place, request.request_id) else { return Ok(()) };
        let Some(scripts) = &mut self.scripts else { return Ok(()) };
        let answer = Answer::Script(scripts.next(arrived));
        self.play(place, answer, Some(record))
    }

    fn generate(&mut self, place: usize, shape: Shape, mut request: Request) -> io::Result<()> {
        let Some((record, arrived)) = self.arrive(place, request.request_id.take()) else { return Ok(()) };
        self.fixed.arrived(arrived);
        let pending = Pending { shape, request, record };
        if self.has_slot() && self.waiting.is_empty() {
            return self.start(place, pending, arrived);
        }
        let Some(conn) = &mut self.conns[place] else { return Ok(()) };
        self.waiting.push_back((place, conn.number));
        self.ledger.waiting(self.waiting.len());
        conn.state = State::Waiting(Box::new(pending));
        Ok(())
    }

    /// Begins an answer whose clock starts at `start`.
    fn start(&mut self, place: usize, pending: Pending, start: Nanos) -> io::Result<()> {
        let Pending { shape, request, record } = pending;
        let created = self.clock.unix(start) / 1_000_000_000;
        let occasion = Occasion { n: record.n, start, created };
        let Some(conn) = &self.conns[place] else { return Ok(()) };
        let waiter = Waiter { place, number: conn.number };
        let answer = match &mut self.engine {
            Some(engine) => engine.answer(shape, &request, occasion, waiter),
            None => self.fixed.answer(shape, &request, occasion),
        };
        let Some(conn) = &mut self.conns[place] else { return Ok(()) };
        conn.state = State::playing(answer, Some(record));
        self.serving += 1;
        // A request that the engine turns away hears of it before its head is written.
        self.deliver()?;
        self.advance(place)
    }

    /// Writes what is due on a connection and schedules what is not.
    fn advance(&mut self, place: usize) -> io::Result<()> {
        loop {
            let Some(conn) = &mut self.conns[place] else { return Ok(()) };
            match conn.flush(&self.clock, &mut self.ledger) {
                Ok(true) => {}
                // The poll says when the socket takes more.
                Ok(false) => return Ok(()),
                Err(_) => return self.remove(place, End::Close),
            }
            let State::Playing(playing) = &conn.state else { return Ok(()) };
            let Some(due) = playing.answer.due() else {
                return if playing.answer.awaits() { Ok(()) } else { self.end_answer(place) };
            };
            let now = self.clock.now();
            if due > now {
                // What is heard of an answer may bring it here again before its turn.
                if conn.turn.replace(due) != Some(due) {
                    self.turns.push(Reverse(Turn { due, place, number: conn.number }));
                }
                return Ok(());
            }
            conn.queue_due(now);
        }
    }

    /// After the last write of an answer.
    fn end_answer(&mut self, place: usize) -> io::Result<()> {
        let Some(conn) = &mut self.conns[place] else { return Ok(()) };
        let State::Playing(playing) = &mut conn.state else { return Ok(()) };
        let end = playing.answer.end();
        if end == End::Hang {
            return Ok(());
        }
        let (record, over) = (playing.record.take(), std::mem::replace(&mut conn.state, State::Idle));
        if let State::Playing(playing) = &over {
            self.drop_from_engine(&playing.answer);
        }
        if let Some(record) = record {
            self.serving -= 1;
            self.ledger.ended(&record, Fate::Finished)?;
        }
        match end {
            End::KeepAlive | End::Hang => self.next_request(place),
            End::Close | End::Reset => self.remove(place, end),
        }
    }

    /// Writes the lines of what is still open and gives the account.
    fn close_account(mut self) -> io::Result<Truth> {
        let truth = self.truth();
        for conn in self.conns.drain(..).flatten() {
            let record = match conn.state {
                State::Idle => None,
                State::Waiting(pending) => Some(pending.record),
                State::Playing(playing) => playing.record,
            };
            if let Some(record) = record {
                self.ledger.ended(&record, Fate::Open)?;
            }
        }
        self.ledger.flush()?;
        Ok(truth)
    }
}

impl State {
    fn playing(answer: Answer, record: Option<Record>) -> Self {
        Self::Playing(Box::new(Playing { answer, record }))
    }
}
