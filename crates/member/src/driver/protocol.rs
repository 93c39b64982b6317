//! The group's protocol version: raised when all members speak a newer one, and obeyed by all.

use synod_consensus::{Config, ConfigChange};

use super::Driver;
use crate::host::Level;

impl Driver {
    /// A configuration came into force: this member must speak its version. It does not if its
    /// program was replaced by an older one after the group had risen.
    pub(super) fn obey_protocol(&mut self, config: &Config) {
        let protocol = config.protocol;
        if config.members.is_empty() || protocol == self.protocol {
            return;
        }
        let spoken = self.config.versions;
        let ignores = synod_planted::is(synod_planted::Bug::IgnoreVersion);
        if !spoken.contains(protocol) && !ignores {
            self.fail(&format!(
                "the group speaks protocol version {protocol}, and this program speaks {spoken}: \
                 run one that speaks version {protocol}"
            ));
            return;
        }
        self.protocol = protocol;
        self.log(
            Level::Info,
            format!("the group speaks protocol version {protocol}"),
        );
    }

    /// An upgrade is over when the last member runs the new program; the leader says so.
    pub(super) fn raise_protocol(&mut self) {
        if let Some(newer) = self.core.config().config.newer_protocol() {
            // Refused while another change is under way: the next tick tries again.
            let _ = self
                .core
                .change_config(self.now(), ConfigChange::RaiseProtocol(newer));
        }
    }
}
