//! State at the end of the log. Every relay follows it, so that the next leader continues at once,
//! and holds what registered readers need.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use synod_binlog::{EventHeader, MysqlGtid, MysqlGtidSet};
use synod_node::{CommittedLog, FollowError, Followed, FollowedAction, Follower, LogHold, Seqno};
use synod_upstream::FilePosition;

use crate::lock;
use crate::pull::patience::Backoff;
use crate::upstream_log::entry::{Entry, Head, Note, Orders};
use crate::upstream_log::history::{GtidState, History};
use crate::upstream_log::registry::{Known, RegisteredReaders};
use crate::upstream_log::{KeptError, entry_after, entry_of};

const LONGEST_WAIT: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) why: String,
    /// The log of the group itself cannot be continued. Otherwise this relay cannot read its own
    /// at present: it tries again, and other relays may be able to.
    pub(crate) is_final: bool,
}

impl Broken {
    fn by(error: &KeptError) -> Broken {
        Broken {
            why: error.to_string(),
            is_final: matches!(error, KeptError::Gap(_)),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct End {
    /// The last action that was read.
    pub(crate) seqno: Seqno,
    /// Upstream's position; none: the log has no entry yet.
    pub(crate) state: Option<GtidState>,
    /// The same by MySQL's GTIDs; none: the upstream is MariaDB, or the log has no entry yet.
    pub(crate) mysql: Option<MysqlGtidSet>,
    pub(crate) mysql_newest: Option<MysqlGtid>,
    pub(crate) orders: Orders,
    pub(crate) registry: RegisteredReaders,
    /// End of the newest whole transaction in the upstream's binlog; an empty name: unknown.
    pub(crate) place: FilePosition,
    /// Arrival; none: before the start of this process.
    pub(crate) arrival: Option<Arrival>,
    /// Time at which this relay last saw the log level with the upstream; none: never, as another
    /// relay pulls, or more comes all the time.
    pub(crate) level_at: Option<Instant>,
    /// Why nothing more is read; none: the log is read.
    pub(crate) broken: Option<Broken>,
    pub(crate) is_stopped: bool,
}

/// The end of the log, followed by a thread.
#[derive(Default)]
pub(crate) struct Tail {
    end: Mutex<End>,
    moved: Condvar,
    /// Copy of the registry's forced purge, for readers, who ask at each action.
    forced: AtomicI64,
}

impl Tail {
    pub(crate) fn end(&self) -> End {
        lock(&self.end).clone()
    }

    /// Registry, as of the last action read.
    pub(crate) fn known(&self) -> Known {
        let end = lock(&self.end);
        Known {
            after: end.seqno,
            registry: end.registry.clone(),
        }
    }

    /// Whether a reader is registered, as of the last action that was read.
    pub(crate) fn has_registered_readers(&self) -> bool {
        !lock(&self.end).registry.readers.is_empty()
    }

    /// The upstream has nothing that is not in the log.
    pub(crate) fn is_level(&self) {
        lock(&self.end).level_at = Some(Instant::now());
    }

    /// Up to this action the log is purged even of what readers need; zero: nothing.
    pub(crate) fn forced(&self) -> Seqno {
        Seqno(self.forced.load(Ordering::Acquire))
    }

    /// Waits until everything up to `seqno` was read; false if that takes longer than `limit`, or
    /// the log cannot be read.
    pub(crate) fn await_seqno(&self, seqno: Seqno, limit: Duration) -> bool {
        let is_missing =
            |end: &mut End| end.seqno < seqno && end.broken.is_none() && !end.is_stopped;
        let waited = self
            .moved
            .wait_timeout_while(lock(&self.end), limit, is_missing);
        let (end, _) = waited.unwrap_or_else(PoisonError::into_inner);
        end.seqno >= seqno
    }

    /// Follows the log until the node stops: the body of a thread.
    pub(crate) fn run(self: &Arc<Self>, log: &CommittedLog) {
        self.follow(log);
        self.change(|end| end.is_stopped = true);
    }

    /// A read that fails is no end: a disk that lies may be well again, or descriptors may be free.
    fn follow(&self, log: &CommittedLog) {
        let old = log.written_seqno();
        let (mut reading, mut backoff) = (None, Backoff::new());
        while let Some(seen) = log.moves() {
            if log.readable_seqno() == Seqno(0) {
                log.wait_beyond(seen, Instant::now() + LONGEST_WAIT);
                continue;
            }
            match self.read(log, old, reading.take()) {
                Ok(read) => {
                    if read.is_some() && lock(&self.end).broken.is_some() {
                        self.change(|end| end.broken = None);
                        backoff.reset();
                    }
                    reading = read;
                    log.wait_beyond(seen, Instant::now() + LONGEST_WAIT);
                }
                Err(error) => {
                    let broken = Broken::by(&error);
                    let is_final = broken.is_final;
                    self.change(|end| end.broken = Some(broken));
                    if is_final {
                        return;
                    }
                    pause(log, backoff.next(true));
                }
            }
        }
    }

    /// Reads what there is. None: there is nothing to begin with yet, or the log was reset or
    /// purged meanwhile; it is read again.
    fn read(
        &self,
        log: &CommittedLog,
        old: Seqno,
        reading: Option<Reading>,
    ) -> Result<Option<Reading>, KeptError> {
        let read = reading.map_or_else(|| Reading::begin(log, old), |reading| Ok(Some(reading)));
        let read = read.and_then(|mut reading| {
            while let Some(reading) = &mut reading
                && reading.step(self)?
            {}
            Ok(reading)
        });
        match read {
            Err(KeptError::Follow(FollowError::Purged { .. })) => Ok(None),
            read => read,
        }
    }

    fn change(&self, change: impl FnOnce(&mut End)) {
        change(&mut lock(&self.end));
        self.moved.notify_all();
    }
}

/// Waits, however often the log moves meanwhile; not for a node that stops.
fn pause(log: &CommittedLog, time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until
        && let Some(seen) = log.moves()
    {
        log.wait_beyond(seen, until);
    }
}

/// The log, read from a place before its last whole transaction on.
struct Reading {
    log: CommittedLog,
    follower: Follower,
    /// History with, for each part, the action whose registry its head carries.
    history: History<Seqno>,
    registry: RegisteredReaders,
    /// Notes up to here are in the registry already.
    noted: Seqno,
    /// Notes that the newest transaction, or order since, does not know.
    new_notes: VecDeque<Seqno>,
    /// End of the log when this process started.
    old: Seqno,
    held: Option<LogHold>,
}

impl Reading {
    /// Begins where the newest transaction does, so that it is known whether that one is whole; or
    /// earlier, with the notes that its first entry does not know. None: it is not known yet that
    /// anything is committed which says what was registered.
    fn begin(log: &CommittedLog, old: Seqno) -> Result<Option<Reading>, KeptError> {
        let before_log = log.first_seqno().prev();
        let after = before_newest(log, before_log)?;
        let known = match entry_after(log, after)? {
            Some((_, head)) => head.known,
            // It begins with the group.
            None if before_log == Seqno(0) => Known::default(),
            None => return Ok(None),
        };
        let after = after.min(known.after).max(before_log);
        Ok(Some(Reading {
            log: log.clone(),
            follower: log.follow(after)?,
            history: History::new(),
            registry: known.registry,
            noted: known.after,
            new_notes: VecDeque::new(),
            old,
            held: None,
        }))
    }

    /// Takes the next action; false if there is none.
    fn step(&mut self, tail: &Tail) -> Result<bool, KeptError> {
        let action = match self.follower.advance()? {
            None => return Ok(false),
            Some(Followed::View(_)) => {
                tail.change(|end| end.seqno = self.follower.last());
                return Ok(true);
            }
            Some(Followed::Action(action)) => action,
        };
        match entry_of(&self.follower, &action)? {
            (Entry::Note(note), _) => self.note(tail, action.seqno, &note),
            (Entry::Head(head), events) => self.head(tail, &action, *head, &events)?,
        }
        Ok(true)
    }

    fn note(&mut self, tail: &Tail, seqno: Seqno, note: &Note) {
        if seqno > self.noted {
            self.registry.follow(self.history.passed(seqno), note);
            self.noted = seqno;
            self.new_notes.push_back(seqno);
        }
        self.obey();
        tail.forced.store(self.registry.forced.0, Ordering::Release);
        tail.change(|end| {
            end.seqno = seqno;
            end.registry = self.registry.clone();
        });
    }

    /// Holds and purges this relay's log as the registry says.
    fn obey(&mut self) {
        let before_log = self.log.first_seqno().prev();
        let slowest = self.registry.slowest(before_log);
        let passed = slowest.map(|(_, reader)| reader.passed);
        if self.held.as_ref().map(LogHold::passed) != passed {
            self.held = passed.map(|passed| self.log.hold_after(passed));
        }
        self.log.purge_up_to(self.registry.purged);
    }

    /// Keeps the newest transaction, or an order since, and the notes that it does not know: it
    /// says what was registered after the action `known`.
    fn hold_newest(&mut self, first: Seqno, known: Seqno) {
        self.new_notes.retain(|note| *note > known);
        let needed_after = before_needed(first, &self.new_notes);
        self.follower.hold_after(needed_after);
    }

    fn head(
        &mut self,
        tail: &Tail,
        action: &FollowedAction,
        mut head: Head,
        events: &[u8],
    ) -> Result<(), KeptError> {
        let (seqno, known) = (action.seqno, head.known.after);
        let whole = self.history.take(seqno, action.origin, &head, known)?;
        if let Some(whole) = &whole {
            let known = whole.parts.first().copied().unwrap_or_default();
            self.hold_newest(whole.first, known);
        } else if head.part.is_none() {
            self.hold_newest(seqno, known);
        }
        if known > self.noted {
            // A note before the first action that was read here may have been purged.
            self.registry = std::mem::take(&mut head.known.registry);
            self.noted = known;
        }
        self.obey();
        tail.forced.store(self.registry.forced.0, Ordering::Release);
        tail.change(|end| {
            end.seqno = seqno;
            end.state = self.history.state().cloned();
            end.mysql = self.history.mysql().cloned();
            if end.orders.address != head.orders.address {
                // Of another upstream.
                end.place = FilePosition::default();
            }
            end.orders = head.orders;
            end.registry = self.registry.clone();
            if let (Some(_), Some(part)) = (whole, head.part) {
                end.place = part.end;
                end.mysql_newest = part.mysql;
                end.arrival = (seqno > self.old).then(|| Arrival::of(events));
            }
        });
        Ok(())
    }
}

/// The last action that a relay does not need when it begins to read. The newest transaction, or an
/// order since, begins with the action `first`. It says where the upstream is, and what was
/// registered: it is kept, whatever is purged, and so are the notes that it does not know. What was
/// on its way with it is not needed, and may be more than a log may have.
fn before_needed(first: Seqno, new_notes: &VecDeque<Seqno>) -> Seqno {
    let oldest = new_notes.front().copied();
    oldest.map_or(first, |note| note.min(first)).prev()
}

/// The place before the first part of the newest transaction, or before an earlier one.
fn before_newest(log: &CommittedLog, before_log: Seqno) -> Result<Seqno, KeptError> {
    let mut after = log.readable_seqno().prev().max(before_log);
    let mut back = 1;
    while after > before_log {
        let found = entry_after(log, after)?;
        let number = found.map(|(_, head)| head.part.map_or(0, |part| part.number));
        let step = match number {
            Some(0) => break,
            // Views and notes may be between the parts: then it is looked at again.
            Some(number) => i64::from(number),
            None => {
                back *= 2;
                back
            }
        };
        after = Seqno(after.0.saturating_sub(step)).max(before_log);
    }
    Ok(after)
}

/// Events have whole seconds, and clocks that are kept alike differ by less than that.
const CLOCKS_DIFFER: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    at: Instant,
    delay: Option<Duration>,
}

impl Arrival {
    /// A transaction whose last part has these events has come just now.
    fn of(events: &[u8]) -> Arrival {
        let header = EventHeader::parse(events).ok();
        let written_s = header.map_or(0, |header| header.timestamp);
        Arrival {
            at: Instant::now(),
            delay: delay(SystemTime::now(), written_s),
        }
    }

    /// Delay from the first of these events, by the upstream's clock, to the log, by this one's;
    /// none: the event has no time, or one that has not come yet.
    pub(crate) fn delay(&self) -> Option<Duration> {
        self.delay
    }

    /// For how long none has come since.
    pub(crate) fn quiet(&self) -> Duration {
        self.at.elapsed()
    }
}

/// From `written_s`, in seconds since 1970, zero: no time, until `read`.
fn delay(read: SystemTime, written_s: u32) -> Option<Duration> {
    if written_s == 0 {
        return None;
    }
    let written = UNIX_EPOCH + Duration::from_secs(written_s.into());
    match read.duration_since(written) {
        Ok(delay) => Some(delay),
        Err(ahead) if ahead.duration() < CLOCKS_DIFFER => Some(Duration::ZERO),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestRelay;

    #[test]
    fn log_that_cannot_be_read_for_a_while_is_read_on() {
        let relay = TestRelay::begin("relay");
        let first = relay.order();
        relay.await_end("read", |end| end.seqno >= first);
        relay.break_reads();
        let second = relay.order();
        relay.await_end("broken", |end| end.broken.is_some());
        let end = relay.tail.end();
        assert!(!end.is_stopped && end.broken.is_some_and(|broken| !broken.is_final));
        relay.files.heal();
        relay.await_end("read on", |end| end.seqno >= second && end.broken.is_none());
    }

    #[test]
    fn newest_transaction_is_kept_with_the_notes_that_it_does_not_know() {
        let before = |notes: &[i64]| {
            let notes = notes.iter().copied().map(Seqno).collect();
            before_needed(Seqno(90), &notes)
        };
        assert_eq!(before(&[40, 60]), Seqno(39), "notes between");
        assert_eq!(before(&[95]), Seqno(89), "a note after it");
        assert_eq!(before(&[]), Seqno(89), "what was on its way is not needed");
    }

    const HOUR_S: u32 = 3600;

    fn delay_s(read_s: u64, written_s: u32) -> Option<u64> {
        let read = UNIX_EPOCH + Duration::from_secs(read_s);
        delay(read, written_s).map(|delay| delay.as_secs())
    }

    #[test]
    fn clock_of_the_upstream_may_be_behind_or_ahead() {
        let now_s = 500_000 * HOUR_S;
        assert_eq!(delay_s(now_s.into(), now_s - 2), Some(2));
        assert_eq!(delay_s(now_s.into(), now_s - 5 * HOUR_S), Some(5 * 3600));
        assert_eq!(delay_s(now_s.into(), now_s + 5 * HOUR_S), None);
        assert_eq!(delay_s(now_s.into(), u32::MAX), None);
        // Less than a second ahead.
        let read = UNIX_EPOCH + Duration::from_millis(u64::from(now_s) * 1000 - 300);
        assert_eq!(delay(read, now_s), Some(Duration::ZERO));
    }

    #[test]
    fn event_without_a_time_has_no_delay() {
        assert_eq!(delay_s(500_000 * 3600, 0), None);
        assert_eq!(Arrival::of(b"no event").delay(), None);
    }
}
