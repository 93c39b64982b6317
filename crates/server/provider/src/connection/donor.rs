//! SST at the donor: gives a joiner a full copy, by the server's own scripts. Desync is here too,
//! because both take a server out of service.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use synod_node::{DonorRequest, MemberId, Seqno};

use crate::api::{Gtid, LogLevel, RecvContext, Status};
use crate::apply::sequencer::Task;
use crate::connection::session::Session;
use crate::status::LocalState;

/// The code that a joiner gets, in place of the script's exit code, if the donor's server did not
/// start the script.
const SERVER_REFUSED: i32 = 1;
/// Time limit for the look whether the joiner's port of copies is open.
const REACH_LIMIT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Donation {
    id: u64,
    joiner: MemberId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DonorAnswer {
    Accepted,
    /// The same request was accepted before; it came twice.
    Repeated,
    Refused(&'static str),
}

/// Reasons that keep this server out of service: a copy that it gives, and desync requests.
#[derive(Default)]
pub(crate) struct Donor {
    given: Option<Donation>,
    /// Address at which the joiner takes the copy that is given; empty if its request has none.
    receiver: String,
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

    fn is_in_service(&self) -> bool {
        self.given.is_none() && self.desyncs == 0
    }

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
        DonorAnswer::Accepted => {
            let receiver = receiver(&request.request).unwrap_or_default();
            session.update(|state| state.donor.receiver = receiver);
        }
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
    let finish = |donor: &mut Donor| (donor.finish(), std::mem::take(&mut donor.receiver));
    let (Some(donation), receiver) = session.update(|state| finish(&mut state.donor)) else {
        return Status::Ok;
    };
    if let Some(node) = session.node() {
        let text = match code {
            0 => String::new(),
            _ => why_not_sent(&receiver),
        };
        if code != 0 {
            let line = format!("the full copy (SST) was not sent, code {code}: {text}");
            session.log(LogLevel::Warn, line);
        }
        node.finish_donation(donation.id, donation.joiner, Seqno(gtid.seqno), code, text);
    }
    session.set_local(LocalState::Joined);
    session.sequencer.add_task(0, Task::Synced);
    Status::Ok
}

/// Address at which a joiner takes its copy, `host:port`, from its request: the method, then the
/// address with what the method adds, each with a zero byte behind it.
fn receiver(request: &[u8]) -> Option<String> {
    let place = request.split(|byte| *byte == 0).nth(1)?;
    let place = std::str::from_utf8(place).ok()?.split('/').next()?;
    let address = place.rsplit('@').next()?;
    let (_, port) = address.rsplit_once(':')?;
    port.parse::<u16>().is_ok().then(|| address.to_owned())
}

/// The cause of a failed copy, as far as the way to the joiner shows it. A closed port fails the
/// scripts late, and in words about their pipes. (Before a copy nothing may look: the joiner's
/// script takes one connection.)
fn why_not_sent(receiver: &str) -> String {
    let log = "see the lines of WSREP_SST in the donor's error log";
    match reach(receiver) {
        Ok(()) => log.to_owned(),
        Err(error) => format!(
            "the donor does not reach {receiver}, where the joiner takes its copy ({error}). If \
             the joiner's scripts did not end before: open that port of the joiner's machine for \
             all servers, in firewalls, too; see that no other program listens there, and that \
             the address is the joiner's own (wsrep_sst_receive_address). Else {log}"
        ),
    }
}

fn reach(address: &str) -> io::Result<()> {
    let mut outcome = Ok(());
    for at in address.to_socket_addrs().into_iter().flatten() {
        match TcpStream::connect_timeout(&at, REACH_LIMIT) {
            Ok(_) => return Ok(()),
            Err(error) => outcome = Err(error),
        }
    }
    outcome
}

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
    fn address_of_the_joiner_is_in_its_request() {
        let at = |request: &str| receiver(request.as_bytes());
        let found = |address: &str| Some(address.to_owned());
        assert_eq!(at("rsync\0db3:4444/rsync_sst\0"), found("db3:4444"));
        let copy = "mariabackup\0CN@10.0.0.3:4445/xtrabackup_sst//1\0";
        assert_eq!(at(copy), found("10.0.0.3:4445"));
        assert_eq!(at("rsync\0[::1]:4444/rsync_sst\0"), found("[::1]:4444"));
        for none in ["rsync", "rsync\0\0", "rsync\0db3\0", "rsync\0db3:x/y\0"] {
            assert_eq!(at(none), None, "{none}");
        }
    }

    #[test]
    fn port_of_the_joiner_that_is_closed_is_named() {
        /// Not the port of a listener that was closed: a process that is being started by another
        /// test may hold a copy of it.
        const CLOSED: &str = "127.0.0.1:1";
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let told = why_not_sent(&address);
        assert!(!told.contains(&address), "{told}");
        let told = why_not_sent(CLOSED);
        let names = [CLOSED, "open that port", "wsrep_sst_receive_address"];
        assert!(names.iter().all(|words| told.contains(words)), "{told}");
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
