//! The driver's dealings with [`super::Fetching`]: asks, takes what comes, and answers others.

use std::time::Duration;

use synod_consensus::{EntryId, LogIndex, MemberId, Seqno};
use synod_wire::{FetchAnswer, FetchFrom, FetchRefusal, FetchRequest, PeerMessage, has_fetches};

use super::{Next, check_entries};
use crate::deliver::start_index;
use crate::disk_read::{DiskRead, FetchRead};
use crate::driver::Driver;
use crate::fetch::{FetchResult, NotFetched};
use crate::host::{Level, Topic};

/// Time that a member has to answer, in periods of [`synod_consensus::Timing::retry_us`].
const RETRIES: u32 = 10;
/// Most entries in one answer, whatever their size.
const ENTRIES_MAX: u64 = 65_536;

impl Driver {
    // --- the member that asks -----------------------------------------------------------------

    /// A reader may want entries that this member's log lacks.
    pub(in crate::driver) fn fetch(&mut self) {
        let Some(wish) = self.ctx.links.shared.fetched.wanted() else {
            return;
        };
        let base = self.own_log_base();
        if self
            .catch_up
            .fetching
            .search
            .begin(self.ctx.turns.now, wish, base)
        {
            self.ask_next_for_entries();
        }
    }

    /// The last entry before this member's log, and its seqno.
    fn own_log_base(&self) -> (EntryId, Seqno) {
        let base = self.ctx.core.base();
        (base.last, base.seqno)
    }

    fn ask_next_for_entries(&mut self) {
        let config = &self.ctx.core.config().config;
        if !has_fetches(config.protocol) {
            let version = config.protocol;
            let asked = format!("no member can send them in a group of version {version}");
            return self.no_member_has_entries(asked);
        }
        if self.ctx.core.has_forced_history() {
            // The database and this log may be of two histories, as in `recovery::histories`.
            let asked =
                "none was asked: a primary was forced in this group, so nothing shows that \
                         the database has the same past as their logs"
                    .to_owned();
            return self.no_member_has_entries(asked);
        }
        let me = self.ctx.identity.me.member;
        let others = config.members.keys().copied().filter(|id| *id != me);
        let base = self.own_log_base();
        self.catch_up.fetching.search.log_begins_after(base);
        match self
            .catch_up
            .fetching
            .search
            .next(self.ctx.turns.now, others)
        {
            Next::Ask(member) => self.ask_for_entries(member),
            // Without a leader this member may be the one that is cut off.
            Next::GiveUp if self.ctx.core.leader().is_some() => {
                let asked = self.who_was_asked();
                self.no_member_has_entries(asked);
            }
            Next::GiveUp | Next::Wait => {}
        }
    }

    fn ask_for_entries(&self, member: MemberId) {
        let Some(sought) = self.catch_up.fetching.search.sought() else {
            return;
        };
        if self.catch_up.fetching.search.source() != Some(member) {
            let (name, base) = (self.ctx.name_of(member), sought.base.0.index);
            let text = format!(
                "this member's log begins after entry {base}, and lacks what its database needs: \
                 asking {name} for the entries before"
            );
            self.ctx.note(Topic::Log, Level::Info, text);
        }
        let request = FetchRequest {
            session: self.ctx.identity.me.session,
            number: sought.number,
            from: sought.wish.from,
            to: sought.expected().to,
            base: sought.base.0,
            needed_from: sought.wish.needed_from,
            with_payloads: sought.wish.with_payloads,
        };
        self.ctx.send(member, PeerMessage::Fetch(request));
    }

    /// Names of the members that have lost the entries, and of those that do not answer, in words.
    fn who_was_asked(&self) -> String {
        let Some(sought) = self.catch_up.fetching.search.sought() else {
            return String::new();
        };
        let me = self.ctx.identity.me.member;
        let members = self.ctx.core.config().config.members.keys();
        let others = members.filter(|id| **id != me).map(|id| {
            let name = self.ctx.name_of(*id);
            match sought.refused.get(id) {
                Some(first) => format!("the log of {name} begins with {first}"),
                None => format!("{name} does not answer"),
            }
        });
        others.collect::<Vec<_>>().join(", ")
    }

    fn no_member_has_entries(&mut self, asked: String) {
        if let Some(sought) = self.catch_up.fetching.search.given_up() {
            let shared = &self.ctx.links.shared;
            shared.put_fetched(sought.wish, Err(NotFetched { asked }));
        }
    }

    /// A member answers.
    pub(in crate::driver) fn handle_fetched(&mut self, from: MemberId, answer: FetchAnswer) {
        let Some(sought) = self.catch_up.fetching.search.sought() else {
            return;
        };
        let question = (self.ctx.identity.me.session, sought.number);
        if (answer.session, answer.number) != question || !sought.was_asked_of(from) {
            return;
        }
        let refusal = match answer.result {
            Ok(fetched) => match check_entries(&sought.expected(), fetched) {
                Ok(entries) => return self.entries_fetched(from, Ok(entries)),
                Err(why) => {
                    let name = self.ctx.name_of(from);
                    let text = format!("ignoring entries that {name} sent on request: {why}");
                    self.ctx.log(Level::Error, text);
                    None
                }
            },
            Err(refusal) => Some(refusal),
        };
        if self.catch_up.fetching.search.refused(from, refusal) {
            self.ask_next_for_entries();
        }
    }

    fn entries_fetched(&mut self, from: MemberId, entries: FetchResult) {
        if let Some(sought) = self.catch_up.fetching.search.sought() {
            let wish = sought.wish;
            self.catch_up.fetching.search.found(from);
            self.ctx.links.shared.put_fetched(wish, entries);
        }
    }

    /// The connection to a member broke: what it was asked for is lost.
    pub(in crate::driver) fn fetch_elsewhere(&mut self, lost: MemberId) {
        if self.catch_up.fetching.search.lost(lost) {
            self.ask_next_for_entries();
        }
    }

    /// The slow work: asks another member if one does not answer.
    pub(in crate::driver) fn fetching_tick(&mut self) {
        let retry = Duration::from_micros(self.ctx.identity.config.timing.retry_us);
        let patience = retry.saturating_mul(RETRIES);
        if self
            .catch_up
            .fetching
            .search
            .is_overdue(self.ctx.turns.now, patience)
        {
            self.ask_next_for_entries();
        }
    }

    // --- the member that is asked -------------------------------------------------------------

    /// A member asks for entries that its own log lacks.
    pub(in crate::driver) fn handle_fetch(&mut self, from: MemberId, request: FetchRequest) {
        match self.range_to_serve(&request) {
            Ok(first) => self.serve(from, &request, first),
            Err(refusal) => {
                let answer = PeerMessage::Fetched(FetchAnswer {
                    session: request.session,
                    number: request.number,
                    result: Err(refusal),
                });
                self.ctx.send(from, answer);
            }
        }
    }

    /// The first entry to send, if this member has it, and all up to the asker's log.
    fn range_to_serve(&self, request: &FetchRequest) -> Result<LogIndex, FetchRefusal> {
        let (reader, shared) = (&self.ctx.links.reader, &self.ctx.links.shared);
        let purged = || FetchRefusal::Purged {
            first: shared.first_seqno(reader),
        };
        let EntryId { term, index } = request.base;
        // Committed entries only: of these, equal logs stay equal.
        let is_committed = index <= shared.readable();
        let own_begins = self.ctx.core.base().last.index;
        let first = match request.from {
            FetchFrom::At(index) => index,
            FetchFrom::After(seqno) => match start_index(reader, seqno) {
                Ok(Some(index)) => index,
                Ok(None) => return Err(purged()),
                // This log does not reach that far.
                Err(_) => return Err(FetchRefusal::Behind),
            },
        };
        if first <= own_begins {
            return Err(purged());
        }
        let has_base = is_committed && self.ctx.core.term_at(index) == Some(term);
        if !has_base || request.to > index || first > request.to {
            return Err(FetchRefusal::Behind);
        }
        Ok(first)
    }

    /// Has the range read, and keeps the log for what the asker needs after that.
    fn serve(&mut self, to: MemberId, request: &FetchRequest, first: LogIndex) {
        let needed = match request.needed_from {
            LogIndex(0) => self.needed_with_chunks(request, first),
            needed => needed.min(first),
        };
        let is_new = self
            .catch_up
            .fetching
            .serving
            .asked(self.ctx.turns.now, to, needed);
        if is_new {
            let name = self.ctx.name_of(to);
            let text = format!(
                "{name} fetches entries that its own log lacks: the log is kept for it from entry \
                 {needed} on"
            );
            self.ctx.note(Topic::Log, Level::Info, text);
        }
        let Some(outstanding) = self.catch_up.fetching.serving.begin_read(to) else {
            return;
        };
        let read = FetchRead {
            to,
            session: request.session,
            number: request.number,
            first,
            last: request
                .to
                .min(LogIndex(first.0.saturating_add(ENTRIES_MAX - 1))),
            with_payloads: request.with_payloads,
            bytes_max: self.ctx.own_log.catch_up_bytes(),
            _outstanding: outstanding,
        };
        self.ctx.links.disk.read(DiskRead::Fetch(read));
    }

    /// The first entry that a database needs that continues with `first`: chunks of its next
    /// actions may be before that.
    fn needed_with_chunks(&self, request: &FetchRequest, first: LogIndex) -> LogIndex {
        let FetchFrom::After(seqno) = request.from else {
            return first;
        };
        let log = self.certified_log();
        let chunk = self.retention.first_chunk_after(&log, seqno);
        chunk.map_or(first, |chunk| chunk.min(first))
    }
}
