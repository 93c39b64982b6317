//! Lines of the protocol: greeting, call, reply.
//!
//! ```text
//! server: {"hello":{"program":"0.1.0","oldest":1,"newest":1}}
//! client: {"protocol":1,"command":"status"}
//! server: {"answer":{"status":{...}}}
//! client: {"protocol":1,"command":"transfer_leadership","to":"db2"}
//! server: {"refused":{"reason":"no_leader","text":"..."}}
//! ```

use serde::{Deserialize, Serialize};

use crate::conflict::Conflicts;
use crate::event::Event;
use crate::recovery::Recovery;
use crate::relay::RelayStatus;
use crate::status::Status;

/// The oldest protocol version that this program speaks.
pub const OLDEST: u16 = 1;
pub const NEWEST: u16 = 1;

/// Bound on the line of a call, in bytes.
pub const CALL_BYTES_MAX: usize = 64 << 10;
/// Bound on the line of a reply, in bytes.
pub const REPLY_BYTES_MAX: usize = 8 << 20;

/// Greeting of a server: its identity, and its protocol versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the server's program.
    pub program: String,
    /// The oldest protocol version that it speaks.
    pub oldest: u16,
    pub newest: u16,
}

impl Hello {
    /// The greeting of a server with this program version.
    pub fn of(program: &str) -> Hello {
        Hello {
            program: program.to_owned(),
            oldest: OLDEST,
            newest: NEWEST,
        }
    }

    /// The newest version that both sides speak.
    pub fn common(&self) -> Option<u16> {
        let newest = self.newest.min(NEWEST);
        (newest >= self.oldest.max(OLDEST)).then_some(newest)
    }
}

/// A request in the protocol version that the client has chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub protocol: u16,
    #[serde(flatten)]
    pub request: Request,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Request {
    /// The group and this server: [`Answer::Status`].
    Status,
    /// Recent events: [`Answer::Events`].
    Events,
    /// Transactions that were refused: [`Answer::Conflicts`].
    Conflicts,
    /// Hands leadership over: [`Answer::Done`].
    TransferLeadership {
        /// Name, address or id of the next leader; none: the fittest voter.
        to: Option<String>,
    },
    /// Changes a member's leader weight, until its server ends: [`Answer::Done`].
    SetWeight {
        /// Name, address or id of the member.
        member: String,
        /// The weight, 0 to 100.
        weight: u8,
    },
    /// Takes a member out of the group: [`Answer::Done`].
    RemoveMember {
        /// Name, address or id of the member.
        member: String,
        /// Even if the group survives fewer failures afterwards.
        force: bool,
    },
    /// Lets a learner vote: [`Answer::Done`].
    PromoteMember {
        /// Name, address or id of the member.
        member: String,
    },
    /// Lets a voter not vote any more: [`Answer::Done`].
    DemoteMember {
        /// Name, address or id of the member.
        member: String,
        /// Even if the group survives fewer failures afterwards.
        force: bool,
    },
    /// Removes one member, in whose place another one votes: [`Answer::Done`].
    ReplaceMember {
        /// Name, address or id of the member that is removed.
        old: String,
        /// Name, address or id of the one that votes in its place.
        new: String,
        /// Even if the group survives fewer failures afterwards.
        force: bool,
    },
    /// Binds a member to no certificate, until it shows one: [`Answer::Done`].
    UnbindMember {
        /// Name, address or id of the member.
        member: String,
    },
    /// Says which protocol version the group speaks: [`Answer::Done`].
    SetProtocol {
        /// The present version or a newer one, which stays; none: it rises by itself.
        version: Option<u16>,
        /// Even if a member does not answer, whose program may have been replaced.
        #[serde(default)]
        force: bool,
    },
    /// Holdings of the survivors of a lost majority: [`Answer::Recovery`].
    RecoveryPlan,
    /// Continues without the majority, which is lost for good: [`Answer::Done`].
    Recover,
    /// State of a relay's upstream: [`Answer::Relay`].
    RelayStatus,
    /// Nothing is pulled from the upstream until it is ordered otherwise: [`Answer::Done`].
    PauseUpstream,
    /// The upstream is pulled from again: [`Answer::Done`].
    ResumeUpstream,
    /// Another server with the same transactions is pulled from: [`Answer::Done`].
    SwitchUpstream {
        /// Its address, `host` or `host:port`.
        to: String,
    },
    /// The transaction of MySQL that stops the pull is left out: [`Answer::Done`].
    SkipTransaction {
        /// Its GTID in MySQL.
        gtid: String,
    },
    /// All relays hold the place of a reader, also while it is not connected: [`Answer::Done`].
    RegisterReader { server_id: u32 },
    /// They do so no longer: [`Answer::Done`].
    RemoveReader { server_id: u32 },
    /// All relays purge their logs: [`Answer::Done`].
    PurgeRelays {
        /// Up to these GTIDs; none: of all that no reader needs.
        to: Option<String>,
        /// Also of what readers need: the relays tell them which transactions they have lost.
        #[serde(default)]
        force: bool,
    },
}

impl Request {
    /// Whether this asks how a member is. Conflicts are not part of that: they name keys of rows.
    pub fn is_status(&self) -> bool {
        matches!(
            self,
            Request::Status | Request::Events | Request::RelayStatus
        )
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    Hello(Hello),
    Answer(Answer),
    Refused(Refusal),
}

impl Reply {
    pub fn refused(reason: Reason, text: impl Into<String>) -> Reply {
        let text = text.into();
        Reply::Refused(Refusal { reason, text })
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Status(Box<Status>),
    /// Recent events, oldest first.
    Events(Vec<Event>),
    Conflicts(Conflicts),
    /// Holdings of the survivors of a lost majority.
    Recovery(Box<Recovery>),
    Relay(Box<RelayStatus>),
    Done(Done),
}

/// An order was carried out, or has begun.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Done {
    pub text: String,
    /// Log index of the change, if it is an entry of the log.
    pub log_index: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub reason: Reason,
    /// For people: what is wrong, and what to do.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The peer has no right to order this.
    NotAllowed,
    Busy,
    /// The call was not understood, or is of a version that the server does not speak.
    NotUnderstood,
    /// The server is not connected to a group.
    NotConnected,
    /// No member, or more than one, has this name.
    UnknownMember,
    /// The group would survive fewer failures afterwards, or a member may be shut out; done if it
    /// is forced.
    NeedsForce,
    /// The group has no leader that can do it now.
    NoLeader,
    /// The group has a leader, or elects one by itself: nothing has to be recovered.
    NotLost,
    /// Another survivor of the lost majority has more.
    OtherHasMore,
    /// The group does not do this, or not now.
    Refused,
    Unknown,
    /// Another kind, of a newer server.
    #[serde(other)]
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_document() {
        let call = |text: &str| serde_json::from_str::<Call>(text).map(|call| call.request);
        let status = r#"{"protocol":1,"command":"status"}"#;
        assert_eq!(call(status).unwrap(), Request::Status);
        let to = Some("db2".to_owned());
        let text = r#"{"protocol":1,"command":"transfer_leadership","to":"db2","later":1}"#;
        assert_eq!(call(text).unwrap(), Request::TransferLeadership { to });
        let remove = Request::RemoveMember {
            member: "db3".into(),
            force: true,
        };
        let text = r#"{"protocol":1,"command":"remove_member","member":"db3","force":true}"#;
        assert_eq!(call(text).unwrap(), remove);
        let hello = serde_json::to_string(&Reply::Hello(Hello::of("0.1.0"))).unwrap();
        let expected = r#"{"hello":{"program":"0.1.0","oldest":1,"newest":1}}"#;
        assert_eq!(hello, expected);
    }

    #[test]
    fn nonsense_is_an_error() {
        for text in [
            "",
            "{}",
            "[]",
            "null",
            r#"{"protocol":1}"#,
            r#"{"protocol":"one","command":"status"}"#,
            r#"{"protocol":70000,"command":"status"}"#,
            r#"{"protocol":1,"command":"format_disk"}"#,
            r#"{"protocol":1,"command":"set_weight","member":"db1","weight":300}"#,
            r#"{"protocol":1,"command":"status""#,
        ] {
            assert!(serde_json::from_str::<Call>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn newest_common_version_is_taken() {
        let server = |oldest, newest| Hello {
            program: String::new(),
            oldest,
            newest,
        };
        assert_eq!(server(1, 9).common(), Some(NEWEST));
        assert_eq!(server(NEWEST + 1, NEWEST + 2).common(), None);
        assert_eq!(server(0, 0).common(), None);
    }

    #[test]
    fn reason_of_a_newer_server_is_read() {
        let text = r#"{"refused":{"reason":"full_moon","text":"wait"}}"#;
        let reply: Reply = serde_json::from_str(text).unwrap();
        assert_eq!(reply, Reply::refused(Reason::Other, "wait"));
    }
}
