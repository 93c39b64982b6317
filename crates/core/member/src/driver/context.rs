//! [`Context`]: what every component of the driver may use.
//!
//! A component owns its state. Its methods take `&mut self` and the context, and each other
//! component that they need as an argument: a signature says what a method may touch.

use synod_consensus::{Core, MemberId};
use synod_wire::{DataState, PeerMessage};

use super::DriverLinks;
use super::clock::Turns;
use super::identity::Identity;
use super::inconsistency::Decisions;
use super::membership::Views;
use super::own_log::OwnLog;
use crate::certification::CertificationState;
use crate::host::{Level, Remedy, Topic};

/// The consensus core, this member's log with what follows from its entries, and the links to the
/// outside.
///
/// Invariant: certification, views and decisions have seen the entries of the log, each once, in
/// order.
pub(super) struct Context {
    pub(super) identity: Identity,
    pub(super) turns: Turns,
    pub(super) core: Core,
    pub(super) links: DriverLinks,
    pub(super) own_log: OwnLog,
    pub(super) certification: CertificationState,
    pub(super) views: Views,
    pub(super) decisions: Decisions,
    /// The state of this member's database, as its host says.
    pub(super) data_state: DataState,
}

impl Context {
    pub(super) fn log(&self, level: Level, text: impl AsRef<str>) {
        self.links.host.log(level, text.as_ref());
    }

    /// Like [`Context::log`], for an event that operators ask for afterwards.
    pub(super) fn note(&self, topic: Topic, level: Level, text: impl AsRef<str>) {
        self.links.host.note(topic, level, text.as_ref());
    }

    pub(super) fn send(&self, to: MemberId, message: PeerMessage) {
        self.links.peers.send(to, message);
    }

    /// Stops for good, until a person has changed something.
    pub(super) fn fail(&mut self, why: &str) {
        self.stop_for(why, Remedy::Operator);
    }

    /// Stops for good, and says what brings this member back.
    pub(super) fn stop_for(&mut self, why: &str, remedy: Remedy) {
        let text = format!("this member stops: {why}");
        self.note(Topic::Membership, Level::Error, text);
        self.links.host.failed(why, remedy);
        self.turns.stop();
    }

    /// The member's name; of one that is in no configuration, its number.
    pub(super) fn name_of(&self, member: MemberId) -> String {
        let configured = self.core.config().config.members.get(&member);
        configured.map_or_else(|| format!("member {member}"), |m| m.name.clone())
    }
}
