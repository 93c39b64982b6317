//! Host callbacks of the node, implemented by the connection.
//!
//! Called on the node's own threads. Only [`Host::deliver`] may wait, which it does while the queue
//! of actions to apply is full.

use std::ops::ControlFlow;
use std::time::Duration;

use synod_node::{
    Delivery, DonorRequest, Election, Host, Level, OutcomeDecision, OwnLogTimes, Remedy, Seqno,
    Setting, StateTransferEvent, Topic, View as GroupView, WritePermission,
};
use synod_options::HostNames;

use crate::api::LogLevel;
use crate::apply::sequencer::{Queued, Task};
use crate::boundary::{IsolationMode, isolation_mode, peer_ip_allowed};
use crate::connection::Connection;
use crate::connection::disconnect::Data;
use crate::status::commit_steps::Step;

impl Host for Connection {
    fn setting_name(&self, setting: Setting) -> &'static str {
        NAMES.name_of(setting)
    }

    fn log(&self, level: Level, text: &str) {
        let level = match level {
            // Unless asked for by the option `debug`, the server shows these with wsrep_debug only.
            Level::Debug if !self.shared.options.debug() => LogLevel::Debug,
            Level::Debug | Level::Info => LogLevel::Info,
            Level::Warning => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        if level == LogLevel::Warn {
            self.warned_at_start(text);
        }
        self.shared.callbacks.log(level, text);
    }

    fn note(&self, topic: Topic, level: Level, text: &str) {
        self.shared.events.add(topic, level, text);
        Host::log(self, level, text);
    }

    fn elected(&self, election: &Election) {
        self.shared.events.elected(election);
    }

    fn deliver(&self, delivery: Delivery) -> ControlFlow<()> {
        let taken = match delivery {
            Delivery::View(view) => {
                self.shared.counters.received.one();
                self.sequencer.push(Queued::View(view))
            }
            Delivery::Action {
                seqno, data: None, ..
            } => self.sequencer.push_local(seqno.0),
            Delivery::Action {
                seqno,
                depends_on,
                origin,
                data: Some(data),
            } => {
                self.shared.counters.received.one();
                self.shared.counters.received_bytes.add(data.len() as u64);
                let (seqno, depends_on) = (seqno.0, depends_on.0);
                self.sequencer.push(Queued::Action {
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
        self.note_took(Step::Append, times.append);
        self.note_took(Step::Fsync, times.fsync);
    }

    fn own_action_committed(&self, took: Duration) {
        self.note_took(Step::Quorum, took);
    }

    fn certification_begins(&self) {
        self.shared.counters.steps.certification_begins();
    }

    fn certification_ends(&self) {
        let period = self.shared.options.stats_period();
        self.shared.counters.steps.certification_ends(period);
    }

    fn takes_now(&self) -> bool {
        self.sequencer.has_room()
    }

    fn joined(&self, view: &GroupView) {
        self.update(|state| state.joined = Some(view.clone()));
    }

    fn primary_changed(&self, primary: bool) {
        self.set_primary(primary);
    }

    fn applied_everywhere(&self, seqno: Seqno) {
        self.end_waits(self.commit_wait.reach(seqno.0));
    }

    fn write_permission(&self, permission: WritePermission) {
        self.set_write_permission(permission);
    }

    fn donate(&self, request: DonorRequest) {
        let after = request.after.0;
        self.sequencer.add_task(after, Task::Donate(request));
    }

    fn state_transfer_event(&self, id: u64, event: StateTransferEvent) {
        self.update(|state| state.sst.add(id, event));
    }

    fn is_isolated(&self) -> bool {
        isolation_mode() != IsolationMode::NotIsolated
    }

    fn allows(&self, ip: &str) -> bool {
        peer_ip_allowed(ip)
    }

    fn outcome_decided(&self, decision: &OutcomeDecision) {
        self.note_decision(decision);
    }

    fn deliver_decision(&self, decision: &OutcomeDecision) {
        self.compare_decision(decision);
    }

    fn entries_skipped(&self) {
        self.compare_all_decisions();
    }

    fn failed(&self, why: &str, remedy: Remedy) {
        let data = match remedy {
            Remedy::FullCopy => Data::Outdated,
            Remedy::Restart | Remedy::Operator => Data::Good,
        };
        self.update(|state| state.lifecycle.node_ends());
        self.leave(why, data, remedy);
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
