//! Every kind of message, with plausible and extreme values.

use bytes::Bytes;
use synod_certify::{Class, KeySet};
use synod_consensus::{
    Append, AppendOutcome, AppendReply, Body, ConfigAt, EntryHeader, EntryId, EntryKind, GroupId,
    GroupSetting, LogBase, LogIndex, MemberId, Message, Origin, Seqno, SessionId, Term, Time,
    Writers,
};
use synod_member::{Action, split_into_chunks};
use synod_wire::{
    AppliedPosition, Command, DataState, Done, FeedOrder, FetchAnswer, FetchFrom, FetchRefusal,
    FetchRequest, HeardMember, IntroducedMember, Introduction, Join, JoinRefusal, JoinReply,
    OUR_VERSIONS, OutcomeReport, PaceReport, PeerMessage, PresenceReport, ProposalRefusal, Propose,
    Report, StateOffer, StateRequest, StateResult, StatusBroadcast, SurvivorReport,
};

/// Terms that a young group may be in.
const PLAUSIBLE_TERMS: std::ops::RangeInclusive<u64> = 1..=6;
/// Terms, indexes and numbers at the ends of what there is.
const EXTREMES: [u64; 6] = [0, 7, 1 << 40, u64::MAX / 4, u64::MAX / 2, u64::MAX];

/// Sender and receiver of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) from: MemberId,
    pub(crate) session: SessionId,
    pub(crate) to: MemberId,
    pub(crate) group: GroupId,
}

impl Ends {
    fn message(&self, term: u64, body: Body) -> Message {
        Message::new(self.from, self.to, Term(term), body)
    }

    /// Every consensus message of this term, with this number wherever one is.
    pub(crate) fn consensus(&self, term: u64, number: u64) -> Vec<PeerMessage> {
        let last = EntryId::new(Term(number), LogIndex(number));
        let (index, sent_at) = (LogIndex(number), Time(number));
        let append_reply = |outcome| Body::AppendReply(AppendReply { outcome, sent_at });
        let probe = Append {
            prev: last,
            entries: Vec::new(),
            commit: index,
            sent_at,
        };
        let base = LogBase {
            last,
            seqno: Seqno(number.cast_signed()),
            config: ConfigAt::default(),
        };
        let bodies = [
            Body::PreVote { last },
            Body::PreVoteReply { granted: true },
            Body::PreVoteReply { granted: false },
            Body::Vote {
                last,
                transfer: false,
            },
            Body::Vote {
                last,
                transfer: true,
            },
            Body::VoteReply { granted: true },
            Body::VoteReply { granted: false },
            Body::Append(probe),
            append_reply(AppendOutcome::Durable { index }),
            append_reply(AppendOutcome::PayloadMissing { index }),
            append_reply(AppendOutcome::Rejected {
                refused: index,
                hint: last,
            }),
            Body::Heartbeat {
                commit: index,
                sent_at,
                read_round: number,
            },
            Body::HeartbeatReply {
                sent_at,
                read_round: number,
            },
            Body::CommitNotice { commit: index },
            Body::InstallBase { base, sent_at },
            Body::TimeoutNow,
            Body::Read { id: number },
            Body::ReadReply {
                id: number,
                index,
                seqno: Seqno(number.cast_signed()),
            },
        ];
        let messages = bodies.into_iter().map(|body| self.message(term, body));
        let mut all: Vec<PeerMessage> = messages.map(PeerMessage::Consensus).collect();
        let (message, payloads) = self.entries(term, number);
        let fed = (message.clone(), payloads.clone());
        all.push(PeerMessage::Append { message, payloads });
        let (message, payloads) = fed;
        all.push(PeerMessage::Fed { message, payloads });
        all
    }

    /// An append of one entry, with its payload.
    fn entries(&self, term: u64, number: u64) -> (Message, Vec<Option<Bytes>>) {
        let payload = Bytes::from_static(b"not an action");
        let header = EntryHeader {
            term: Term(term),
            index: LogIndex(number.wrapping_add(1)),
            seqno: Seqno(number.cast_signed()),
            kind: EntryKind::Action,
            origin: self.origin(1),
            depends_on: Seqno(0),
            payload_len: payload.len() as u32,
            payload_crc: crc32c::crc32c(&payload),
        };
        let append = Append {
            prev: EntryId::new(Term(term), LogIndex(number)),
            entries: vec![header],
            commit: LogIndex(number),
            sent_at: Time(number),
        };
        let message = self.message(term, Body::Append(append));
        (message, vec![Some(payload)])
    }

    fn origin(&self, number: u64) -> Origin {
        Origin::new(self.from, self.session, number)
    }

    /// A statement to be ordered in total order isolation, whose event drops a database.
    pub(crate) fn drop_database(&self, term: u64, database: &str) -> PeerMessage {
        let action = Action {
            class: Class::TotalOrder,
            keys: KeySet::new(),
            last_seen: 0,
            data: query_event(&format!("DROP DATABASE {database}")),
        };
        let mut pieces = split_into_chunks(&action, 0, 1 << 20, 1);
        let (kind, payload) = pieces
            .next()
            .map_or((EntryKind::Action, Bytes::new()), |piece| {
                piece.into_proposal()
            });
        self.propose(term, kind, payload)
    }

    fn propose(&self, term: u64, kind: EntryKind, payload: Bytes) -> PeerMessage {
        PeerMessage::Propose(Propose {
            tag: Term(term),
            origin: self.origin(1),
            kind,
            oldest_outstanding: 1,
            payload,
        })
    }

    /// A request for a full copy, by way of a method that the servers know.
    pub(crate) fn state_request(&self, joiner: MemberId) -> PeerMessage {
        PeerMessage::StateRequest(StateRequest {
            id: 1,
            joiner,
            session: self.session,
            after: Seqno(0),
            preferred: Vec::new(),
            any_donor: true,
            request: Bytes::from_static(b"rsync\x00127.0.0.1:9/rsync_sst\x00"),
        })
    }

    /// Every message but those between the consensus cores, with this number wherever one is.
    pub(crate) fn others(&self, number: u64) -> Vec<PeerMessage> {
        let (term, seqno, session) = (Term(number), Seqno(number.cast_signed()), self.session);
        let report = Report {
            member: self.from,
            session,
            state: DataState::Synced,
            applied: seqno,
            seen: seqno,
            db_flushed: seqno,
            ..Report::default()
        };
        let text = || "from outside".to_owned();
        vec![
            self.propose(
                number,
                EntryKind::Action,
                Bytes::from_static(b"not an action"),
            ),
            self.propose(number, EntryKind::Chunk, Bytes::from_static(b"not a chunk")),
            PeerMessage::ProposalRefused {
                term,
                session,
                number,
                reason: ProposalRefusal::TooOld,
            },
            PeerMessage::JoinReply(JoinReply::Accepted { group: self.group }),
            PeerMessage::JoinReply(JoinReply::NotLeader {
                leader: Some((self.from, "127.0.0.1:9".to_owned())),
            }),
            PeerMessage::JoinReply(JoinReply::Refused {
                reason: JoinRefusal::GroupFull,
                text: text(),
            }),
            PeerMessage::JoinReply(JoinReply::Retry { text: text() }),
            PeerMessage::Leave { session },
            PeerMessage::LeaveReply,
            PeerMessage::Report(report.clone()),
            PeerMessage::Status(StatusBroadcast {
                term,
                members: vec![report],
                purge_limit: LogIndex(number),
                commit: LogIndex(number),
            }),
            PeerMessage::OutcomeReport(OutcomeReport {
                session,
                seqno,
                outcome: number,
            }),
            PeerMessage::OutcomeQuery { term, seqno },
            PeerMessage::Introduction(Introduction {
                index: LogIndex(number),
                members: vec![IntroducedMember {
                    member: self.from,
                    address: "127.0.0.1:9".to_owned(),
                    certificate: None,
                }],
            }),
            PeerMessage::AppliedPosition(AppliedPosition {
                session,
                state: DataState::Synced,
                left: seqno,
                released: seqno,
                lag_us: number,
            }),
            PeerMessage::AppliedQuery { session },
            PeerMessage::Command {
                session,
                number,
                command: Command::Demote {
                    member: self.from.to_string(),
                    force: true,
                },
            },
            PeerMessage::CommandAnswer {
                session,
                number,
                answer: Ok(Done::Committed {
                    index: LogIndex(number),
                }),
            },
            PeerMessage::VoteOrder { votes: false },
            PeerMessage::SettingOrder {
                setting: GroupSetting::Writers(Writers::Leader),
            },
            PeerMessage::SettingRefused {
                setting: GroupSetting::Writers(Writers::Leader),
                text: text(),
            },
            PeerMessage::Survivor(SurvivorReport {
                stated: LogIndex(number),
                leader: Some(self.from),
                ..SurvivorReport::default()
            }),
            PeerMessage::Feed(FeedOrder {
                learner: self.from,
                term: Term(number),
                prev: EntryId::default(),
                last: EntryId::new(Term(1), LogIndex(number)),
                may_shorten: true,
                commit: LogIndex(number),
                sent_at: Time(number),
            }),
            PeerMessage::Ping { number },
            PeerMessage::Pong {
                number,
                wall_us: number,
            },
            PeerMessage::Fetch(FetchRequest {
                session: self.session,
                number,
                from: FetchFrom::After(seqno),
                to: LogIndex(number),
                base: EntryId::new(Term(1), LogIndex(number)),
                needed_from: LogIndex(1),
                with_payloads: true,
            }),
            PeerMessage::Fetched(FetchAnswer {
                session: self.session,
                number,
                result: Err(FetchRefusal::Purged { first: seqno }),
            }),
            PeerMessage::Presence(PresenceReport {
                term,
                members: vec![HeardMember {
                    member: self.from,
                    silent_ms: number,
                }],
            }),
            PeerMessage::Pace(PaceReport {
                term,
                rate: number,
                slowest: self.from,
                ..PaceReport::default()
            }),
            self.state_request(self.from),
            PeerMessage::StateOffer(StateOffer {
                id: number,
                donor: self.from,
                accepted: true,
                text: String::new(),
            }),
            PeerMessage::StateResult(StateResult {
                id: number,
                ok: true,
                code: 0,
                seqno,
                text: String::new(),
            }),
        ]
    }

    /// A request to take part.
    pub(crate) fn join(&self, group: GroupId, name: &str) -> PeerMessage {
        PeerMessage::Join(Join {
            session: self.session,
            name: name.to_owned(),
            address: "127.0.0.1:9".to_owned(),
            incoming: String::new(),
            has_data: true,
            group,
            db_group: group,
            db_seqno: Seqno(1),
            last: EntryId::default(),
            versions: OUR_VERSIONS,
            has_joined: false,
        })
    }

    /// Every message, in every combination of plausible and extreme values. No request of this
    /// group is among them that it would have to grant.
    pub(crate) fn all(&self) -> Vec<PeerMessage> {
        let mut all = Vec::new();
        for term in PLAUSIBLE_TERMS.chain(EXTREMES) {
            all.extend(self.consensus(term, term));
            all.extend(self.consensus(term, 3));
            all.extend(self.others(term));
        }
        all.push(self.join(GroupId([0xEE; 16]), "stranger"));
        all
    }
}

/// A statement as the server's own event: the header of 19 bytes, the post-header of 13, no status
/// variables, no database, the text.
fn query_event(sql: &str) -> Bytes {
    const QUERY: u8 = 2;
    let mut body = Vec::new();
    // Thread and execution time.
    body.extend([0; 8]);
    // Length of the database's name, error code, length of the status variables.
    body.extend([0; 5]);
    body.push(0);
    body.extend(sql.as_bytes());
    let size = 19 + body.len() as u32;
    let mut event = Vec::new();
    event.extend([0; 4]);
    event.push(QUERY);
    event.extend(1_u32.to_le_bytes());
    event.extend(size.to_le_bytes());
    event.extend([0; 6]);
    event.extend(body);
    Bytes::from(event)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The table of all messages.
    const DOCUMENT: &str = include_str!("../../../docs/wire-protocol.md");

    /// A new kind of message between the cores makes this fail to build, until it is tried as well.
    fn body(body: &Body) -> &'static str {
        match body {
            Body::PreVote { .. } => "PreVote",
            Body::PreVoteReply { .. } => "PreVoteReply",
            Body::Vote { .. } => "Vote",
            Body::VoteReply { .. } => "VoteReply",
            Body::Append(append) if append.entries.is_empty() => "Append without entries",
            Body::Append(_) => "Append",
            Body::AppendReply(_) => "AppendReply",
            Body::Heartbeat { .. } => "Heartbeat",
            Body::HeartbeatReply { .. } => "HeartbeatReply",
            Body::CommitNotice { .. } => "CommitNotice",
            Body::InstallBase { .. } => "InstallBase",
            Body::TimeoutNow => "TimeoutNow",
            Body::Read { .. } => "Read",
            Body::ReadReply { .. } => "ReadReply",
        }
    }

    #[test]
    fn every_kind_of_message_is_sent() {
        let ends = Ends {
            from: MemberId(1),
            session: SessionId(1),
            to: MemberId(2),
            group: GroupId::NONE,
        };
        let all = ends.all();
        let kinds: BTreeSet<u8> = all.iter().map(PeerMessage::kind).collect();
        let row = |line: &str| line.strip_prefix("| ")?.split(' ').next()?.parse().ok();
        // Smaller ones are of the handshake.
        let documented = DOCUMENT
            .lines()
            .filter_map(row)
            .filter(|kind: &u8| *kind >= 16);
        assert!(kinds.into_iter().eq(documented));
        let bodies = all.iter().filter_map(|message| match message {
            PeerMessage::Consensus(message) | PeerMessage::Append { message, .. } => {
                Some(body(&message.body))
            }
            _ => None,
        });
        let bodies: BTreeSet<&str> = bodies.collect();
        assert_eq!(bodies.len(), 14, "{bodies:?}");
    }
}
