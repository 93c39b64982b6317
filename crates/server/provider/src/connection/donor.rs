//! SST at the donor: gives a joiner a full copy, by the server's own scripts. Desync is here too,
//! because both take a server out of service.

use synod_node::{DonorRequest, MemberId, Seqno};

use crate::api::{Gtid, LogLevel, RecvContext, Status};
use crate::apply::sequencer::Task;
use crate::connection::session::Session;
use crate::status::LocalState;

/// The code that a joiner gets, in place of the script's exit code, if the donor's server did not
/// start the script.
const SERVER_REFUSED: i32 = 1;

/// A full copy that this server gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Donation {
    /// Number of the joiner's request.
    id: u64,
    /// The member that gets the copy.
    joiner: MemberId,
}

/// Outcome of a joiner's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DonorAnswer {
    /// This server gives the copy.
    Accepted,
    /// The same request was accepted before; it came twice.
    Repeated,
    /// Refused, with the reason.
    Refused(&'static str),
}

/// Reasons that keep this server out of service: a copy that it gives, and desync requests.
#[derive(Default)]
pub(crate) struct Donor {
    given: Option<Donation>,
    desyncs: u32,
    /// The group was lost: the server has to be told that it is synced again, desynced or not.
    was_lost: bool,
}

impl Donor {
    fn request(&mut self, id: u64, joiner: MemberId, local: LocalState) -> DonorAnswer {
        let donation = Donation { id, joiner };
        if self.given == Some(donation) {
            return DonorAnswer::Repeated;
        }
        if self.given.is_some() {
            return DonorAnswer::Refused("this member gives a copy to another joiner");
        }
        if !matches!(local, LocalState::Synced | LocalState::Joined) {
            return DonorAnswer::Refused("this member is not synced");
        }
        self.given = Some(donation);
        DonorAnswer::Accepted
    }

    /// The copy is over; which one it was.
    fn finish(&mut self) -> Option<Donation> {
        self.given.take()
    }

    /// One more request to be out of service; whether the server leaves service by it.
    fn desync(&mut self, local: LocalState) -> bool {
        self.desyncs = self.desyncs.saturating_add(1);
        self.desyncs == 1 && local == LocalState::Synced
    }

    /// One request less; whether nothing keeps the server out of service any more.
    fn resync(&mut self) -> bool {
        let was_desynced = self.desyncs > 0;
        self.desyncs = self.desyncs.saturating_sub(1);
        was_desynced && self.is_in_service()
    }

    /// Whether nothing keeps the server out of service.
    fn is_in_service(&self) -> bool {
        self.given.is_none() && self.desyncs == 0
    }

    /// Desync requests that were not taken back.
    pub(crate) fn desyncs(&self) -> u32 {
        self.desyncs
    }

    /// The group is lost. Desync requests stay: the server's variable still says so.
    pub(crate) fn lose_group(&mut self) {
        self.was_lost = true;
    }

    /// Whether the server is to be told now that it is synced.
    pub(crate) fn lets_sync(&mut self) -> bool {
        let lets = self.given.is_none() && (self.desyncs == 0 || self.was_lost);
        self.was_lost &= !lets;
        lets
    }
}

/// Starts the copy. Everything up to the joiner's view is released here.
pub(crate) fn donate_copy(session: &Session, ctx: RecvContext, request: &DonorRequest) {
    let Some(node) = session.node() else { return };
    let (id, joiner) = (request.id, request.joiner);
    let answer = {
        let mut state = session.state();
        let local = state.lifecycle.local();
        state.donor.request(id, joiner, local)
    };
    match answer {
        DonorAnswer::Accepted => {}
        DonorAnswer::Repeated => return,
        DonorAnswer::Refused(why) => {
            return node.answer_state_request(id, joiner, false, why.to_owned());
        }
    }
    session.set_local(LocalState::DonorDesynced);
    let gtid = session.gtid(request.after.0);
    // With mysqldump the server comes back when everything is sent. The joiner would have asked
    // another donor by then.
    node.answer_state_request(id, joiner, true, String::new());
    let callbacks = &session.server.callbacks;
    let started = callbacks.sst_donate(ctx, &request.request, gtid, false);
    if let Err(error) = started {
        session.log(LogLevel::Error, format!("cannot give a copy: {error}"));
        session.update(|state| state.donor.finish());
        session.set_local(LocalState::Joined);
        session.sequencer.add_task(0, Task::Synced);
        let text = format!("the donor's server refused: {error}");
        // It would refuse the same request again, and so would other donors. The joiner says so
        // and stops; otherwise it would take a donor out of service every second.
        node.finish_donation(id, joiner, Seqno(-1), SERVER_REFUSED, text);
    }
}

/// The copy is sent (`code` 0), or failed.
pub(crate) fn copy_sent(session: &Session, gtid: Gtid, code: i32) -> Status {
    let Some(donation) = session.update(|state| state.donor.finish()) else {
        return Status::Ok;
    };
    if let Some(node) = session.node() {
        let text = match code {
            0 => String::new(),
            _ => "see the donor's error log".to_owned(),
        };
        node.finish_donation(donation.id, donation.joiner, Seqno(gtid.seqno), code, text);
    }
    session.set_local(LocalState::Joined);
    session.sequencer.add_task(0, Task::Synced);
    Status::Ok
}

/// Takes the server out of service.
pub(crate) fn desync(session: &Session) -> Status {
    let leaves_service = session.update(|state| {
        let local = state.lifecycle.local();
        state.donor.desync(local)
    });
    if leaves_service {
        session.set_local(LocalState::DonorDesynced);
    }
    Status::Ok
}

/// Ends a pause, which comes with a desync (`FLUSH TABLES WITH READ LOCK`). The server takes
/// that back afterwards, but not if it believes that the group is lost: as it does until then,
/// if the group was lost during the pause.
pub(crate) fn resume(session: &Session) -> Status {
    session.update(|state| {
        if !state.views.is_primary() {
            state.donor.resync();
        }
    });
    session.sequencer.resume();
    Status::Ok
}

/// Takes a desync back; `synced` is called once the server has caught up.
pub(crate) fn resync(session: &Session) -> Status {
    let back = session.update(|state| state.donor.resync() && state.views.is_primary());
    if back {
        session.set_local(LocalState::Joined);
        session.sequencer.add_task(0, Task::Synced);
    }
    Status::Ok
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: MemberId = MemberId(1);
    const TWO: MemberId = MemberId(2);

    #[test]
    fn donor_gives_one_copy_at_a_time_and_knows_a_repeated_request() {
        let mut donor = Donor::default();
        let refused = donor.request(7, ONE, LocalState::Joining);
        assert!(matches!(refused, DonorAnswer::Refused(_)), "not synced");
        let accepted = donor.request(7, ONE, LocalState::Synced);
        assert_eq!(accepted, DonorAnswer::Accepted);
        let again = donor.request(7, ONE, LocalState::DonorDesynced);
        assert_eq!(again, DonorAnswer::Repeated);
        let other = donor.request(7, TWO, LocalState::DonorDesynced);
        assert!(matches!(other, DonorAnswer::Refused(_)));
        assert_eq!(donor.finish(), Some(Donation { id: 7, joiner: ONE }));
        assert_eq!(donor.finish(), None);
    }

    #[test]
    fn each_desync_needs_its_resync() {
        let mut donor = Donor::default();
        assert!(donor.desync(LocalState::Synced));
        assert!(
            !donor.desync(LocalState::DonorDesynced),
            "it has left already"
        );
        assert!(!donor.resync());
        assert!(donor.resync());
        assert!(!donor.resync(), "nothing to take back");
    }

    #[test]
    fn desync_outlives_a_loss_of_the_group() {
        let mut donor = Donor::default();
        donor.desync(LocalState::Synced);
        assert!(!donor.lets_sync());
        donor.lose_group();
        assert!(donor.lets_sync(), "the server has to know that it is back");
        assert!(!donor.lets_sync(), "once");
        assert_eq!(donor.desyncs(), 1);
        assert!(donor.resync());
        assert!(donor.lets_sync());
    }

    #[test]
    fn copy_that_is_given_keeps_the_server_out_of_service() {
        let mut donor = Donor::default();
        donor.desync(LocalState::Synced);
        donor.request(7, ONE, LocalState::Joined);
        assert!(!donor.resync());
        donor.finish();
        assert!(donor.is_in_service());
    }
}
