//! Telling people about a damaged log: that it is whole again, or why it cannot be.

use std::time::Duration;

use synod_consensus::{Core, Time};
use synod_log::LogError;

use super::Driver;
use crate::host::Level;

/// A member that cannot be repaired says so this often.
const REMINDER: Duration = Duration::from_secs(60);

/// What was said about a repair.
pub(super) struct RepairWatch {
    under_repair: bool,
    reminded: Option<Time>,
}

impl RepairWatch {
    pub(super) fn new(core: &Core) -> RepairWatch {
        RepairWatch {
            under_repair: core.repairing_until().is_some(),
            reminded: None,
        }
    }
}

impl Driver {
    pub(super) fn watch_repair(&mut self) {
        if !self.repair.under_repair {
            return;
        }
        let Some(until) = self.core.repairing_until() else {
            self.repair.under_repair = false;
            return self.log(Level::Info, "this member's log is repaired");
        };
        let alone = self
            .leaderless_since
            .is_some_and(|since| self.now.since(since) >= self.config.suspect);
        let due = self
            .repair
            .reminded
            .is_none_or(|at| self.now.since(at) >= REMINDER);
        if alone && due {
            self.repair.reminded = Some(self.now);
            let text = format!(
                "this member's log was damaged and lacks entries that may have been acknowledged, up to \
                 {until}. It waits for a leader that has them; none is known, so the group cannot go on \
                 as long as too few members with whole logs are running. 'When logs are damaged' in \
                 docs/operating/shutdown-and-recovery.md says what can be done"
            );
            self.log(Level::Error, text);
        }
    }

    /// A record was met that is damaged. It is neither served nor delivered; the next start repairs it.
    pub(super) fn log_damaged(&mut self, error: &LogError) {
        let damage = error.damage().unwrap_or_else(|| error.to_string());
        self.fail(&format!(
            "its log is damaged: {damage}. Restart it: it then gets what is lost from the other members"
        ));
    }
}
