//! Interface for operators: orders that change the group, and settings that change while a node
//! runs.
//!
//! Commands and the host's own interface for operators call these methods. An order
//! ([`Node::administrate`], a forced primary) is answered, with a typed reason if it is refused. A
//! setting is handed to the driver and has no answer.

use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, bounded};
use synod_consensus::{ForceError, LeaderPreference, Writers};
use synod_member::{
    CommandRequest, CommitWait, Event, ForceDone, FullLogPolicy, InconsistencyPolicy,
    LeaderPlacement, QuorumLossPolicy, VoterPolicy, WritersRefusal, WritersRequest,
};
use synod_tls::TlsError;
use synod_wire::{Command, CommandRefusal, Done, RefusalReason};

use crate::node::Node;

/// The driver may answer so much later than asked for.
const DRIVER_PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetWritersError {
    /// The group cannot do that, or the leader refuses. Nothing was changed.
    #[error("whose writes are taken was not changed: {0}")]
    Refused(String),
    /// The group has not agreed in time. The change may still be made.
    #[error(
        "the group has not agreed within {} s whose writes are taken, because it has no majority or \
         is being changed otherwise; it may still do so. Look at the status before you repeat it",
        .patience.as_secs_f32()
    )]
    NotInTime {
        /// How long the caller waited.
        patience: Duration,
    },
    /// The node has stopped, or stopped before it knew the result.
    #[error("this member has stopped: ask another one whose writes are taken")]
    Stopped,
}

impl Node {
    /// Gives an operator's order to the group, by way of this member: any member will do. Returns
    /// when the order is carried out: a change of the configuration when it is committed, a
    /// transfer when another member leads. Only with [`RefusalReason::Unsure`] a refused order may
    /// have been carried out, or may still be.
    pub fn administrate(&self, command: Command, limit: Duration) -> Result<Done, CommandRefusal> {
        let (reply, answer) = bounded(1);
        self.send_event(Event::Command(CommandRequest {
            command,
            limit,
            reply: Box::new(move |answered| {
                // The caller may have waited long enough.
                let _ = reply.send(answered);
            }),
        }));
        // The driver answers in time; this is for one that stands still.
        let answered = match Instant::now().checked_add(limit.saturating_add(DRIVER_PATIENCE)) {
            Some(deadline) => answer.recv_deadline(deadline),
            None => answer.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        answered.unwrap_or_else(|error| Err(unanswered(error)))
    }

    /// Sets whose writes the group takes: on all members alike, also on those that join later, and
    /// after restarts. Any member may be asked. Returns when the group has committed it, and waits
    /// for that as long as `patience`; the group is asked for it as long as `limit`.
    pub fn set_writers(
        &self,
        writers: Writers,
        limit: Duration,
        patience: Duration,
    ) -> Result<(), SetWritersError> {
        let (done, answer) = bounded(1);
        self.send_event(Event::OrderWriters(WritersRequest {
            writers,
            limit,
            reply: Box::new(move |result| {
                // The caller may have waited long enough.
                let _ = done.send(result);
            }),
        }));
        match answer.recv_timeout(patience) {
            Ok(result) => result.map_err(|refusal| match refusal {
                WritersRefusal::Refused(why) => SetWritersError::Refused(why),
                WritersRefusal::NotInTime => SetWritersError::NotInTime { patience },
            }),
            Err(RecvTimeoutError::Timeout) => Err(SetWritersError::NotInTime { patience }),
            Err(RecvTimeoutError::Disconnected) => Err(SetWritersError::Stopped),
        }
    }

    /// Makes this member primary without a majority of the voters: see
    /// [`synod_consensus::Core::force`] for what that costs.
    pub fn force_primary(&self) -> Result<(), ForceError> {
        let (done, answer) = bounded(1);
        self.send_event(Event::ForcePrimary(ForceDone(Box::new(move |result| {
            // The caller's thread may have ended.
            let _ = done.send(result);
        }))));
        // A node that has stopped cannot become primary.
        answer.recv().unwrap_or(Err(ForceError::NotConfigured))
    }

    /// Sets what this member does by itself when the majority is gone, from now on.
    pub fn set_quorum_loss_policy(&self, policy: QuorumLossPolicy) {
        self.send_event(Event::QuorumLossPolicy(policy));
    }

    /// Sets how many voters the group keeps while this member leads, from now on.
    pub fn set_voter_policy(&self, policy: VoterPolicy) {
        self.send_event(Event::VoterPolicy(policy));
    }

    /// Sets what this member does as a leader whose log is full of what too few databases have,
    /// from now on.
    pub fn set_full_log_policy(&self, policy: FullLogPolicy) {
        self.send_event(Event::FullLogPolicy(policy));
    }

    /// Sets the bound on the best majority's lag, see
    /// [`NodeConfig::apply_lag_max`](crate::NodeConfig::apply_lag_max).
    pub fn set_apply_lag_max(&self, limit: Duration) {
        self.send_event(Event::ApplyLagMax(limit));
    }

    /// Sets what the host's clients wait for before they are told that an action is committed. In
    /// force, for actions submitted after this call, as soon as the group's protocol version
    /// allows; [`Host::applied_everywhere`](crate::Host::applied_everywhere) then says how far the
    /// other databases are.
    pub fn set_commit_wait(&self, wanted: CommitWait) {
        self.send_event(Event::CommitWait(wanted));
    }

    /// Sets how long a member may be silent, see
    /// [`NodeConfig::suspect`](crate::NodeConfig::suspect).
    pub fn set_suspect_timeout(&self, limit: Duration) {
        self.send_event(Event::SuspectTimeout(limit));
    }

    /// Sets how much this member should lead, and whether it hands leadership over, from now on.
    pub fn set_leader_preference(&self, preference: LeaderPreference) {
        self.send_event(Event::LeaderPreference(preference));
    }

    /// Sets whether this member hands leadership over, from now on. Its weight stays, also one that
    /// an operator has ordered by a command.
    pub fn set_leader_handover(&self, hands_over: bool) {
        self.send_event(Event::LeaderHandover(hands_over));
    }

    /// Sets what this member does, while it leads, when writes come from elsewhere.
    pub fn set_leader_placement(&self, placement: LeaderPlacement) {
        self.send_event(Event::LeaderPlacement(placement));
    }

    /// Sets how outcomes are counted while this member leads.
    pub fn set_inconsistency_policy(&self, policy: InconsistencyPolicy) {
        self.send_event(Event::InconsistencyPolicy(policy));
    }

    /// Reads the credentials again, for connections opened from now on. Open connections by a
    /// secret that is not accepted any more are closed; others stay. On an error the credentials in
    /// use stay.
    pub fn reload_tls(&self) -> Result<(), TlsError> {
        self.transport.reload_tls()
    }

    /// Separates this member from all others, in both directions, or connects it again: for tests,
    /// and for operators who want to see what a partition does.
    pub fn set_isolated(&self, isolated: bool) {
        self.transport.set_isolated(isolated);
    }
}

fn unanswered(error: RecvTimeoutError) -> CommandRefusal {
    let (reason, text) = match error {
        RecvTimeoutError::Disconnected => (
            RefusalReason::Stopped,
            "this member has stopped, or left its group: give the command to another one",
        ),
        RecvTimeoutError::Timeout => (
            RefusalReason::Unsure,
            "this member did not answer in time: the command may have been carried out, or may \
             still be. Look at the members before you repeat it",
        ),
    };
    CommandRefusal {
        reason,
        text: text.to_owned(),
    }
}
