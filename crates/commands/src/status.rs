//! The part of a status that a node knows.
//!
//! What this member does not know is none: of other members' logs only the leader knows, and of
//! databases none that hears no leader.

use std::time::Duration;

use synod_admin::status::{CommitWait, Election, FlowControl, Group, Log, Member, Status};
use synod_node::{
    self as node, DataState, GroupId, LinkStatus, LogIndex, MemberId, MemberStatus, NodeStatus,
    RoleName,
};

/// What a member knows of its own database; nothing, if it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnDatabase {
    /// What it does, in Galera's words.
    pub state: Option<String>,
    /// The last action in it.
    pub committed_seqno: Option<i64>,
    /// Committed actions that are not in it yet.
    pub apply_queue: Option<u64>,
}

/// What a node knows: the group and its members, the log, the pace and the queues. The rest of the
/// status is as without a server.
pub fn of_node(
    cluster_name: &str,
    node: &NodeStatus,
    links: &[LinkStatus],
    own: &OwnDatabase,
) -> Status {
    let mut status = Status {
        group: (node.group != GroupId::NONE).then(|| group(cluster_name, node)),
        members: member_rows(node, links, own),
        log: log(node),
        flow_control: flow_control(node),
        commit_wait: commit_wait(node),
        ..Status::default()
    };
    status.queues.pending_actions = node.pending as u64;
    status.queues.certification_keys = node.cert_keys as u64;
    status.queues.apply_actions = own.apply_queue.unwrap_or_default();
    status
}

/// The name of a member that is or was configured.
pub fn name_of(members: &[MemberStatus], member: MemberId) -> String {
    let known = members.iter().find(|known| known.member == member);
    known.map_or_else(|| format!("member {member}"), |known| known.name.clone())
}

/// The election, with the leader's name if that was not known here when it was elected: a joiner
/// has no configuration yet.
pub fn with_name(mut election: Election, node: Option<&NodeStatus>) -> Election {
    let same = node.filter(|node| node.term.0 == election.term && !node.leader_name.is_empty());
    if let Some(node) = same {
        election.leader = node.leader_name.clone();
    }
    election
}

fn group(name: &str, node: &NodeStatus) -> Group {
    let voters = node.members.iter().filter(|member| member.voter).count() as u64;
    Group {
        id: node.group.to_string(),
        name: name.to_owned(),
        is_primary: node.primary,
        term: node.term.0,
        leader: (!node.leader_name.is_empty()).then(|| node.leader_name.clone()),
        voters,
        tolerates: voters.saturating_sub(1) / 2,
        protocol: (node.protocol != 0).then_some(node.protocol),
        protocol_is_held: (node.protocol != 0).then_some(node.protocol_is_held),
        view: node.view.number,
        commit_seqno: node.commit_seqno.0,
        commit_index: node.commit_index.0,
    }
}

fn member_rows(node: &NodeStatus, links: &[LinkStatus], own: &OwnDatabase) -> Vec<Member> {
    let mut rows: Vec<Member> = node
        .members
        .iter()
        .map(|member| {
            if member.member == node.member {
                own_row(node, member, own)
            } else {
                other_row(node, links, member)
            }
        })
        .collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

/// What is known of every member, from the configuration, the view and the leader's reports.
fn row(node: &NodeStatus, member: &MemberStatus) -> Member {
    let id = member.member;
    let present = node.view.members.iter().find(|seen| seen.member == id);
    let client_address = present.map(|seen| seen.incoming.clone());
    let database = node.databases.iter().find(|known| known.member == id);
    // The leader names databases; two of one name cannot be told apart.
    let mut lags = node.pace.lags.iter().filter(|lag| lag.0 == member.name);
    let lag = lags.next().filter(|_| lags.next().is_none());
    let lag = lag.filter(|_| present.is_some() && node.leader.is_some());
    Member {
        id: id.to_string(),
        name: member.name.clone(),
        address: member.address.clone(),
        client_address: client_address.filter(|address| !address.is_empty()),
        is_voter: member.voter,
        is_present: present.is_some(),
        role: role(node, member).to_owned(),
        region: member.region.as_ref().map(ToString::to_string),
        state: database.map(|known| state_name(known.state).to_owned()),
        weight: member.leader_weight.map(|weight| weight.get()),
        applied_seqno: database.map(|known| known.applied.0),
        flushed_seqno: database.and_then(|known| Some(known.flushed?.0)),
        lag_actions: lag.map(|(_, actions, _)| *actions),
        lag_ms: lag.map(|(_, _, time)| millis(*time)),
        apply_queue: database.map(|known| u64::from(known.queue)),
        oldest_protocol: Some(member.versions.min),
        newest_protocol: Some(member.versions.max),
        log_format: database.and_then(|known| known.log_format),
        ..Member::default()
    }
}

fn own_row(node: &NodeStatus, member: &MemberStatus, own: &OwnDatabase) -> Member {
    Member {
        is_own: true,
        state: own.state.clone(),
        term: Some(node.term.0),
        log_index: Some(node.last_index.0),
        durable_index: Some(node.durable_index.0),
        applied_seqno: own.committed_seqno,
        lag_actions: own.apply_queue,
        lag_ms: own.apply_queue.map(|_| millis(node.pace.own_lag)),
        apply_queue: own.apply_queue,
        program: Some(env!("CARGO_PKG_VERSION").to_owned()),
        log_format: (node.log_format != 0).then_some(node.log_format),
        ..row(node, member)
    }
}

fn other_row(node: &NodeStatus, links: &[LinkStatus], member: &MemberStatus) -> Member {
    let durable = node.durable_elsewhere.iter();
    let durable = durable.clone().find(|(id, _)| *id == member.member);
    let link = links.iter().find(|link| link.member == member.member);
    let clock = link.and_then(|link| link.clock);
    let is_leader = node.leader == Some(member.member);
    let row = row(node, member);
    Member {
        // A leader of another term is not this member's.
        term: is_leader.then_some(node.term.0),
        durable_index: durable.map(|(_, LogIndex(index))| *index),
        round_trip_us: link.and_then(|link| link.round_trip).map(micros),
        clock_ahead_us: clock.map(|clock| clock.ahead_us),
        clock_error_us: clock.map(|clock| clock.error_us),
        ..row
    }
}

fn role(node: &NodeStatus, member: &MemberStatus) -> &'static str {
    if node.leader == Some(member.member) {
        return "leader";
    }
    let is_candidate = member.member == node.member
        && matches!(
            node.role,
            Some(RoleName::PreCandidate | RoleName::Candidate)
        );
    match (member.has_data, member.voter) {
        _ if is_candidate => "candidate",
        (false, _) => "logger",
        (true, true) => "follower",
        (true, false) => "learner",
    }
}

fn state_name(state: DataState) -> &'static str {
    match state {
        DataState::Disconnected => "Disconnected",
        DataState::Joining => "Joining",
        DataState::Donor => "Donor/Desynced",
        DataState::Joined => "Joined",
        DataState::Synced => "Synced",
        DataState::Error => "Inconsistent",
    }
}

fn log(node: &NodeStatus) -> Log {
    Log {
        bytes: node.log_bytes,
        syncs: node.log_syncs,
        last_index: node.last_index.0,
        durable_index: node.durable_index.0,
        first_seqno: Some(node.first_seqno.0),
        begins_unix_ms: (node.log_begins_ms != 0).then_some(node.log_begins_ms),
        ..Log::default()
    }
}

fn flow_control(node: &NodeStatus) -> FlowControl {
    let pace = &node.pace;
    let is_active = pace.rate > 0;
    let slowest = (is_active && !pace.slowest.is_empty()).then(|| pace.slowest.clone());
    FlowControl {
        is_active,
        rate_per_second: is_active.then_some(pace.rate as f64 / 1000.0),
        slowest_lag_ms: slowest.as_ref().map(|_| millis(pace.slowest_lag)),
        slowest,
        paused_ms: millis(pace.paused),
        pauses: pace.pauses,
        caused: pace.caused,
    }
}

fn commit_wait(node: &NodeStatus) -> CommitWait {
    let in_force = match node.commit_wait.in_force {
        node::CommitWait::Durable => "durable",
        node::CommitWait::Applied => "applied",
    };
    CommitWait {
        in_force: in_force.to_owned(),
        excluded: node.commit_wait.excluded.clone(),
        exclusions: node.commit_wait.exclusions,
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use synod_node::{
        ClockOffset, DatabaseStatus, MemberId, PaceStatus, Seqno, SessionId, Term, VersionRange,
        View, ViewMember,
    };

    use super::*;

    fn configured(id: u64, name: &str) -> MemberStatus {
        MemberStatus {
            member: MemberId(id),
            session: None,
            name: name.into(),
            address: String::new(),
            voter: true,
            leader_weight: None,
            region: None,
            has_data: true,
            versions: VersionRange { min: 1, max: 2 },
        }
    }

    fn present(id: u64) -> ViewMember {
        ViewMember {
            member: MemberId(id),
            session: SessionId(1),
            name: String::new(),
            incoming: String::new(),
        }
    }

    /// As member 1 knows its group: 2 leads and has told of both databases, 3 is away.
    fn follower() -> NodeStatus {
        let database = |id, applied| DatabaseStatus {
            member: MemberId(id),
            state: DataState::Synced,
            applied: Seqno(applied),
            flushed: None,
            queue: 0,
            log_format: None,
        };
        let lag = |name: &str| (name.to_owned(), 5, Duration::from_millis(70));
        NodeStatus {
            member: MemberId(1),
            leader: Some(MemberId(2)),
            members: vec![configured(1, "a"), configured(2, "b"), configured(3, "c")],
            view: View {
                seqno: Seqno(1),
                number: 1,
                members: vec![present(1), present(2)],
            },
            databases: vec![database(1, 40), database(2, 42)],
            pace: PaceStatus {
                lags: vec![lag("b"), lag("c")],
                ..PaceStatus::default()
            },
            ..NodeStatus::default()
        }
    }

    fn rows(node: &NodeStatus) -> Vec<Member> {
        member_rows(node, &[], &OwnDatabase::default())
    }

    #[test]
    fn follower_shows_what_the_leader_has_told_and_nothing_else() {
        let rows = rows(&follower());
        let (own, leader, away) = (&rows[0], &rows[1], &rows[2]);
        assert!(own.is_own && own.durable_index.is_some() && own.program.is_some());
        assert_eq!(
            (leader.role.as_str(), leader.applied_seqno),
            ("leader", Some(42))
        );
        assert_eq!((leader.lag_actions, leader.lag_ms), (Some(5), Some(70)));
        assert_eq!((leader.log_index, leader.durable_index), (None, None));
        assert_eq!(leader.program, None);
        assert_eq!((away.is_present, away.role.as_str()), (false, "follower"));
        assert_eq!((away.applied_seqno, away.lag_ms), (None, None));
    }

    #[test]
    fn leader_that_was_unknown_when_elected_has_its_name() {
        let election = |term| Election {
            term,
            leader: "member 2".into(),
            ..Election::default()
        };
        let mut node = follower();
        (node.term, node.leader_name) = (Term(7), "b".into());
        assert_eq!(with_name(election(7), Some(&node)).leader, "b");
        assert_eq!(with_name(election(6), Some(&node)).leader, "member 2");
        assert_eq!(with_name(election(7), None).leader, "member 2");
    }

    #[test]
    fn leader_shows_how_far_other_logs_are_durable() {
        let mut node = follower();
        node.leader = Some(MemberId(1));
        node.durable_elsewhere = vec![(MemberId(3), LogIndex(9))];
        let durable: Vec<Option<u64>> = rows(&node).iter().map(|row| row.durable_index).collect();
        assert_eq!(durable, [Some(0), None, Some(9)]);
    }

    #[test]
    fn any_member_shows_how_far_away_others_are_and_what_their_clocks_show() {
        let links = [
            LinkStatus {
                member: MemberId(2),
                round_trip: Some(Duration::from_micros(1234)),
                clock: Some(ClockOffset {
                    ahead_us: -70,
                    error_us: 617,
                }),
            },
            LinkStatus {
                member: MemberId(3),
                round_trip: None,
                clock: None,
            },
        ];
        let shown = member_rows(&follower(), &links, &OwnDatabase::default());
        let times = |row: &Member| (row.round_trip_us, row.clock_ahead_us, row.clock_error_us);
        assert_eq!(times(&shown[0]), (None, None, None), "of itself");
        assert_eq!(times(&shown[1]), (Some(1234), Some(-70), Some(617)));
        assert_eq!(times(&shown[2]), (None, None, None), "not measured");
    }

    #[test]
    fn lag_of_a_name_that_two_members_have_is_not_known() {
        let mut node = follower();
        node.pace.lags[1].0 = "b".into();
        assert_eq!(rows(&node)[1].lag_ms, None);
    }

    #[test]
    fn roles_tell_who_votes_and_who_has_no_database() {
        let mut node = follower();
        node.role = Some(RoleName::Candidate);
        node.leader = None;
        node.members[1].voter = false;
        node.members[2].has_data = false;
        node.members[1].region = "north".parse().ok();
        assert_eq!(rows(&node)[1].region.as_deref(), Some("north"));
        assert_eq!(rows(&node)[2].region, None);
        let roles: Vec<String> = rows(&node).into_iter().map(|row| row.role).collect();
        assert_eq!(roles, ["candidate", "learner", "logger"]);
    }
}
