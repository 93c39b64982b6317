//! The host of a member without a database: it takes lines, and the news that the node has failed.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use synod_commands::EventLog;
use synod_node::{
    Consequence, Delivery, DonorRequest, Election, Host, Level, Remedy, Setting,
    StateTransferEvent, Topic, View, WritePermission,
};
use synod_options::HostNames;

use crate::output::Output;
use crate::run::{News, Service};

pub struct LoggerHost {
    output: Output,
    news: Sender<News>,
    events: Arc<EventLog>,
    service: Arc<dyn Service>,
}

impl LoggerHost {
    pub(crate) fn new(
        output: Output,
        news: Sender<News>,
        events: Arc<EventLog>,
        service: Arc<dyn Service>,
    ) -> LoggerHost {
        LoggerHost {
            output,
            news,
            events,
            service,
        }
    }
}

impl Host for LoggerHost {
    fn setting_name(&self, setting: Setting) -> &'static str {
        NAMES.name_of(setting)
    }

    fn consequence(&self, consequence: Consequence) -> &'static str {
        self.service.consequence(consequence)
    }

    fn log(&self, level: Level, text: &str) {
        self.output.log(level, text);
    }

    fn note(&self, topic: Topic, level: Level, text: &str) {
        self.events.add(topic, level, text);
        self.log(level, text);
    }

    fn elected(&self, election: &Election) {
        self.events.elected(election);
    }

    fn write_permission(&self, permission: WritePermission) {
        self.service.write_permission(permission);
    }

    /// Never called: the node delivers nothing to a member without a database.
    fn deliver(&self, _delivery: Delivery) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn joined(&self, _view: &View) {}

    fn primary_changed(&self, primary: bool) {
        if !primary {
            let text = "this member hears no leader with a quorum: the group commits nothing \
                        through it until it does. See which servers run, and whether they can be \
                        reached from here";
            self.output.log(Level::Warning, text);
        }
    }

    /// Never called: only synced members are asked for a full copy.
    fn donate(&self, _request: DonorRequest) {}

    fn state_transfer_event(&self, _id: u64, _news: StateTransferEvent) {}

    /// Members prove themselves by their credentials; addresses prove nothing.
    fn allows(&self, _ip: &str) -> bool {
        true
    }

    fn failed(&self, why: &str, remedy: Remedy) {
        let why = why.to_owned();
        // The receiver has ended only if the logger is ending.
        let _ = self.news.send(News::Failed { why, remedy });
    }
}

/// The keys of the file that are no options of servers.
const NAMES: HostNames = HostNames {
    member_name: "name",
    member_address: "address",
    group_address: "peers",
    listen_address: "synod.listen_addr",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{KeyKind, kind_of};

    #[test]
    fn settings_are_spelled_as_keys_of_the_file() {
        for setting in Setting::ALL {
            for key in NAMES.name_of(setting).split(" or ") {
                // Set for the whole group, at any server.
                let of_group = setting == Setting::CommitRegions;
                let kind = kind_of(key);
                let is_known = matches!(kind, KeyKind::Own | KeyKind::Shared);
                assert!(is_known || of_group && kind == KeyKind::OfServers, "{key}");
            }
        }
    }
}
