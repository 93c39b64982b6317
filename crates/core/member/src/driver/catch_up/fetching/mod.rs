//! Fetching: entries that this member's database needs and its log lacks come from other members,
//! which keep them meanwhile (decision 032).
//!
//! ```text
//!  reader           driver                other members
//!    |-- Event::Fetch ->|-- Fetch ----------->|  one member at a time
//!    |                  |<----------- Fetched-|  entries, or why there are none
//!    |<-- FetchBox -----|                     |  the next one is asked if this one has none
//! ```
//!
//! Three parts:
//!
//! - [`Search`]: which member this one asks next, and when it asks no more;
//! - [`check_entries`]: whether what has come is what was asked for;
//! - [`Serving`]: as the one that is asked, what is read for whom, and what the log keeps for it.
//!
//! Everything that is fetched is before the beginning of the asker's log, so it is committed.

mod check;
mod search;
mod serving;

use std::time::Duration;

use synod_consensus::{EntryId, LogIndex, MemberId, Seqno};
use synod_wire::{FetchAnswer, FetchFrom, FetchRefusal, FetchRequest, PeerMessage};

use crate::deliver::start_index;
use crate::driver::context::Context;
use crate::driver::purge_policy::PurgePolicy;
use crate::fetch::{FetchResult, NotFetched};
use crate::host::{Level, Topic};
use crate::read_for_peer::{FetchRead, ReadForPeer};
use check::check_entries;
use search::{Next, Search};
use serving::Serving;

#[derive(Default)]
pub(in crate::driver) struct Fetching {
    pub(in crate::driver) search: Search,
    pub(in crate::driver) serving: Serving,
}

/// Time that a member has to answer, in periods of [`synod_consensus::Timing::retry_us`].
const RETRIES: u32 = 10;
const ENTRIES_MAX: u64 = 65_536;

impl Fetching {
    // --- the member that asks -----------------------------------------------------------------

    pub(in crate::driver) fn fetch(&mut self, ctx: &Context) {
        let Some(wish) = ctx.links.shared.fetched.wanted() else {
            return;
        };
        let base = own_log_base(ctx);
        if self.search.begin(ctx.turns.now, wish, base) {
            self.ask_next_for_entries(ctx);
        }
    }

    fn ask_next_for_entries(&mut self, ctx: &Context) {
        let config = &ctx.core.config().config;
        if ctx.core.has_forced_history() {
            // The database and this log may be of two histories, as in `recovery::histories`.
            let asked =
                "none was asked: a primary was forced in this group, so nothing shows that \
                         the database has the same past as their logs"
                    .to_owned();
            return self.no_member_has_entries(ctx, asked);
        }
        let me = ctx.identity.me.member;
        let others = config.members.keys().copied().filter(|id| *id != me);
        let base = own_log_base(ctx);
        self.search.log_begins_after(base);
        match self.search.next(ctx.turns.now, others) {
            Next::Ask(member) => self.ask_for_entries(ctx, member),
            // Without a leader this member may be the one that is cut off.
            Next::GiveUp if ctx.core.leader().is_some() => {
                let asked = self.who_was_asked(ctx);
                self.no_member_has_entries(ctx, asked);
            }
            Next::GiveUp | Next::Wait => {}
        }
    }

    fn ask_for_entries(&self, ctx: &Context, member: MemberId) {
        let Some(sought) = self.search.sought() else {
            return;
        };
        if self.search.source() != Some(member) {
            let (name, base) = (ctx.name_of(member), sought.base.0.index);
            let text = format!(
                "this member's log begins after entry {base}, and lacks what its database needs: \
                 asking {name} for the entries before"
            );
            ctx.note(Topic::Log, Level::Info, text);
        }
        let request = FetchRequest {
            session: ctx.identity.me.session,
            number: sought.number,
            from: sought.wish.from,
            to: sought.expected().to,
            base: sought.base.0,
            needed_from: sought.wish.needed_from,
            with_payloads: sought.wish.with_payloads,
        };
        ctx.send(member, PeerMessage::Fetch(request));
    }

    /// Names of the members that have lost the entries, and of those that do not answer, in words.
    fn who_was_asked(&self, ctx: &Context) -> String {
        let Some(sought) = self.search.sought() else {
            return String::new();
        };
        let me = ctx.identity.me.member;
        let members = ctx.core.config().config.members.keys();
        let others = members.filter(|id| **id != me).map(|id| {
            let name = ctx.name_of(*id);
            match sought.refused.get(id) {
                Some(first) => format!("the log of {name} begins with {first}"),
                None => format!("{name} does not answer"),
            }
        });
        others.collect::<Vec<_>>().join(", ")
    }

    fn no_member_has_entries(&mut self, ctx: &Context, asked: String) {
        if let Some(sought) = self.search.given_up() {
            let shared = &ctx.links.shared;
            shared.put_fetched(sought.wish, Err(NotFetched { asked }));
        }
    }

    pub(in crate::driver) fn handle_fetched(
        &mut self,
        ctx: &Context,
        from: MemberId,
        answer: FetchAnswer,
    ) {
        let Some(sought) = self.search.sought() else {
            return;
        };
        let question = (ctx.identity.me.session, sought.number);
        if (answer.session, answer.number) != question || !sought.was_asked_of(from) {
            return;
        }
        let refusal = match answer.result {
            Ok(fetched) => match check_entries(&sought.expected(), fetched) {
                Ok(entries) => return self.entries_fetched(ctx, from, Ok(entries)),
                Err(why) => {
                    let name = ctx.name_of(from);
                    let text = format!("ignoring entries that {name} sent on request: {why}");
                    ctx.log(Level::Error, text);
                    None
                }
            },
            Err(refusal) => Some(refusal),
        };
        if self.search.refused(from, refusal) {
            self.ask_next_for_entries(ctx);
        }
    }

    fn entries_fetched(&mut self, ctx: &Context, from: MemberId, entries: FetchResult) {
        if let Some(sought) = self.search.sought() {
            let wish = sought.wish;
            self.search.found(from);
            ctx.links.shared.put_fetched(wish, entries);
        }
    }

    /// The connection to a member broke: what it was asked for is lost.
    pub(in crate::driver) fn fetch_elsewhere(&mut self, ctx: &Context, lost: MemberId) {
        if self.search.lost(lost) {
            self.ask_next_for_entries(ctx);
        }
    }

    /// The slow work: asks another member if one does not answer.
    pub(in crate::driver) fn fetching_tick(&mut self, ctx: &Context) {
        let retry = Duration::from_micros(ctx.identity.config.timing.retry_us);
        let patience = retry.saturating_mul(RETRIES);
        if self.search.is_overdue(ctx.turns.now, patience) {
            self.ask_next_for_entries(ctx);
        }
    }

    // --- the member that is asked -------------------------------------------------------------

    pub(in crate::driver) fn handle_fetch(
        &mut self,
        ctx: &Context,
        purge_policy: &PurgePolicy,
        from: MemberId,
        request: FetchRequest,
    ) {
        match range_to_serve(ctx, &request) {
            Ok(first) => self.serve(ctx, purge_policy, from, &request, first),
            Err(refusal) => {
                let answer = PeerMessage::Fetched(FetchAnswer {
                    session: request.session,
                    number: request.number,
                    result: Err(refusal),
                });
                ctx.send(from, answer);
            }
        }
    }

    fn serve(
        &mut self,
        ctx: &Context,
        purge_policy: &PurgePolicy,
        to: MemberId,
        request: &FetchRequest,
        first: LogIndex,
    ) {
        let needed = match request.needed_from {
            LogIndex(0) => needed_with_chunks(ctx, purge_policy, request, first),
            needed => needed.min(first),
        };
        let is_new = self.serving.asked(ctx.turns.now, to, needed);
        if is_new {
            let name = ctx.name_of(to);
            let text = format!(
                "{name} fetches entries that its own log lacks: the log is kept for it from entry \
                 {needed} on"
            );
            ctx.note(Topic::Log, Level::Info, text);
        }
        let Some(outstanding) = self.serving.begin_read(to) else {
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
            bytes_max: ctx.own_log.catch_up_bytes(),
            _outstanding: outstanding,
        };
        ctx.links.disk.read(ReadForPeer::Fetch(read));
    }
}

fn own_log_base(ctx: &Context) -> (EntryId, Seqno) {
    let base = ctx.core.base();
    (base.last, base.seqno)
}

/// The first entry to send, if this member has it, and all up to the asker's log.
fn range_to_serve(ctx: &Context, request: &FetchRequest) -> Result<LogIndex, FetchRefusal> {
    let (reader, shared) = (&ctx.links.reader, &ctx.links.shared);
    let purged = || FetchRefusal::Purged {
        first: shared.first_seqno(reader),
    };
    let EntryId { term, index } = request.base;
    // Committed entries only: of these, equal logs stay equal.
    let is_committed = index <= shared.readable();
    let own_begins = ctx.core.base().last.index;
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
    let has_base = is_committed && ctx.core.term_at(index) == Some(term);
    if !has_base || request.to > index || first > request.to {
        return Err(FetchRefusal::Behind);
    }
    Ok(first)
}

/// The first entry that a database needs that continues with `first`: chunks of its next
/// actions may be before that.
fn needed_with_chunks(
    ctx: &Context,
    purge_policy: &PurgePolicy,
    request: &FetchRequest,
    first: LogIndex,
) -> LogIndex {
    let FetchFrom::After(seqno) = request.from else {
        return first;
    };
    let log = ctx.certified_log();
    let chunk = purge_policy.first_chunk_after(&log, seqno);
    chunk.map_or(first, |chunk| chunk.min(first))
}
