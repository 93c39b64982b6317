//! What a leader knows of one other member, and what it sends it next (flow control in the manner of
//! etcd raft's `tracker`; the modes are drawn below).
//!
//! ```text
//!              ack                       next older than the headers in memory
//!   Probe ------------> Stream ------------------------------> CatchUp
//!     ^  ^                |  ^------- ack, next in memory --------|
//!     |  |--- stall, -----|------------------ stall --------------|
//!     |     rejection, disconnect
//!     |                             next before the leader's log
//!     '--- (timeouts resend)        (any mode) ---------------> Install --ack--> Stream
//! ```

use std::collections::VecDeque;

use crate::commands::{Progress, ProgressMode};
use crate::message::LogBase;
use crate::params::{Limits, Timing};
use crate::tail::LogView;
use crate::types::{EntryHeader, EntryId, LogIndex, MemberId, Time};

/// Entries in one catch-up message.
const CATCH_UP_ENTRIES_MAX: u64 = 4096;

/// Size of an entry besides its payload, for flow control.
const HEADER_BYTES: u64 = 128;

/// Size of an entry for flow control.
pub(crate) fn cost_bytes(header: &EntryHeader) -> u64 {
    u64::from(header.payload_len) + HEADER_BYTES
}

/// One other member, as the leader sees it. All knowledge is of the leader's term.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Its log is durable and equal to ours up to here. Grows, but see `forget_lost`.
    pub(crate) match_index: LogIndex,
    /// Next entry to send; above `match_index`.
    next: LogIndex,
    mode: Mode,
    /// Its log turned out to be empty.
    blank: bool,
    /// When any answer of this term came.
    pub(crate) last_heard: Option<Time>,
    /// Latest time of ours that it echoed: its promise began then or later.
    pub(crate) echoed: Option<Time>,
    /// Latest read round it confirmed.
    pub(crate) read_round: u64,
    /// Commit index it was told and could use.
    pub(crate) commit_told: LogIndex,
    /// When it last said what is durable.
    acknowledged_at: Option<Time>,
    /// When an append was answered, or sent although there was nothing to send.
    checked_at: Time,
    /// Removed from the configuration; told so until then.
    pub(crate) leaving_until: Option<Time>,
}

#[derive(Debug)]
enum Mode {
    /// `sent`: when the outstanding probe went out. `empty`: without entries (a repetition).
    Probe { sent: Option<Time>, empty: bool },
    /// `inflight`: last index and bytes of each message. `moved_at`: last progress. `since`: when it began.
    Stream {
        since: Time,
        inflight: VecDeque<(LogIndex, u64)>,
        bytes: u64,
        moved_at: Time,
    },
    /// When the outstanding message went out.
    CatchUp { sent: Option<Time> },
    /// Where it was told to start, and when.
    Install { base: LogIndex, sent: Option<Time> },
}

/// What to send.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// An append without entries after `next - 1`.
    Empty { prev: EntryId },
    /// Entries.
    Entries {
        prev: EntryId,
        first: LogIndex,
        last: LogIndex,
        may_shorten: bool,
    },
    /// A base.
    Install(LogBase),
}

impl Peer {
    /// A member of which nothing is known; the first probe asks about the end of our log.
    pub(crate) fn new(next: LogIndex, now: Time) -> Peer {
        Peer {
            match_index: LogIndex(0),
            next,
            mode: Mode::Probe {
                sent: None,
                empty: false,
            },
            blank: false,
            last_heard: None,
            echoed: None,
            read_round: 0,
            commit_told: LogIndex(0),
            acknowledged_at: None,
            checked_at: now,
            leaving_until: None,
        }
    }

    /// For the outside.
    pub(crate) fn snapshot(&self, member: MemberId) -> Progress {
        let mode = match self.mode {
            Mode::Probe { .. } => ProgressMode::Probe,
            Mode::Stream { .. } => ProgressMode::Stream,
            Mode::CatchUp { .. } => ProgressMode::CatchUp,
            Mode::Install { .. } => ProgressMode::Install,
        };
        let (match_index, next_index) = (self.match_index, self.next);
        Progress {
            member,
            match_index,
            next_index,
            mode,
            last_heard: self.last_heard,
        }
    }

    /// The next message, if the mode's window allows one. Call until `None`.
    pub(crate) fn poll(
        &mut self,
        log: &LogView,
        limits: &Limits,
        install: Option<&LogBase>,
        now: Time,
    ) -> Option<Outgoing> {
        if self.needs_base(log, install) {
            return self.poll_install(log, install, now);
        }
        let prev_index = self.next.prev();
        let term = log.term_at(prev_index)?;
        let prev = EntryId {
            term,
            index: prev_index,
        };
        let in_memory = self.next >= log.tail_first() && self.next <= log.last().index;
        match &mut self.mode {
            Mode::Probe { sent: Some(_), .. } => None,
            Mode::Probe { sent, empty } => {
                *sent = Some(now);
                if *empty || !in_memory {
                    return Some(Outgoing::Empty { prev });
                }
                let (last, _) = fit(log, self.next, limits.append_bytes_max);
                Some(Outgoing::Entries {
                    prev,
                    first: self.next,
                    last,
                    may_shorten: false,
                })
            }
            Mode::Stream { .. } if self.next > log.last().index => None,
            Mode::Stream { .. } if !in_memory => {
                self.mode = Mode::CatchUp { sent: None };
                self.poll(log, limits, install, now)
            }
            Mode::Stream {
                inflight,
                bytes,
                moved_at,
                since: _,
            } => {
                let full = inflight.len() >= limits.inflight_messages_max.max(1)
                    || *bytes >= limits.inflight_bytes_max;
                if full && !inflight.is_empty() {
                    return None;
                }
                if inflight.is_empty() {
                    *moved_at = now;
                }
                let (last, cost) = fit(log, self.next, limits.append_bytes_max);
                inflight.push_back((last, cost));
                *bytes += cost;
                let first = self.next;
                self.next = last.next();
                Some(Outgoing::Entries {
                    prev,
                    first,
                    last,
                    may_shorten: false,
                })
            }
            Mode::CatchUp { sent: Some(_) } => None,
            Mode::CatchUp { sent } => {
                if self.next > log.last().index {
                    self.mode = Mode::stream(now);
                    return None;
                }
                *sent = Some(now);
                let last = LogIndex(self.next.0 + CATCH_UP_ENTRIES_MAX - 1).min(log.last().index);
                Some(Outgoing::Entries {
                    prev,
                    first: self.next,
                    last,
                    may_shorten: true,
                })
            }
            // Told to start somewhere that is in our log: wait for the answer.
            Mode::Install { sent: Some(_), .. } => None,
            Mode::Install { sent: None, .. } => self.poll_install(log, install, now),
        }
    }

    /// It lacks entries before our log, or is new and shall start at a base of its own.
    fn needs_base(&self, log: &LogView, install: Option<&LogBase>) -> bool {
        let before_our_log = self.next.prev() < log.base().last.index;
        let starts_elsewhere = self.blank && self.next == LogIndex(1) && install.is_some();
        before_our_log || starts_elsewhere
    }

    fn poll_install(
        &mut self,
        log: &LogView,
        install: Option<&LogBase>,
        now: Time,
    ) -> Option<Outgoing> {
        if matches!(self.mode, Mode::Install { sent: Some(_), .. }) {
            return None;
        }
        let base = install.unwrap_or(log.base()).clone();
        self.mode = Mode::Install {
            base: base.last.index,
            sent: Some(now),
        };
        Some(Outgoing::Install(base))
    }

    /// An append went out that carried this commit index.
    pub(crate) fn commit_sent(&mut self, commit: LogIndex) {
        match self.mode {
            // It will hold everything before `next` when it reads the message, unless one is lost.
            Mode::Stream { .. } => {
                self.commit_told = self.commit_told.max(commit.min(self.next.prev()));
            }
            // May be refused.
            Mode::Probe { .. } | Mode::CatchUp { .. } | Mode::Install { .. } => {}
        }
    }

    /// It said "durable up to `index`".
    pub(crate) fn acknowledged(&mut self, index: LogIndex, now: Time, log: &LogView) {
        let moved = index > self.match_index;
        self.match_index = self.match_index.max(index);
        (self.checked_at, self.acknowledged_at) = (now, Some(now));
        if moved {
            self.blank = false;
        }
        match &mut self.mode {
            Mode::Probe { .. } => self.restart(Mode::stream(now)),
            Mode::Stream {
                inflight,
                bytes,
                moved_at,
                since: _,
            } => {
                while let Some(&(last, cost)) = inflight.front() {
                    if last > index {
                        break;
                    }
                    *bytes -= cost;
                    inflight.pop_front();
                }
                if moved {
                    *moved_at = now;
                }
                self.next = self.next.max(self.match_index.next());
            }
            Mode::CatchUp { .. } if index < self.next => {}
            Mode::CatchUp { .. } => {
                let in_memory = self.match_index.next() >= log.tail_first();
                let mode = if in_memory {
                    Mode::stream(now)
                } else {
                    Mode::CatchUp { sent: None }
                };
                self.restart(mode);
            }
            Mode::Install { base, .. } => {
                if index >= *base {
                    self.restart(Mode::stream(now));
                }
            }
        }
    }

    /// It refused an append after `refused` that was sent at `sent_at`; the logs agree at `agreement` at
    /// best. False: stale.
    pub(crate) fn rejected(
        &mut self,
        refused: LogIndex,
        agreement: LogIndex,
        hint: EntryId,
        sent_at: Time,
    ) -> bool {
        self.forget_lost(refused, agreement, sent_at);
        let current = match &self.mode {
            Mode::Probe { .. } | Mode::CatchUp { .. } => refused == self.next.prev(),
            // One of a message that went out before this stream says nothing of it. Where messages overtake
            // each other there are many of those, and each would make all of the window go out again.
            Mode::Stream { since, .. } => refused > self.match_index && sent_at >= *since,
            Mode::Install { .. } => false,
        };
        if !current {
            return false;
        }
        self.blank = hint == EntryId::default() && self.match_index == LogIndex(0);
        self.commit_told = self.commit_told.min(self.match_index);
        self.next = agreement.max(self.match_index).next();
        self.mode = Mode::Probe {
            sent: None,
            empty: false,
        };
        true
    }

    /// It lacks what it once said is durable: its log was damaged, and it came back within this term. That is
    /// certain if the append it refuses was sent after its word arrived. To believe less of a member
    /// is always safe.
    fn forget_lost(&mut self, refused: LogIndex, agreement: LogIndex, sent_at: Time) {
        let later = self.acknowledged_at.is_some_and(|at| sent_at > at);
        if refused <= self.match_index && agreement < self.match_index && later {
            self.match_index = agreement;
        }
    }

    /// Its connection broke: nothing in flight will be answered. Waits before it probes.
    pub(crate) fn disconnected(&mut self, now: Time) {
        self.restart(Mode::Probe {
            sent: Some(now),
            empty: true,
        });
    }

    /// Its connection is there: probe at once.
    pub(crate) fn connected(&mut self) {
        self.restart(Mode::Probe {
            sent: None,
            empty: true,
        });
    }

    /// When `tick` has something to do.
    pub(crate) fn deadline(&self, timing: &Timing) -> Option<Time> {
        let retry = timing.retry_us;
        let mode = match &self.mode {
            Mode::Probe { sent, .. } => sent.map(|at| at.plus_us(retry)),
            Mode::Stream {
                inflight, moved_at, ..
            } if !inflight.is_empty() => Some(moved_at.plus_us(4 * retry)),
            Mode::Stream { .. } => Some(self.checked_at.plus_us(2 * retry)),
            Mode::CatchUp { sent } => sent.map(|at| at.plus_us(4 * retry)),
            Mode::Install { sent, .. } => sent.map(|at| at.plus_us(2 * retry)),
        };
        mode.into_iter().chain(self.leaving_until).min()
    }

    /// Sends again what got no answer. An idle stream is probed now and then, too: a follower that
    /// restarted unnoticed has forgotten how much of its log is known to be ours, and cannot take
    /// over the commit index before the next append.
    pub(crate) fn tick(&mut self, now: Time, timing: &Timing, log: &LogView) -> Option<Outgoing> {
        if self.deadline(timing).is_none_or(|deadline| now < deadline) {
            return None;
        }
        match &mut self.mode {
            Mode::Probe { sent, empty } => (*sent, *empty) = (None, true),
            Mode::Stream { inflight, .. } if inflight.is_empty() => {
                self.checked_at = now;
                let prev = self.next.prev();
                return log.term_at(prev).map(|term| Outgoing::Empty {
                    prev: EntryId { term, index: prev },
                });
            }
            Mode::Stream { .. } | Mode::CatchUp { .. } => {
                self.restart(Mode::Probe {
                    sent: None,
                    empty: true,
                });
            }
            Mode::Install { sent, .. } => *sent = None,
        }
        None
    }

    /// Whether a promotion would not hold up commits: it streams, close behind. And something of the log is
    /// durable there: without, it would not know the group after a crash, nor vote in it.
    pub(crate) fn is_caught_up(&self, commit: LogIndex, lag_max: u64) -> bool {
        let streams = matches!(self.mode, Mode::Stream { .. });
        streams && self.match_index > LogIndex(0) && self.match_index.0 + lag_max >= commit.0
    }

    /// Goes on after what is known to match. As long as nothing is, `next` is a search position and
    /// stays (starting over would take a member that lags for one that needs a base).
    fn restart(&mut self, mode: Mode) {
        if self.match_index > LogIndex(0) {
            self.next = self.match_index.next();
        }
        self.commit_told = self.commit_told.min(self.match_index);
        self.mode = mode;
    }
}

impl Mode {
    fn stream(now: Time) -> Mode {
        Mode::Stream {
            since: now,
            inflight: VecDeque::new(),
            bytes: 0,
            moved_at: now,
        }
    }
}

/// How far a message starting at `first` may go, and its bytes. At least one entry.
fn fit(log: &LogView, first: LogIndex, bytes_max: u64) -> (LogIndex, u64) {
    let mut end = (first, 0);
    for header in log.headers_from(first) {
        let bytes = end.1 + cost_bytes(header);
        if bytes > bytes_max && header.index > first {
            break;
        }
        end = (header.index, bytes);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tail::tests::log;
    use crate::types::Term;

    /// What goes out now, by first index.
    fn sent(peer: &mut Peer, log: &LogView, now: u64) -> Vec<u64> {
        let limits = Limits {
            append_bytes_max: 1,
            ..Limits::default()
        };
        let next = || peer.poll(log, &limits, None, Time(now));
        std::iter::from_fn(next)
            .map(|outgoing| match outgoing {
                Outgoing::Entries { first, .. } => first.0,
                Outgoing::Empty { prev } => prev.index.next().0,
                Outgoing::Install(base) => panic!("{base:?}"),
            })
            .collect()
    }

    fn refuse(peer: &mut Peer, refused: u64, sent_at: u64) -> bool {
        let term = Term(1);
        let index = LogIndex(1);
        let hint = EntryId { term, index };
        peer.rejected(LogIndex(refused), index, hint, Time(sent_at))
    }

    /// Messages overtake each other: the follower refuses all that come before their predecessors.
    #[test]
    fn window_goes_out_once_for_all_refusals_of_an_earlier_one() {
        let log = log(&[1; 6]);
        let mut peer = Peer::new(LogIndex(2), Time(0));
        assert_eq!(sent(&mut peer, &log, 0), [2]);
        peer.acknowledged(LogIndex(1), Time(10), &log);
        assert_eq!(sent(&mut peer, &log, 10), [2, 3, 4, 5, 6]);
        assert!(refuse(&mut peer, 3, 10));
        assert_eq!(sent(&mut peer, &log, 20), [2], "a probe");
        peer.acknowledged(LogIndex(2), Time(30), &log);
        assert_eq!(sent(&mut peer, &log, 30), [3, 4, 5, 6]);
        for refused in [5, 4] {
            assert!(!refuse(&mut peer, refused, 10), "of the window before");
            assert_eq!(sent(&mut peer, &log, 40), [0; 0]);
        }
        assert!(refuse(&mut peer, 5, 30), "of this one");
        assert_eq!(sent(&mut peer, &log, 50), [3]);
    }
}
