//! One connection to the group, from `connect` to the final view.
//!
//! [`Connection`] coordinates. It is called by the server's threads (through the provider) and by
//! the node's threads (as its [`Host`]), and has the owners of a connection do their parts. An
//! owner has its own state. Its methods take the [`Session`], and other owners only if they need
//! them, so that a signature says what may be touched. None knows the connection.
//!
//! | owner | owns |
//! |---|---|
//! | [`Session`] | the node, the commit order, what threads wait for, the end; lock order |
//! | [`WriteGate`] | whether clients of this server may write |
//! | [`Votes`] | how actions have ended here, and which outcomes the group decided |
//! | [`LostStreams`] | which streamed transactions all members have rolled back |
//! | [`Statements`] | statements in total order (TOI) that execute now |
//! | [`Joiner`] | the way into the group: from the log, or by a full copy |
//! | [`StartWatch`] | the start of the server, as its service manager sees it |
//!
//! Actions of clients pass through `transaction`, those of other servers through `apply`.

mod catch_up_from_log;
pub(crate) mod departure;
pub(crate) mod donor;
pub(crate) mod join;
pub(crate) mod joiner;
mod lifecycle;
pub(crate) mod session;
mod start_watch;
pub(crate) mod views;
pub(crate) mod write_gate;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use synod_admin::service_manager::ServiceManager;
use synod_commands::Step;
use synod_node::{
    Delivery, DonorRequest, Election, Host, Level, OutcomeDecision, OwnLogTimes, Remedy, Seqno,
    Setting, StateTransferEvent, Topic, View as GroupView, WritePermission,
};
use synod_options::HostNames;

use crate::api::LogLevel;
use crate::apply::failed_action_here::Votes;
use crate::apply::sequencer::{Queued, Task};
use crate::boundary::{IsolationMode, isolation_mode, peer_ip_allowed};
use crate::provider::FIRST_SERIAL;
use crate::transaction::statements::{Statements, note_outcomes};
use crate::transaction::streamed_transactions::{
    apply_proposed_rollbacks, roll_back_after_fragments,
};
use crate::transaction::streams_of_lost_members::LostStreams;
use departure::Data;
use joiner::{DonorPreference, Joiner};
use session::{Server, Session};
use start_watch::StartWatch;
use write_gate::WriteGate;

pub(crate) struct Connection {
    pub(crate) session: Arc<Session>,
    pub(crate) write_gate: WriteGate,
    pub(crate) votes: Votes,
    pub(crate) lost_streams: LostStreams,
    pub(crate) statements: Statements,
    pub(crate) joiner: Joiner,
    pub(crate) start_watch: Arc<StartWatch>,
}

impl Connection {
    /// A connection without a node; the join moves its order to where it begins.
    pub(crate) fn new(
        server: Server,
        serial: u64,
        donors: DonorPreference,
        queue_bytes_max: usize,
    ) -> Arc<Connection> {
        Arc::new(Connection {
            session: Session::new(server, serial, queue_bytes_max),
            write_gate: WriteGate::default(),
            votes: Votes::default(),
            lost_streams: LostStreams::new(serial),
            statements: Statements::default(),
            joiner: Joiner::new(donors),
            start_watch: Arc::default(),
        })
    }

    pub(crate) fn start_threads(&self) -> Result<(), String> {
        self.session
            .start_thread("synod-streams", apply_proposed_rollbacks)?;
        self.session
            .start_thread("synod-fragments", roll_back_after_fragments)?;
        self.session.start_thread("synod-outcomes", note_outcomes)?;
        if self.session.serial == FIRST_SERIAL {
            let watch = self.start_watch.clone();
            let manager = ServiceManager::from_environment().ok().flatten();
            let look = move |session: &Session| watch.look_after_start(session, manager.as_ref());
            self.session.start_thread("synod-start", look)?;
        }
        Ok(())
    }
}

/// Called on the node's own threads. Only [`Host::deliver`] may wait, which it does while the queue
/// of actions to apply is full.
impl Host for Connection {
    fn setting_name(&self, setting: Setting) -> &'static str {
        NAMES.name_of(setting)
    }

    fn log(&self, level: Level, text: &str) {
        let level = match level {
            // Unless asked for by the option `debug`, the server shows these with wsrep_debug only.
            Level::Debug if !self.session.server.options.debug() => LogLevel::Debug,
            Level::Debug | Level::Info => LogLevel::Info,
            Level::Warning => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        if level == LogLevel::Warn {
            self.start_watch.warned_at_start(text);
        }
        self.session.server.callbacks.log(level, text);
    }

    fn note(&self, topic: Topic, level: Level, text: &str) {
        self.session.server.events.add(topic, level, text);
        Host::log(self, level, text);
    }

    fn elected(&self, election: &Election) {
        self.session.server.events.elected(election);
    }

    fn deliver(&self, delivery: Delivery) -> ControlFlow<()> {
        let taken = match delivery {
            Delivery::View(view) => {
                self.session.server.counters.received.one();
                self.session.sequencer.push(Queued::View(view))
            }
            Delivery::Action {
                seqno, data: None, ..
            } => self.session.sequencer.push_local(seqno.0),
            Delivery::Action {
                seqno,
                depends_on,
                origin,
                data: Some(data),
            } => {
                self.session.server.counters.received.one();
                self.session
                    .server
                    .counters
                    .received_bytes
                    .add(data.len() as u64);
                let (seqno, depends_on) = (seqno.0, depends_on.0);
                self.session.sequencer.push(Queued::Action {
                    seqno,
                    depends_on,
                    origin,
                    data,
                })
            }
        };
        if taken {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }

    fn own_action_durable(&self, times: OwnLogTimes) {
        self.session.server.note_took(Step::Append, times.append);
        self.session.server.note_took(Step::Fsync, times.fsync);
    }

    fn own_action_committed(&self, took: Duration) {
        self.session.server.note_took(Step::Quorum, took);
    }

    fn certification_begins(&self) {
        self.session.server.counters.steps.certification_begins();
    }

    fn certification_ends(&self) {
        let period = self.session.server.options.stats_period();
        self.session
            .server
            .counters
            .steps
            .certification_ends(period);
    }

    fn takes_now(&self) -> bool {
        self.session.sequencer.has_room()
    }

    fn joined(&self, view: &GroupView) {
        self.session
            .update(|state| state.joined = Some(view.clone()));
    }

    fn primary_changed(&self, primary: bool) {
        self.session.set_primary(primary);
    }

    fn applied_everywhere(&self, seqno: Seqno) {
        self.session
            .server
            .end_waits(self.session.held_commits.reach(seqno.0));
    }

    fn write_permission(&self, permission: WritePermission) {
        self.write_gate.set_permission(&self.session, permission);
    }

    fn donate(&self, request: DonorRequest) {
        let after = request.after.0;
        self.session
            .sequencer
            .add_task(after, Task::Donate(request));
    }

    fn state_transfer_event(&self, id: u64, event: StateTransferEvent) {
        self.session.update(|state| state.sst.add(id, event));
    }

    fn is_isolated(&self) -> bool {
        isolation_mode() != IsolationMode::NotIsolated
    }

    fn allows(&self, ip: &str) -> bool {
        peer_ip_allowed(ip)
    }

    fn is_end_unknown(&self, seqno: Seqno) -> bool {
        self.session.server.position.is_end_unknown(seqno.0)
    }

    fn outcome_decided(&self, decision: &OutcomeDecision) {
        self.votes.note_decision(&self.session, decision);
    }

    fn deliver_decision(&self, decision: &OutcomeDecision) {
        self.votes.compare_decision(&self.session, decision);
    }

    fn entries_skipped(&self) {
        self.votes.compare_all_decisions(&self.session);
    }

    fn failed(&self, why: &str, remedy: Remedy) {
        let data = match remedy {
            Remedy::FullCopy => Data::Outdated,
            Remedy::Restart | Remedy::Operator => Data::Good,
        };
        self.session.update(|state| state.lifecycle.node_ends());
        self.session.leave(why, data, remedy);
    }
}

/// The variables of the server, and its options for the address that it listens on.
const NAMES: HostNames = HostNames {
    member_name: "wsrep_node_name",
    member_address: "wsrep_node_address",
    group_address: "wsrep_cluster_address",
    listen_address: "base_port or gmcast.listen_addr",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::SPECS;

    #[test]
    fn settings_are_spelled_as_options_and_variables_of_the_server() {
        for setting in Setting::ALL {
            for name in NAMES.name_of(setting).split(" or ") {
                let is_option = SPECS.iter().any(|spec| spec.name == name);
                assert!(is_option || name.starts_with("wsrep_"), "{name}");
            }
        }
    }
}
