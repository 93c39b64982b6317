//! Consequences of changed options for a running connection and node.
//!
//! Called when `wsrep_provider_options` is set, and for the options in a cluster address. An option
//! that is read where it is used needs nothing here.

use std::time::Duration;

use synod_node::{GroupSetting, GroupSettings, LiveSetting, Node, QuorumLossPolicy, SettingError};

use super::{Provider, log_notices};
use crate::api::{LogLevel, Status};
use crate::boundary;
use crate::connection::Connection;
use crate::options::{Options, Update, Value, key};

impl Provider {
    pub(super) fn quorum_loss_policy(&self) -> QuorumLossPolicy {
        let options = self.options();
        match options.bool(key::PC_IGNORE_QUORUM) {
            true => QuorumLossPolicy::ContinueAlone,
            false if options.bool(key::PC_IGNORE_SB) => QuorumLossPolicy::ContinueWithHalf,
            false => QuorumLossPolicy::Wait,
        }
    }

    fn apply_to_node(&self, update: &Update, node: &Node) {
        if let Some(Value::Int(number)) = update.value(key::GMCAST_ISOLATE) {
            node.set_isolated(*number != 0);
        }
        if let Some(Value::Duration(limit)) = update.value(key::EVS_SUSPECT_TIMEOUT) {
            node.set(LiveSetting::SuspectTimeout(*limit));
        }
        if let Some(Value::Duration(limit)) = update.value(key::MAX_APPLY_LAG) {
            node.set(LiveSetting::ApplyLagMax(*limit));
        }
        if update.value(key::COMMIT_WAIT).is_some() {
            node.set(LiveSetting::CommitWait(self.options().commit_wait()));
        }
        node.set(LiveSetting::QuorumLossPolicy(self.quorum_loss_policy()));
        node.set(LiveSetting::FullLogPolicy(self.options().full_log_policy()));
        if update.value(key::LEADER_WEIGHT).is_some() {
            node.set(LiveSetting::LeaderPreference(
                self.options().leader_preference(),
            ));
        } else if update.value(key::LEADER_HANDOVER).is_some() {
            // A saved list names it. A weight that an operator has ordered by a command stays.
            node.set(LiveSetting::LeaderHandover(
                self.options().leader_preference().hands_over,
            ));
        }
        node.set(LiveSetting::LeaderPlacement(
            self.options().leader_placement(),
        ));
        node.set(LiveSetting::VoterPolicy(self.options().voter_policy()));
        node.set(LiveSetting::RegionPatience(
            self.options().region_patience(),
        ));
        if let Some(Value::Bool(true)) = update.value(key::PC_BOOTSTRAP)
            && let Err(error) = node.force_primary()
        {
            let text = format!("pc.bootstrap has nothing to do: {error}");
            self.callbacks.log(LogLevel::Info, &text);
        }
    }

    /// Takes the weight of a node that has been closed: an operator's command may have changed it,
    /// which holds until the server ends.
    pub(super) fn keep_leader_weight(&self, connection: &Connection) {
        if let Some(node) = connection.session.node() {
            let weight = node.status().leader_weight;
            self.options().follow_leader_weight(weight);
        }
    }

    pub(super) fn apply_update(&self, update: &Update) {
        log_notices(&self.callbacks, update);
        let queue_bytes = {
            let options = self.options();
            self.live.update(&options);
            options.size(key::APPLY_QUEUE_SIZE)
        };
        let Some(connection) = self.connection() else {
            return;
        };
        connection
            .session
            .sequencer
            .set_queue_bytes_max(queue_bytes);
        if let Some(node) = connection.session.node() {
            self.apply_to_node(update, node);
        }
    }
}

impl Provider {
    /// Warns of a bound below what the group answers in: reads would wait as without it.
    pub(super) fn try_staleness(&self, update: &Update) {
        let Some(Value::Duration(bound)) = update.value(key::MAX_STALENESS) else {
            return;
        };
        let connection = self.connection().filter(|_| !bound.is_zero());
        let node = connection.as_ref().and_then(|c| c.session.node());
        // A read within this time leaves the other half of the bound to those that rely on it.
        let limit = (*bound / 2).min(PATIENCE);
        if node.is_some_and(|node| node.read_position(limit).is_none()) {
            let text = format!(
                "synod.max_staleness is set, but reads with wsrep_sync_wait will mostly wait as \
                 with PT0S: just now the leader and a majority did not answer this server within \
                 half of it ({} ms). Set at least twice the time of such an answer",
                limit.as_secs_f64() * 1e3
            );
            boundary::warn_of_statement(&text);
            self.callbacks.log(LogLevel::Warn, &text);
        }
    }
}

/// Time limit for the group's answer about a setting that all its servers have in common.
const LIMIT: Duration = Duration::from_secs(10);
/// Longest wait of `SET GLOBAL` for the group. Meanwhile the server lets no client connect, and
/// shows no variables: it holds its lock of global variables.
const PATIENCE: Duration = Duration::from_millis(900);

impl Provider {
    /// Has the group make the settings that an operator asks for, if any. OK means that the group
    /// has committed them. The client gets the reason if it does not, or has not yet.
    pub(super) fn set_for_group(&self, update: &Update) -> Status {
        for setting in update.group_settings() {
            if let Err(why) = self.set_one_for_group(setting) {
                let text = format!("{}: {why}", written(setting));
                boundary::refuse_statement(&text);
                return self.log_error(text);
            }
        }
        Status::Ok
    }

    fn set_one_for_group(&self, setting: GroupSetting) -> Result<(), String> {
        let connection = self.connection();
        let node = connection
            .as_ref()
            .and_then(|connection| connection.session.node());
        match node {
            Some(node) => node
                .set_for_group(setting, LIMIT, PATIENCE)
                .map_err(|error| why_not(setting, error)),
            None => Err("this server is in no group: connect it first".to_owned()),
        }
    }

    /// This server has come to its group. A new group gets the settings of its first server; any
    /// other keeps its own.
    pub(super) fn found_group_settings(&self, node: &Node, bootstrap: bool) {
        let configured = self.options().group_settings();
        for setting in configured {
            let status = node.status();
            if status.settings.has(setting) {
                continue;
            }
            let ours = written(setting);
            if bootstrap && status.members.len() == 1 {
                if let Err(error) = node.set_for_group(setting, LIMIT, LIMIT) {
                    let text = format!("{ours}: {error}");
                    self.callbacks.log(LogLevel::Warn, &text);
                }
                continue;
            }
            let theirs = match setting {
                GroupSetting::Writers(_) => GroupSetting::Writers(status.settings.writers),
                GroupSetting::CommitRegions(_) => {
                    GroupSetting::CommitRegions(status.settings.commit_regions)
                }
            };
            let text = format!(
                "{ours} in the configuration of this server is ignored: the group has {}. To \
                 change it on all servers: SET GLOBAL wsrep_provider_options='{ours}'",
                written(theirs)
            );
            self.callbacks.log(LogLevel::Info, &text);
        }
    }

    pub(super) fn options_in_force(&self) -> Options {
        let settings = self.settings_in_force();
        let mut options = self.options().clone();
        if let Some(settings) = settings {
            options.follow_group(settings);
        }
        options
    }

    /// Settings that the group has agreed on; `None` without a group.
    fn settings_in_force(&self) -> Option<GroupSettings> {
        let connection = self.connection()?;
        let status = connection.session.node()?.status();
        (status.protocol > 0).then_some(status.settings)
    }

    /// Tells the operator whose saved list it was what has stayed as it is.
    pub(super) fn say_what_is_not_restored(&self, update: &Update) {
        for option in &update.not_restored {
            let text = option.to_string();
            boundary::warn_of_statement(&text);
            self.callbacks.log(LogLevel::Warn, &text);
        }
    }
}

/// The setting as an operator writes it.
fn written(setting: GroupSetting) -> String {
    match setting {
        GroupSetting::Writers(writers) => format!("synod.writers={writers}"),
        GroupSetting::CommitRegions(regions) => format!("synod.commit_regions={regions}"),
    }
}

fn why_not(setting: GroupSetting, error: SettingError) -> String {
    let variable = match setting {
        GroupSetting::Writers(_) => "wsrep_synod_writers",
        GroupSetting::CommitRegions(_) => "wsrep_synod_commit_regions",
    };
    match error {
        SettingError::NotInTime { .. } => format!(
            "the group has not agreed yet, because it has no majority, waits for a region or is \
             being changed otherwise. It is asked again for {} s. When it has a majority, look at \
             {variable}, and repeat the statement if need be. No other option of the statement was \
             changed",
            LIMIT.as_secs()
        ),
        refused @ (SettingError::Refused(_) | SettingError::Stopped) => refused.to_string(),
    }
}

impl Provider {
    /// Obeys `socket.ssl_reload`, if it was set. If the files are refused, those read before stay
    /// in use: a mistake in a file never costs a running member its connections. Without a
    /// connection there is nothing to do: the next one reads the files.
    pub(super) fn reload_certificates(&self, update: &Update) -> Status {
        let wanted = update.value(key::SOCKET_SSL_RELOAD) == Some(&Value::Bool(true));
        let connection = self.connection().filter(|_| wanted);
        match connection
            .as_ref()
            .and_then(|connection| connection.session.node())
        {
            None => Status::Ok,
            Some(node) => match node.reload_tls() {
                Ok(()) => Status::Ok,
                Err(error) => self.log_error(format!(
                    "socket.ssl_reload: {error}. The credentials read before stay in use"
                )),
            },
        }
    }
}
