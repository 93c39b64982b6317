//! Two threads: one looks at the server, which does not call when an applier has committed;
//! the other opens and closes this server for writes.
//!
//! They are two because closing waits for commits under way, which wait for the group: meanwhile
//! the group must hear how far the database is, and waits of killed clients must end.

use std::time::Duration;

use synod_node::{DataState, Level, Seqno, WritePermission, Writers};

use crate::host::{Member, State};
use crate::server::Opening;
use crate::status::Stage;

/// Between two looks while the database is behind the group, or a client waits.
const BUSY: Duration = Duration::from_millis(5);
/// Between two looks otherwise.
const IDLE: Duration = Duration::from_millis(50);
/// The applier of the channel is started again so often without progress: a lock that was waited
/// for too long may be free now.
const STARTS_MAX: u32 = 5;
/// Between two starts.
const START_AGAIN: Duration = Duration::from_secs(1);
/// The group is asked so long for a change, and its answer is waited for so long.
const WRITERS_LIMIT: Duration = Duration::from_secs(10);
const WRITERS_PATIENCE: Duration = Duration::from_secs(1);

/// Starts of the applier since the database last made progress.
#[derive(Default)]
struct Starts {
    at: Seqno,
    count: u32,
}

impl Member {
    pub(crate) fn watch(&self) {
        let mut synced_at = None;
        let mut starts = Starts::default();
        loop {
            self.look();
            self.clients.end_killed();
            self.tell_synced(&mut synced_at);
            self.keep_applying(&mut starts);
            let is_busy = self.node().commit_seqno() > self.applied() || self.clients.count() > 0;
            if self.pause(if is_busy { BUSY } else { IDLE }) {
                return;
            }
        }
    }

    fn look(&self) {
        match self.server.executed() {
            Ok(executed) => {
                let applied = Seqno(executed.first_missing(self.settings.group) as i64 - 1);
                let known = self.applied();
                if applied > known {
                    self.set_applied(applied);
                } else if applied < known && self.lock().stage != Stage::Failed {
                    self.fail(format!(
                        "gtid_executed had the group's history up to {known}, and has it up to \
                         {applied} only: was it reset? Start this server again with a copy of \
                         another server's data"
                    ));
                }
            }
            Err(error) => self.log(Level::Error, error.to_string()),
        }
    }

    /// The database is synced once it has everything that was committed when it had joined.
    fn tell_synced(&self, synced_at: &mut Option<Seqno>) {
        if self.lock().stage != Stage::Following {
            return;
        }
        let node = self.node();
        let target = *synced_at.get_or_insert_with(|| node.commit_seqno());
        if target != Seqno(i64::MAX) && self.applied() >= target {
            node.set_data_state(DataState::Synced);
            self.log(
                Level::Info,
                format!("this server is synced, at {}", self.applied()),
            );
            *synced_at = Some(Seqno(i64::MAX));
        }
    }

    fn keep_applying(&self, starts: &mut Starts) {
        if self.lock().stage != Stage::Following || self.server.is_applying() {
            return;
        }
        let at = self.applied();
        if starts.at != at {
            *starts = Starts { at, count: 0 };
        }
        starts.count += 1;
        let see = "see performance_schema.replication_applier_status_by_worker and the error log";
        if starts.count > STARTS_MAX {
            let why = format!(
                "the applier of the channel stops after {at}, however often it is started: {see}. \
                 If its data differ from the others', give it a copy of another server's"
            );
            self.fail(why);
            return;
        }
        let text = format!("the applier of the channel has stopped after {at}: {see}");
        self.log(Level::Warning, text);
        if let Err(error) = self.server.start_channel() {
            self.log(Level::Warning, error.to_string());
        }
        self.pause(START_AGAIN);
    }

    pub(crate) fn keep_gate(&self) {
        while let Some(step) = self.wait_for(|state| self.next_step(state)) {
            let done = match step {
                Step::OneWriter => self.order_one_writer(),
                Step::Gate { open } => self.set_gate(open),
            };
            if !done && self.pause(WRITERS_PATIENCE) {
                return;
            }
        }
    }

    fn next_step(&self, state: &mut State) -> Option<Step> {
        let open = match state.permission {
            WritePermission::Here { after } => {
                state.stage == Stage::Following && self.applied() >= after
            }
            WritePermission::Everywhere | WritePermission::Elsewhere { .. } => false,
        };
        if state.is_open != Some(open) {
            return Some(Step::Gate { open });
        }
        let everywhere = state.permission == WritePermission::Everywhere;
        (everywhere && state.stage == Stage::Following).then_some(Step::OneWriter)
    }

    fn set_gate(&self, open: bool) -> bool {
        // Closed before it is known to be, and open after.
        self.change(|state| {
            if open {
                state.openings += 1;
                state.opening = Opening(state.openings);
            } else {
                (state.is_open, state.opening) = (Some(false), Opening::NONE);
            }
        });
        if let Err(error) = self.server.set_read_only(!open) {
            let text = format!("super_read_only cannot be changed: {error}");
            self.log(Level::Error, text);
            self.change(|state| (state.is_open, state.opening) = (None, Opening::NONE));
            return false;
        }
        self.change(|state| state.is_open = Some(open));
        let text = match open {
            true => "this server is the writer of its group",
            false => "this server takes no writes: the leader of its group does",
        };
        self.log(Level::Info, text);
        true
    }

    fn order_one_writer(&self) -> bool {
        let ordered = self
            .node()
            .set_writers(Writers::Leader, WRITERS_LIMIT, WRITERS_PATIENCE);
        if let Err(error) = &ordered {
            self.log(Level::Warning, error.to_string());
        }
        // The permission follows at once, or soon: it is waited for by the pause.
        ordered.is_ok() && self.lock().permission != WritePermission::Everywhere
    }
}

enum Step {
    /// The group takes the writes of its leader only.
    OneWriter,
    Gate {
        open: bool,
    },
}
