//! Replication progress of one other member at the leader, and the entries to send to it next.
//!
//! Flow control follows etcd raft's `tracker`: a member is in one of four modes, each with a window
//! of its own. Nothing here decides what is committed; [`super::leader`] counts `match_index`.
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

/// Most entries in one catch-up message.
const CATCH_UP_ENTRIES_MAX: u64 = 4096;

/// Size of an entry besides its payload, for flow control.
const HEADER_BYTES: u64 = 128;

pub(crate) fn cost_bytes(header: &EntryHeader) -> u64 {
    u64::from(header.payload_len) + HEADER_BYTES
}

/// One other member, as the leader sees it. Everything here was learned in the leader's term.
/// Invariant: `0 <= match_index < next <= last entry of the leader's log + 1`. (In `Install`, a
/// late acknowledgement may raise `match_index` first; `next` follows when the base is
/// acknowledged.)
#[derive(Debug)]
pub(crate) struct Peer {
    /// The highest index up to which the member's log is known to be durable and equal to the
    /// leader's. Zero: nothing is known. The leader counts it for commits. Grows, except when the
    /// member turns out to have lost its log's end (`lower_match_index`).
    pub(crate) match_index: LogIndex,
    /// The next entry to send. In `Probe` and `CatchUp` nothing above `next - 1` is known to have
    /// arrived. In `Stream` entries from `match_index + 1` to `next - 1` are in flight. Invariant:
    /// above `match_index`.
    next: LogIndex,
    /// The last entry that was ever sent in a stream. What is sent again is sent with payloads.
    sent_until: LogIndex,
    mode: Mode,
    /// The member has reported that its log is empty, and nothing was acknowledged since. Only to
    /// such a member a base is sent although the leader's log has all entries. Invariant: if set,
    /// `match_index` is zero.
    has_empty_log: bool,
    /// When the leader last received any answer of its term from the member; `None`: not yet.
    /// Check-quorum and promotion look at it.
    pub(crate) last_heard: Option<Time>,
    /// Highest read round that the member has confirmed; zero: none. Invariant: at most the
    /// leader's latest round.
    pub(crate) read_round: u64,
    /// Highest commit index that was sent when the member was expected to hold the entries. A
    /// higher one is sent at once. Invariant: below `next`.
    commit_sent: LogIndex,
    /// When the latest acknowledgement arrived; `None`: none in this term.
    acknowledged_at: Option<Time>,
    /// When the latest acknowledgement arrived, or the latest probe of an idle stream was sent. At
    /// first the time when the leader began to track the member.
    checked_at: Time,
    /// An entry whose way to the member's disk is timed, and when the leader appended it.
    timed: Option<(LogIndex, Time)>,
    /// The latest such way: when the acknowledgement arrived, and how long after the appending, in
    /// microseconds. The times that acknowledgements echo would not tell: the member may have held
    /// the entries of the message already.
    written: Option<(Time, u64)>,
    /// If the member was removed from the configuration: until when it is still sent the log, so
    /// that it learns of its removal. `None`: it is configured.
    pub(crate) leaving_until: Option<Time>,
    /// Base at which the member's log has to start, if it needs one. `None`: the start of the
    /// leader's own log, or the member has acknowledged that its log starts at the base.
    install_base: Option<LogBase>,
}

#[derive(Debug)]
enum Mode {
    /// Searches for the position where the logs agree, one message at a time.
    Probe {
        /// When the outstanding message was sent; `None`: none is outstanding.
        sent: Option<Time>,
        /// Whether the next message goes without entries: the one before may be lost.
        empty: bool,
    },
    /// Sends from memory, without waiting, as far as the window allows.
    Stream {
        /// When the stream began. Refusals of earlier messages do not concern it.
        since: Time,
        /// Last index and cost in bytes of each message without an acknowledgement.
        inflight: VecDeque<(LogIndex, u64)>,
        /// Sum of the costs in `inflight`.
        bytes: u64,
        /// When `match_index` last rose, or the first message of the present window was sent.
        moved_at: Time,
    },
    /// Sends what is no longer in memory from the leader's disk, one large message at a time.
    CatchUp {
        /// When the outstanding message was sent; `None`: none is outstanding.
        sent: Option<Time>,
    },
    /// Has sent a base, and waits until the member's log starts there.
    Install {
        base: LogIndex,
        /// When the base was sent; `None`: it has to be sent again.
        sent: Option<Time>,
    },
}

#[derive(Debug)]
pub(crate) enum Outgoing {
    Empty {
        prev: EntryId,
    },
    Entries {
        prev: EntryId,
        first: LogIndex,
        last: LogIndex,
        is_first_time: bool,
        may_shorten: bool,
    },
    Install(LogBase),
}

impl Peer {
    /// Begins at the end of the leader's log, where the first probe looks.
    pub(crate) fn new(next: LogIndex, now: Time) -> Peer {
        Peer {
            match_index: LogIndex(0),
            next,
            sent_until: LogIndex(0),
            mode: Mode::Probe {
                sent: None,
                empty: false,
            },
            has_empty_log: false,
            last_heard: None,
            read_round: 0,
            commit_sent: LogIndex(0),
            acknowledged_at: None,
            checked_at: now,
            timed: None,
            written: None,
            leaving_until: None,
            install_base: None,
        }
    }

    pub(crate) fn acknowledged_at(&self) -> Option<Time> {
        self.acknowledged_at
    }

    pub(crate) fn set_install_base(&mut self, base: LogBase) {
        self.install_base = Some(base);
    }

    /// The base set for the member, if it is committed and not before the leader's own.
    pub(crate) fn usable_base(&self, log: &LogView, commit: LogIndex) -> Option<LogBase> {
        let is_usable = |base: &&LogBase| {
            base.last.index <= commit && base.last.index > LogIndex(0) && log.holds(base.last)
        };
        self.install_base.as_ref().filter(is_usable).cloned()
    }

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

    /// The next message, if the mode's window allows one. The leader calls this until `None`.
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
        let prev = EntryId::new(term, prev_index);
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
                    is_first_time: false,
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
                let is_first_time = first > self.sent_until;
                self.sent_until = self.sent_until.max(last);
                Some(Outgoing::Entries {
                    prev,
                    first,
                    last,
                    is_first_time,
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
                    is_first_time: false,
                    may_shorten: true,
                })
            }
            // The base that it was sent is in the leader's log: wait for the answer.
            Mode::Install { sent: Some(_), .. } => None,
            Mode::Install { sent: None, .. } => self.poll_install(log, install, now),
        }
    }

    /// Whether the member lacks entries before the leader's log, or is new and shall start at the
    /// base set for it.
    fn needs_base(&self, log: &LogView, install: Option<&LogBase>) -> bool {
        let before_the_log = self.next.prev() < log.base().last.index;
        let has_own_base = self.has_empty_log && self.next == LogIndex(1) && install.is_some();
        before_the_log || has_own_base
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

    /// How far the member is expected to hold the leader's log when it reads what is sent now.
    fn expected_end(&self) -> LogIndex {
        match self.mode {
            // It will hold everything before `next`, unless a message is lost.
            Mode::Stream { .. } => self.next.prev(),
            // It may refuse what is under way.
            Mode::Probe { .. } | Mode::CatchUp { .. } | Mode::Install { .. } => self.match_index,
        }
    }

    pub(crate) fn note_append_sent(&mut self, commit: LogIndex) {
        // Otherwise the member may refuse it.
        if matches!(self.mode, Mode::Stream { .. }) {
            self.usable_commit(commit);
        }
    }

    /// Whether the member has use for a message with this commit index.
    pub(crate) fn lacks_commit(&self, commit: LogIndex) -> bool {
        commit.min(self.expected_end()) > self.commit_sent
    }

    /// The part of the commit index that the member can use. It counts as sent.
    pub(crate) fn usable_commit(&mut self, commit: LogIndex) -> LogIndex {
        let usable = commit.min(self.expected_end());
        self.commit_sent = self.commit_sent.max(usable);
        usable
    }

    pub(crate) fn acknowledged(&mut self, index: LogIndex, now: Time, log: &LogView) {
        let moved = index > self.match_index;
        self.match_index = self.match_index.max(index);
        self.install_base.take_if(|base| base.last.index <= index);
        (self.checked_at, self.acknowledged_at) = (now, Some(now));
        if let Some((_, appended)) = self.timed.take_if(|(timed, _)| *timed <= index) {
            self.written = Some((now, now.since_us(appended)));
        }
        if moved {
            self.has_empty_log = false;
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

    /// The member has refused an append after `refused` that was sent at `sent_at`. The logs agree
    /// at `agreement` at best; `hint` is what the member has there. False: the refusal is stale.
    pub(crate) fn rejected(
        &mut self,
        refused: LogIndex,
        agreement: LogIndex,
        hint: EntryId,
        sent_at: Time,
    ) -> bool {
        self.lower_match_index(refused, agreement, sent_at);
        let current = match &self.mode {
            Mode::Probe { .. } | Mode::CatchUp { .. } => refused == self.next.prev(),
            // A refusal of a message from before this stream does not concern it. Where messages
            // overtake each other there are many of those, and each would cause the whole window to
            // be sent again.
            Mode::Stream { since, .. } => refused > self.match_index && sent_at >= *since,
            Mode::Install { .. } => false,
        };
        if !current {
            return false;
        }
        self.has_empty_log = hint == EntryId::default() && self.match_index == LogIndex(0);
        self.commit_sent = self.commit_sent.min(self.match_index);
        self.next = agreement.max(self.match_index).next();
        self.mode = Mode::Probe {
            sent: None,
            empty: false,
        };
        true
    }

    /// The member lacks the payload of entry `index`, which was left out of an append that was sent
    /// at `sent_at`. It holds the entries before that one.
    pub(crate) fn payload_missing(&mut self, index: LogIndex, sent_at: Time) {
        let Mode::Stream { since, .. } = &self.mode else {
            return;
        };
        let is_under_way = self.match_index < index && index < self.next;
        if !is_under_way || sent_at < *since {
            return;
        }
        self.restart(Mode::Probe {
            sent: None,
            empty: false,
        });
        self.next = index;
    }

    /// Lowers `match_index` if the member lacks entries that it has acknowledged: its log was
    /// damaged, and it restarted within this term. That is certain if the refused append was sent
    /// after the latest acknowledgement arrived. Lowering `match_index` is always safe.
    fn lower_match_index(&mut self, refused: LogIndex, agreement: LogIndex, sent_at: Time) {
        let later = self.acknowledged_at.is_some_and(|at| sent_at > at);
        if refused <= self.match_index && agreement < self.match_index && later {
            self.match_index = agreement;
        }
    }

    /// The connection to the member broke: no message in flight will be answered. The next probe
    /// waits.
    pub(crate) fn disconnected(&mut self, now: Time) {
        self.restart(Mode::Probe {
            sent: Some(now),
            empty: true,
        });
    }

    /// Probes at once, because there is a connection to the member again.
    pub(crate) fn connected(&mut self) {
        self.restart(Mode::Probe {
            sent: None,
            empty: true,
        });
    }

    /// The leader appends this entry, which no other member can have.
    pub(crate) fn entry_appended(&mut self, index: LogIndex, now: Time) {
        self.timed.get_or_insert((index, now));
    }

    /// Whether the member has acknowledged, after `since`, an entry within `within_us` of its
    /// appending, and no later one waits for longer.
    pub(crate) fn writes_within(&self, within_us: u64, now: Time, since: Time) -> bool {
        let has_written = |(at, took_us)| at >= since && took_us <= within_us;
        let is_in_time = |(_, appended)| now.since_us(appended) <= within_us;
        self.written.is_some_and(has_written) && self.timed.is_none_or(is_in_time)
    }

    /// When [`Peer::tick`] has something to do; `None`: never, in this state.
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

    /// Sends again what was not answered. Also probes an idle stream from time to time. A follower
    /// that restarted unnoticed no longer knows how much of its log is the leader's, and cannot
    /// take over the commit index before the next append.
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

    /// Whether the member as a voter would not delay commits: it is in a stream, and lacks at most
    /// `lag_max` entries. And some of the log must be durable on it: otherwise it would not know
    /// the group after a crash, nor vote in it.
    pub(crate) fn is_caught_up(&self, commit: LogIndex, lag_max: u64) -> bool {
        let streams = matches!(self.mode, Mode::Stream { .. });
        streams && self.match_index > LogIndex(0) && self.match_index.0 + lag_max >= commit.0
    }

    /// `next` is a search position, and stays, as long as nothing is known to match: at 1, a member
    /// that lags would seem to need a base.
    fn restart(&mut self, mode: Mode) {
        if self.match_index > LogIndex(0) {
            self.next = self.match_index.next();
        }
        self.commit_sent = self.commit_sent.min(self.match_index);
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
mod tests;
