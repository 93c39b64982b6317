//! SST at the joiner: asks for a donor, waits for the full copy, accepts it.
//!
//! Runs on the first applier's thread. The server's own scripts receive the copy. This member asks
//! for it, asks again after a refusal, and gives up when the donor is gone: the scripts would wait
//! for it for ever.
//!
//! # A copy that has failed
//!
//! ```text
//!   the copy fails ─► its programs are ended ─► pause ─► the server's program is started again,
//!                                                 │      in this process
//!                                                 └────► an order to end: the server ends
//! ```
//! A server cannot ask for a second copy in one life, and ends if it hears that its copy has
//! failed. A donor that dies is no reason for that: other members may be donors. So the server
//! hears of the failure only if it is to end, and otherwise its program takes the place of this
//! process, as after a failure in service (`departure.rs`). What it has of the copy is marked as
//! unusable. It is the same when this member's node has failed during the copy: the log's disk is
//! full, say.
//!
//! The programs that receive the copy are ended in any case, and the server's thread that waits for
//! them reports their end. They hold the port of the next copy, and a server that ends waits for
//! them, and they for a donor; one that ends before that thread was seen to crash (10.11.19).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use synod_node::{
    MemberId, NotFetched, Remedy, Seqno, SessionId, StateTransferEvent, View as GroupView,
};

use crate::api::{Gtid, LogLevel};
use crate::boundary;
use crate::connection::departure::{Said, pause};
use crate::connection::join::JoinEnd;
use crate::connection::session::{Session, State};
use crate::connection::start_watch::LOOK;
use crate::status::LocalState;

/// Time from a refusal to the next request for a donor.
const REFUSED_RETRY: Duration = Duration::from_secs(1);
/// Time from a request without any answer to the next. A donor answers once it has applied what the
/// joiner's view comes after, which takes a while under load; two donors at once would spoil the
/// copy.
const SILENT_RETRY: Duration = Duration::from_secs(15);
/// Time between two looks whether the donor is still present.
const DONOR_WATCH: Duration = Duration::from_secs(2);

/// Time limit for the server to notice that its scripts have ended.
const REPORT_LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) gtid: Gtid,
    /// Zero: complete. Otherwise the server's code for the failure.
    pub(crate) code: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DonorPreference {
    names: Vec<String>,
    /// Whether another member may be the donor if none of them can.
    any: bool,
}

impl DonorPreference {
    /// Names with commas between them; a comma at the end, or no name, allows any other member.
    pub(crate) fn parse(text: &str) -> DonorPreference {
        let names: Vec<String> = text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        let any = names.is_empty() || text.trim_end().ends_with(',');
        DonorPreference { names, any }
    }
}

pub(crate) struct Joiner {
    donors: DonorPreference,
}

#[derive(Default)]
pub(crate) struct SstNews {
    events: VecDeque<(u64, StateTransferEvent)>,
    received: Option<Received>,
    /// The server takes a copy, and it is not decided yet what becomes of the server if that fails.
    is_open: bool,
    /// The server's scripts have begun, and the server has not reported their end.
    has_scripts: bool,
}

impl SstNews {
    pub(crate) fn add(&mut self, id: u64, event: StateTransferEvent) {
        self.events.push_back((id, event));
    }

    /// The server has the copy, or has failed to get it.
    pub(crate) fn receive(&mut self, received: Received) {
        self.received = Some(received);
        self.has_scripts = false;
    }

    fn begin(&mut self) {
        self.is_open = true;
        self.has_scripts = true;
    }

    /// Whether the server will report that its scripts have ended.
    fn has_scripts(&self) -> bool {
        self.has_scripts
    }

    pub(crate) fn end(&mut self) {
        self.is_open = false;
    }
}

enum CopyEvent {
    Received(Received),
    Failed(String),
    Left,
    Answer(u64, StateTransferEvent),
}

impl Joiner {
    pub(super) fn new(donors: DonorPreference) -> Joiner {
        Joiner { donors }
    }

    /// Gets a full copy by the server's own scripts.
    pub(super) fn take_copy(&self, session: &Session, view: &GroupView) -> Result<(), JoinEnd> {
        session.update(|state| state.sst.begin());
        let unprepared = |error| {
            JoinEnd::Unprepared(format!(
                "cannot join the group: {error}. It was to prepare for a full copy (SST): often \
                 another program has the port at which it would take one (4444, or that of \
                 wsrep_sst_receive_address; 'ss -ltnp' shows it), or a program of the method is \
                 missing. 'synod doctor' finds both"
            ))
        };
        let asked = session.server.callbacks.sst_request();
        let Some(request) = asked.map_err(unprepared)? else {
            return Err(
                "a full copy (SST) is needed, which a running server cannot take: restart it \
                 (without wsrep_start_position, so that it asks for a copy at start)"
                    .into(),
            );
        };
        if is_without_copy(&request) {
            return start_at(session, view, view.seqno.0, None);
        }
        session.log(LogLevel::Info, "asking for a full copy (SST)");
        session.set_local(LocalState::ReceivingStateTransfer);
        let (received, donor) = self.wait_for_copy(session, view, &request)?;
        if received < view.seqno.0 {
            let seqno = view.seqno;
            let line = format!("the copy is at {received}, before the view at {seqno}");
            session.log(LogLevel::Info, line);
        }
        start_at(session, view, received, donor)
    }

    fn wait_for_copy(
        &self,
        session: &Session,
        view: &GroupView,
        request: &[u8],
    ) -> Result<(i64, Option<MemberId>), JoinEnd> {
        let node = session.node().ok_or("no node is running")?;
        let request = Bytes::copy_from_slice(request);
        let ask = |search: &mut DonorSearch| {
            // A donor's data may come before its answer, and then the scripts delete the database.
            // Half a copy has a position too, which must not be believed.
            session.server.position.copy_is_asked_for(session.group());
            let DonorPreference { names, any } = self.donors.clone();
            let id = node.request_state(view.seqno, names, any, request.clone());
            search.asked(id, Instant::now());
        };
        // The session in which a member is present.
        let session_of = |member: MemberId| {
            let members = node.status().view.members;
            let found = members.into_iter().find(|m| m.member == member);
            found.map(|m| m.session)
        };
        let mut search = DonorSearch::default();
        ask(&mut search);
        loop {
            let wake_at = search.wake_at(Instant::now());
            match session.wait_for(Some(wake_at), |state| {
                next_copy_event(session, &mut state.sst, state.lifecycle.failure())
            }) {
                Some(CopyEvent::Received(received)) => {
                    let donor = search.donor.map(|donor| donor.member);
                    return Ok((accept_copy(session, received)?, donor));
                }
                Some(CopyEvent::Failed(why)) => return Err(JoinEnd::Failed(why)),
                Some(CopyEvent::Left) => return Err(JoinEnd::Left),
                Some(CopyEvent::Answer(of, event)) => {
                    let line = search.hear(of, event, session_of, Instant::now())?;
                    note_answer(session, &search);
                    if let Some(line) = line {
                        session.log(LogLevel::Info, line);
                    }
                }
                None => {
                    if search.must_ask(session_of)? {
                        ask(&mut search);
                    }
                }
            }
        }
    }
}

/// The server's scripts have ended. A server that hears that its copy has failed ends, so the
/// thread that reports a failure waits until that is what shall become of it.
pub(crate) fn copy_received(session: &Session, received: Received) {
    let has_failed = received.code != 0;
    session.update(|state| state.sst.receive(received));
    if has_failed {
        session.wait_for(None, |state| (!state.sst.is_open).then_some(()));
    }
}

/// The database is a copy at `position`; `donor`: the member that gave it, if it has said so.
fn start_at(
    session: &Session,
    view: &GroupView,
    position: i64,
    donor: Option<MemberId>,
) -> Result<(), JoinEnd> {
    let node = session.node().ok_or("no node is running")?;
    if !node.can_deliver_after(Seqno(position)) {
        let first = node.status().first_seqno;
        if let Err(NotFetched { asked }) = node.find_actions_after(Seqno(position)) {
            let why = format!(
                "the copy is at {position}, but this member's log begins at {first}: the \
                 actions between are missing, and no other member has them ({asked})"
            );
            return Err(JoinEnd::Failed(why));
        }
        let line = format!(
            "the copy is at {position}, and this member's log begins at {first}: the actions \
             between are fetched from the other members"
        );
        session.log(LogLevel::Info, line);
    }
    // Before it is believed: until then a start after a loss of power asks for another copy.
    let synced = session.server.position.sync_copy();
    synced.map_err(|why| JoinEnd::Failed(format!("the copy is not durable: {why}")))?;
    session.sequencer.reset(position);
    session.server.position.copied(session.group());
    session.update(|state| {
        state.lifecycle.track();
        state.outcomes.begin_with_copy(position, donor);
        if position >= view.seqno.0 {
            state.views.start_with(view);
        }
    });
    Ok(())
}

/// Records that the copy was granted or refused.
fn note_answer(session: &Session, search: &DonorSearch) {
    if search.donor.is_some() {
        session.server.position.copy_is_given();
    } else if search.is_refused() {
        session.server.position.copy_is_refused();
    }
}

fn next_copy_event(
    session: &Session,
    sst: &mut SstNews,
    failure: Option<&String>,
) -> Option<CopyEvent> {
    if let Some(received) = sst.received.take() {
        return Some(CopyEvent::Received(received));
    }
    if let Some(why) = failure {
        return Some(CopyEvent::Failed(why.clone()));
    }
    if session.is_closing() {
        return Some(CopyEvent::Left);
    }
    let (of, event) = sst.events.pop_front()?;
    Some(CopyEvent::Answer(of, event))
}

fn accept_copy(session: &Session, received: Received) -> Result<i64, JoinEnd> {
    let Received { gtid, code } = received;
    if code != 0 {
        let why =
            format!("the copy failed here with code {code}: see the lines of WSREP_SST above");
        return Err(JoinEnd::Failed(why));
    }
    let group = session.group();
    if gtid.group != group || gtid.seqno < 0 {
        let why = format!("the copy is at {gtid}, which is no position of the group {group}");
        return Err(JoinEnd::Failed(why));
    }
    Ok(gtid.seqno)
}

/// Starts the server again if it was taking a full copy. Returns only if it was not, or is to
/// end instead: by an order, by its operator's setting, or because only a person helps.
pub(crate) fn take_copy_again(session: &Session, why: &str) {
    let was_copying = {
        let state = session.state();
        state.lifecycle.local() == LocalState::ReceivingStateTransfer
    };
    if !was_copying {
        return;
    }
    session.log(
        LogLevel::Warn,
        format!("the full copy (SST) has failed: {why}"),
    );
    end_scripts(session);
    if is_to_end(session) || !session.server.options.restarts_on_failure() {
        return;
    }
    for tries in session.server.restart.restarts().. {
        let pause = pause(tries);
        let text =
            format!("this server takes another full copy by itself, after a pause of {pause:?}");
        session.log(LogLevel::Info, text);
        if ends_within(session, pause) {
            return;
        }
        let line = "starting this server again, for a full copy";
        let obstacle = session.try_restart(LogLevel::Info, line);
        let text = format!("this server cannot start itself again: {obstacle}");
        session.log(LogLevel::Error, text);
    }
}

fn end_scripts(session: &Session) {
    boundary::end_children();
    let ended = |state: &mut State| (!state.sst.has_scripts()).then_some(());
    session.wait_for(Some(Instant::now() + REPORT_LIMIT), ended);
}

/// Whether the server is ordered to end within this time. A signal stays pending while the
/// server starts, and no other thread looks for it once the node has failed.
fn ends_within(session: &Session, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    while !is_to_end(session) {
        let now = Instant::now();
        if now >= end {
            return false;
        }
        let ends = |state: &mut State| is_ended(state).then_some(());
        session.wait_for(Some(end.min(now + LOOK)), ends);
    }
    true
}

fn is_to_end(session: &Session) -> bool {
    boundary::pending_order_to_end().is_some() || is_ended(&session.state())
}

/// The search for a donor, and the watch over the one that was found.
#[derive(Default)]
struct DonorSearch {
    /// Requests sent; each may still be answered.
    requests: Vec<u64>,
    refusals: usize,
    /// Time to ask again, unless a donor has accepted.
    next_ask: Option<Instant>,
    donor: Option<AcceptedDonor>,
    said: Said,
}

#[derive(Clone, Copy)]
struct AcceptedDonor {
    member: MemberId,
    /// `None` if it was in no view when its answer came.
    session: Option<SessionId>,
    request: u64,
}

impl DonorSearch {
    fn asked(&mut self, request: u64, now: Instant) {
        self.requests.push(request);
        self.next_ask = Some(now + SILENT_RETRY);
    }

    /// Whether no request is left that a donor may still accept.
    fn is_refused(&self) -> bool {
        self.donor.is_none() && self.refusals >= self.requests.len()
    }

    /// Time to look again if nothing is reported.
    fn wake_at(&self, now: Instant) -> Instant {
        match (self.donor, self.next_ask) {
            (None, Some(at)) => at,
            _ => now + DONOR_WATCH,
        }
    }

    /// An answer to request `of`; a line to log, if there is one.
    fn hear(
        &mut self,
        of: u64,
        event: StateTransferEvent,
        session_of: impl Fn(MemberId) -> Option<SessionId>,
        now: Instant,
    ) -> Result<Option<String>, String> {
        if !self.requests.contains(&of) {
            return Ok(None);
        }
        match (event, self.donor) {
            (StateTransferEvent::Accepted { donor: member }, None) => {
                self.donor = Some(AcceptedDonor {
                    member,
                    session: session_of(member),
                    request: of,
                });
            }
            (StateTransferEvent::NoDonor { text }, None) => {
                self.refusals += 1;
                self.next_ask = Some(now + REFUSED_RETRY);
                if self.said.is_due(&text, now) {
                    return Ok(Some(format!("waiting for a donor: {text}")));
                }
            }
            // The donor's script may fail before the donor's answer gets here.
            (StateTransferEvent::Failed { code, text }, donor)
                if donor.is_none_or(|donor| donor.request == of) =>
            {
                return Err(format!("the donor failed with code {code}: {text}"));
            }
            // The server's own scripts say when the copy is complete. The rest are late answers.
            (StateTransferEvent::Done { .. }, _)
            | (StateTransferEvent::Failed { .. }, _)
            | (StateTransferEvent::Accepted { .. } | StateTransferEvent::NoDonor { .. }, Some(_)) =>
                {}
        }
        Ok(None)
    }

    /// Nothing was reported: whether to ask again. Errors: the donor is gone. A donor that was
    /// restarted does not remember the copy.
    fn must_ask(&self, session_of: impl Fn(MemberId) -> Option<SessionId>) -> Result<bool, String> {
        let Some(donor) = self.donor else {
            return Ok(true);
        };
        let present = session_of(donor.member);
        if present.is_some() && (donor.session.is_none() || present == donor.session) {
            return Ok(false);
        }
        Err("the donor has left the group".to_owned())
    }
}

/// `wsrep_sst_method=skip` and the like: the server says that it needs nothing.
fn is_without_copy(request: &[u8]) -> bool {
    let method = request.split(|byte| *byte == 0).next().unwrap_or_default();
    method == b"trivial" || method == b"none"
}

/// Whether the server has ended the connection, or what has happened to it needs a person.
fn is_ended(state: &State) -> bool {
    let lifecycle = &state.lifecycle;
    lifecycle.is_released() || lifecycle.remedy() == Some(Remedy::Operator)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONOR: MemberId = MemberId(4);

    fn in_session(session: u64) -> impl Fn(MemberId) -> Option<SessionId> {
        move |_| Some(SessionId(session))
    }

    fn refused(text: &str) -> StateTransferEvent {
        StateTransferEvent::NoDonor {
            text: text.to_owned(),
        }
    }

    fn failed() -> StateTransferEvent {
        StateTransferEvent::Failed {
            code: 9,
            text: String::new(),
        }
    }

    #[test]
    fn comma_at_the_end_allows_any_donor() {
        let parsed = |text| DonorPreference::parse(text);
        assert!(parsed("").any);
        assert!(!parsed("a, b").any);
        assert_eq!(parsed("a, b").names, ["a", "b"]);
        assert!(parsed("a,b, ").any);
    }

    #[test]
    fn refusal_is_logged_each_minute_and_asked_again_after_a_second() {
        let now = Instant::now();
        let mut search = DonorSearch::default();
        search.asked(1, now);
        assert_eq!(search.wake_at(now), now + SILENT_RETRY);
        let line = search.hear(1, refused("busy"), in_session(1), now).unwrap();
        assert_eq!(line.as_deref(), Some("waiting for a donor: busy"));
        assert_eq!(search.wake_at(now), now + REFUSED_RETRY);
        let again = search.hear(1, refused("busy"), in_session(1), now).unwrap();
        assert_eq!(again, None);
        let later = now + Duration::from_secs(60);
        let still = search.hear(1, refused("busy"), in_session(1), later);
        assert!(still.unwrap().is_some());
        assert!(search.must_ask(in_session(1)).unwrap());
    }

    #[test]
    fn donor_is_watched_by_its_session() {
        let now = Instant::now();
        let mut search = DonorSearch::default();
        search.asked(1, now);
        let accepted = StateTransferEvent::Accepted { donor: DONOR };
        search.hear(1, accepted, in_session(7), now).unwrap();
        assert_eq!(search.wake_at(now), now + DONOR_WATCH);
        assert!(!search.must_ask(in_session(7)).unwrap());
        assert!(search.must_ask(in_session(8)).is_err(), "it was restarted");
        assert!(search.must_ask(|_| None).is_err());
    }

    #[test]
    fn only_failures_of_the_donor_in_charge_count() {
        let now = Instant::now();
        let mut search = DonorSearch::default();
        search.asked(1, now);
        search.asked(2, now);
        let accepted = StateTransferEvent::Accepted { donor: DONOR };
        search.hear(2, accepted, in_session(7), now).unwrap();
        assert!(search.hear(1, failed(), in_session(7), now).is_ok());
        assert!(
            search.hear(3, failed(), in_session(7), now).is_ok(),
            "not asked"
        );
        assert!(search.hear(2, failed(), in_session(7), now).is_err());
    }
}
