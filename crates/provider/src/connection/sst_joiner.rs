//! SST at the joiner: asks for a donor, waits for the full copy, accepts it.
//!
//! Runs on the first applier's thread. The server's own scripts receive the copy; this member asks
//! for it, retries refusals, and gives up when the donor is gone.

use std::time::{Duration, Instant};

use bytes::Bytes;
use synod_node::{MemberId, Seqno, SessionId, StateTransferEvent, View as GroupView};

use crate::api::LogLevel;
use crate::connection::join::JoinEnd;
use crate::connection::{Connection, Received};
use crate::status::LocalState;

/// After a refusal, the next request for a donor.
const REFUSED_RETRY: Duration = Duration::from_secs(1);
/// Without any answer, the next request. A donor answers once it has applied what the joiner's view
/// comes after, which takes it a while under load; two donors at once would spoil the copy.
const SILENT_RETRY: Duration = Duration::from_secs(15);
/// How often the joiner looks whether its donor is still there.
const DONOR_WATCH: Duration = Duration::from_secs(2);

impl Connection {
    /// Gets a full copy by the server's own scripts.
    pub(super) fn take_copy(&self, view: &GroupView) -> Result<(), JoinEnd> {
        // The scripts make room first, and half a copy has a position too, which nobody must believe.
        self.position.unusable();
        let unprepared = |error| JoinEnd::Unprepared(format!("cannot join the group: {error}"));
        let Some(request) = self.callbacks.sst_request().map_err(unprepared)? else {
            return Err(
                "a full copy is needed, which a running server cannot take: restart it \
                        (without wsrep_start_position, so that it asks for a copy at start)"
                    .into(),
            );
        };
        if is_without_copy(&request) {
            return self.starts_at(view, view.seqno.0);
        }
        self.log(LogLevel::Info, "asking for a full copy");
        self.set_local(LocalState::ReceivingStateTransfer);
        let received = self.wait_for_copy(view, &request)?;
        if received < view.seqno.0 {
            self.log(
                LogLevel::Info,
                format!(
                    "the copy is at {received}, before the view at {}",
                    view.seqno
                ),
            );
        }
        self.starts_at(view, received)
    }

    /// The database is a copy at `position`.
    fn starts_at(&self, view: &GroupView, position: i64) -> Result<(), JoinEnd> {
        let node = self.node().ok_or("no node is running")?;
        if !node.can_deliver_after(Seqno(position)) {
            let first = node.status().first_seqno;
            let why = format!(
                "the copy is at {position}, but this member's log begins at {first} only: what is \
                 between is missing. Start the server again for a newer copy"
            );
            return Err(JoinEnd::Failed(why));
        }
        self.sequencer.reset(position);
        self.position.changing(self.group());
        self.update(|state| {
            state.tracked = true;
            state.votes.begin_at(position);
            if position >= view.seqno.0 {
                // The copy contains the view: the server will not be shown it again.
                state.view = Some(view.clone());
                state.shown_primary = true;
                state.in_order = true;
            }
        });
        Ok(())
    }

    fn wait_for_copy(&self, view: &GroupView, request: &[u8]) -> Result<i64, JoinEnd> {
        let mut copy = Copy {
            connection: self,
            view,
            request: Bytes::copy_from_slice(request),
            asked: Vec::new(),
            next_ask: None,
            donor: None,
            told: String::new(),
        };
        copy.ask()?;
        loop {
            let event = self.wait_for(Some(copy.wake_at()), |state| {
                if let Some(received) = state.received.take() {
                    return Some(CopyEvent::Received(received));
                }
                if let Some(why) = &state.failure {
                    return Some(CopyEvent::Failed(why.clone()));
                }
                if self.is_closing() {
                    return Some(CopyEvent::Left);
                }
                state
                    .news
                    .pop_front()
                    .map(|(of, news)| CopyEvent::News(of, news))
            });
            match event {
                Some(CopyEvent::Received(received)) => return self.accept_copy(received),
                Some(CopyEvent::Failed(why)) => return Err(JoinEnd::Failed(why)),
                Some(CopyEvent::Left) => return Err(JoinEnd::Left),
                Some(CopyEvent::News(of, news)) => copy.hear(of, news)?,
                None => copy.look()?,
            }
        }
    }

    fn accept_copy(&self, received: Received) -> Result<i64, JoinEnd> {
        let Received { gtid, code } = received;
        if code != 0 {
            let why =
                format!("the copy failed here with code {code}: see the lines of WSREP_SST above");
            return Err(JoinEnd::Failed(why));
        }
        let group = self.group();
        if gtid.group != group || gtid.seqno < 0 {
            let why = format!("the copy is at {gtid}, which is no position of the group {group}");
            return Err(JoinEnd::Failed(why));
        }
        Ok(gtid.seqno)
    }
}

/// A copy on its way.
struct Copy<'a> {
    connection: &'a Connection,
    view: &'a GroupView,
    request: Bytes,
    /// Requests sent; each may still be answered.
    asked: Vec<u64>,
    /// When to ask again, unless a donor has begun.
    next_ask: Option<Instant>,
    /// Who gives the copy.
    donor: Option<Donor>,
    /// Last text of a refusal.
    told: String,
}

#[derive(Clone, Copy)]
struct Donor {
    member: MemberId,
    /// Undefined if it was in no view when it was heard of.
    session: Option<SessionId>,
    /// The request it has accepted.
    request: u64,
}

impl Copy<'_> {
    fn ask(&mut self) -> Result<(), JoinEnd> {
        let node = self.connection.node().ok_or("no node is running")?;
        let (preferred, any) = self.connection.donors.clone();
        let request = self.request.clone();
        self.asked
            .push(node.request_state(self.view.seqno, preferred, any, request));
        self.next_ask = Some(Instant::now() + SILENT_RETRY);
        Ok(())
    }

    fn wake_at(&self) -> Instant {
        match (self.donor, self.next_ask) {
            (None, Some(at)) => at,
            _ => Instant::now() + DONOR_WATCH,
        }
    }

    fn hear(&mut self, of: u64, news: StateTransferEvent) -> Result<(), JoinEnd> {
        if !self.asked.contains(&of) {
            return Ok(());
        }
        match (news, self.donor) {
            (StateTransferEvent::Accepted { donor: member }, None) => {
                let session = self.session_of(member);
                self.donor = Some(Donor {
                    member,
                    session,
                    request: of,
                });
            }
            (StateTransferEvent::NoDonor { text }, None) => {
                self.next_ask = Some(Instant::now() + REFUSED_RETRY);
                if self.told != text {
                    let line = format!("waiting for a donor: {text}");
                    self.connection.log(LogLevel::Info, line);
                    self.told = text;
                }
            }
            // The donor's script may fail before the donor's answer gets here.
            (StateTransferEvent::Failed { code, text }, donor)
                if donor.is_none_or(|donor| donor.request == of) =>
            {
                return Err(format!("the donor failed with code {code}: {text}").into());
            }
            // The server's own scripts say when the copy is complete. The rest are late answers.
            (StateTransferEvent::Done { .. }, _)
            | (StateTransferEvent::Failed { .. }, _)
            | (StateTransferEvent::Accepted { .. } | StateTransferEvent::NoDonor { .. }, Some(_)) =>
                {}
        }
        Ok(())
    }

    /// The session in which a member is present.
    fn session_of(&self, member: MemberId) -> Option<SessionId> {
        let members = self.connection.node()?.status().view.members;
        members
            .into_iter()
            .find(|m| m.member == member)
            .map(|m| m.session)
    }

    /// Nothing was heard: asks again, or looks after the donor. The scripts would wait for ever for
    /// one that is gone.
    fn look(&mut self) -> Result<(), JoinEnd> {
        let Some(donor) = self.donor else {
            return self.ask();
        };
        // One that was restarted does not remember.
        let present = self.session_of(donor.member);
        if present.is_some() && (donor.session.is_none() || present == donor.session) {
            return Ok(());
        }
        Err("the donor has left the group: start this server again for another copy".into())
    }
}

enum CopyEvent {
    Received(Received),
    Failed(String),
    Left,
    News(u64, StateTransferEvent),
}

/// `wsrep_sst_method=skip` and the like: the server says that it needs nothing.
fn is_without_copy(request: &[u8]) -> bool {
    let method = request.split(|byte| *byte == 0).next().unwrap_or_default();
    method == b"trivial" || method == b"none"
}
