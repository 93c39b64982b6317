//! What operators want of a leader. They see in the status, and in the log, whether they got it.

use synod_consensus::{ConfigChange, MemberId};

use super::Driver;
use crate::host::Level;

impl Driver {
    pub(super) fn operate_config(&mut self, change: ConfigChange) {
        if let Err(error) = self.core.change_config(self.now(), change) {
            self.log(Level::Info, format!("configuration not changed: {error}"));
        }
    }

    pub(super) fn operate_transfer(&mut self, to: Option<MemberId>) {
        if let Err(error) = self.core.transfer_leadership(self.now(), to) {
            self.log(Level::Info, format!("leadership not handed over: {error}"));
        }
    }
}
