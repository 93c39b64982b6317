//! Interface for operators: orders that change the group, and settings that change while a node
//! runs.
//!
//! Commands and the host's own interface for operators call these methods. An order
//! ([`Node::administrate`], a forced primary) is answered, with a typed reason if it is refused. A
//! setting is handed to the driver and has no answer.

use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, bounded};
use synod_consensus::{ForceError, GroupSetting};
use synod_member::{CommandRequest, Event, ForceDone, LiveSetting, SettingRefusal, SettingRequest};
use synod_tls::TlsError;
use synod_wire::{Command, CommandRefusal, Done, RefusalReason};

use crate::node::Node;

/// The driver may answer so much later than asked for.
const DRIVER_PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    #[error("the setting was not changed: {0}")]
    Refused(String),
    #[error(
        "the group has not agreed within {} s, because it has no majority or is being changed \
         otherwise; it may still do so. Look at the status before you repeat it",
        .patience.as_secs_f32()
    )]
    NotInTime {
        /// How long the caller waited.
        patience: Duration,
    },
    #[error("this member has stopped: ask another one")]
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

    /// Gives the group a setting: on all members alike, also on those that join later, and after
    /// restarts. Any member may be asked. Returns when the group has committed it, and waits
    /// for that as long as `patience`; the group is asked for it as long as `limit`.
    pub fn set_for_group(
        &self,
        setting: GroupSetting,
        limit: Duration,
        patience: Duration,
    ) -> Result<(), SettingError> {
        let (done, answer) = bounded(1);
        self.send_event(Event::OrderSetting(SettingRequest {
            setting,
            limit,
            reply: Box::new(move |result| {
                // The caller may have waited long enough.
                let _ = done.send(result);
            }),
        }));
        match answer.recv_timeout(patience) {
            Ok(result) => result.map_err(|refusal| match refusal {
                SettingRefusal::Refused(why) => SettingError::Refused(why),
                SettingRefusal::NotInTime => SettingError::NotInTime { patience },
            }),
            Err(RecvTimeoutError::Timeout) => Err(SettingError::NotInTime { patience }),
            Err(RecvTimeoutError::Disconnected) => Err(SettingError::Stopped),
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

    /// Changes a setting, from now on.
    pub fn set(&self, setting: LiveSetting) {
        self.send_event(Event::Set(setting));
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
