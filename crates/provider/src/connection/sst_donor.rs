//! Giving a joiner a full copy, by the server's own scripts.

use synod_node::{DonorRequest, Seqno};

use crate::api::{Gtid, LogLevel, RecvContext, Status};
use crate::apply::sequencer::Task;
use crate::connection::{Connection, Donation};
use crate::status::LocalState;

/// What a joiner is told, in place of the script's exit code, if the donor's server did not start it.
const SERVER_REFUSED: i32 = 1;

impl Connection {
    /// Starts the copy. Everything up to the joiner's view is released here.
    pub(crate) fn donate_copy(&self, ctx: RecvContext, request: &DonorRequest) {
        let Some(node) = self.node() else { return };
        let refusal = {
            let mut state = self.state();
            let same = state
                .donation
                .as_ref()
                .is_some_and(|d| (d.id, d.joiner) == (request.id, request.joiner));
            if same {
                return;
            }
            let fit = matches!(state.local, LocalState::Synced | LocalState::Joined);
            match (state.donation.is_some(), fit) {
                (true, _) => Some("this member gives a copy to somebody else"),
                (false, false) => Some("this member is not synced"),
                (false, true) => {
                    state.donation = Some(Donation {
                        id: request.id,
                        joiner: request.joiner,
                    });
                    None
                }
            }
        };
        if let Some(why) = refusal {
            node.answer_state_request(request.id, request.joiner, false, why.to_owned());
            return;
        }
        self.set_local(LocalState::DonorDesynced);
        let gtid = Gtid {
            group: self.group(),
            seqno: request.after.0,
        };
        let (id, joiner) = (request.id, request.joiner);
        // With mysqldump the server comes back when everything is sent. The joiner would have asked another
        // donor by then.
        node.answer_state_request(id, joiner, true, String::new());
        let started = self
            .callbacks
            .sst_donate(ctx, &request.request, gtid, false);
        if let Err(error) = started {
            self.log(LogLevel::Error, format!("cannot give a copy: {error}"));
            self.update(|state| state.donation = None);
            self.set_local(LocalState::Joined);
            self.sequencer.add_task(0, Task::Synced);
            let text = format!("the donor's server refused: {error}");
            // It would refuse the same request again, and so would others. The joiner says so and stops;
            // otherwise it would take a donor out of service every second.
            node.finish_donation(id, joiner, Seqno(-1), SERVER_REFUSED, text);
        }
    }

    /// The copy is sent, or failed.
    pub(crate) fn copy_sent(&self, gtid: Gtid, code: i32) -> Status {
        let Some(donation) = self.update(|state| state.donation.take()) else {
            return Status::Ok;
        };
        if let Some(node) = self.node() {
            let text = match code {
                0 => String::new(),
                _ => "see the donor's error log".to_owned(),
            };
            node.finish_donation(donation.id, donation.joiner, Seqno(gtid.seqno), code, text);
        }
        self.set_local(LocalState::Joined);
        self.sequencer.add_task(0, Task::Synced);
        Status::Ok
    }

    /// Steps out of flow control.
    pub(crate) fn desync(&self) -> Status {
        let step = self.update(|state| {
            state.desyncs = state.desyncs.saturating_add(1);
            state.desyncs == 1 && state.local == LocalState::Synced
        });
        if step {
            self.set_local(LocalState::DonorDesynced);
        }
        Status::Ok
    }

    /// Steps back; the server is told once it has caught up.
    pub(crate) fn resync(&self) -> Status {
        let back = self.update(|state| {
            let stepped_out = state.desyncs > 0;
            state.desyncs = state.desyncs.saturating_sub(1);
            let back = stepped_out && state.desyncs == 0;
            back && state.donation.is_none() && state.shown_primary
        });
        if back {
            self.set_local(LocalState::Joined);
            self.sequencer.add_task(0, Task::Synced);
        }
        Status::Ok
    }
}
