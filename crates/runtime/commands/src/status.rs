//! The part of a status that a node knows.
//!
//! What this member does not know is none: of other members' logs only the leader knows, and of
//! databases none that hears no leader.

use std::time::Duration;

use synod_admin::outlook::Outlook;
use synod_admin::status::{CommitWait, Election, FlowControl, Group, Log, Member, Status};
use synod_node::{
    self as node, DataState, GroupId, LinkStatus, LogIndex, MemberId, MemberPresence, MemberStatus,
    NodeStatus, Presence, RoleName, Writers,
};

/// State of a member's own database; empty without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnDatabase {
    /// State, in Galera's words.
    pub state: Option<String>,
    /// The last action in it.
    pub committed_seqno: Option<i64>,
    pub apply_queue: Option<u64>,
}

/// Status of a node: the group and its members, the log, the pace and the queues. The rest is as
/// without a server.
pub fn of_node(
    cluster_name: &str,
    node: &NodeStatus,
    links: &[LinkStatus],
    own: &OwnDatabase,
) -> Status {
    let members = member_rows(node, links, own);
    let mut status = Status {
        group: (node.group != GroupId::NONE).then(|| group(cluster_name, node, &members)),
        unheard: node.unheard.clone(),
        members,
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

/// Voters that may fail, as far as this member knows.
pub(crate) fn outlook(node: &NodeStatus) -> Outlook {
    let members = member_rows(node, &[], &OwnDatabase::default());
    outlook_of(node, &members)
}

fn outlook_of(node: &NodeStatus, members: &[Member]) -> Outlook {
    let regions = node.settings.commit_regions.get().into();
    let outlook = Outlook::of(members, hears_leader(node), regions);
    Outlook {
        can_commit: outlook.can_commit && !node.commits_wait_for_region,
        ..outlook
    }
}

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

fn group(name: &str, node: &NodeStatus, members: &[Member]) -> Group {
    let outlook = outlook_of(node, members);
    Group {
        id: node.group.to_string(),
        name: name.to_owned(),
        is_primary: node.primary,
        term: node.term.0,
        leader: (!node.leader_name.is_empty()).then(|| node.leader_name.clone()),
        voters: outlook.voters,
        voters_present: outlook.answering,
        tolerates: outlook.tolerates,
        can_commit: outlook.can_commit,
        outlook: outlook.text,
        protocol: (node.protocol != 0).then_some(node.protocol),
        protocol_is_held: (node.protocol != 0).then_some(node.protocol_is_held),
        view: node.view.number,
        commit_seqno: node.commit_seqno.0,
        commit_index: node.commit_index.0,
        has_one_writer: node.settings.writers == Writers::Leader,
    }
}

/// A member that lost its leader a moment ago still counts as primary, and knows the leader's name.
fn hears_leader(node: &NodeStatus) -> bool {
    let leader = node.leader.filter(|_| node.primary);
    let seen = leader.and_then(|leader| presence(node, leader));
    seen.is_some_and(|seen| seen.presence == Presence::Present)
}

fn presence(node: &NodeStatus, member: MemberId) -> Option<&MemberPresence> {
    node.presence.iter().find(|seen| seen.member == member)
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

/// Facts about every member, from the configuration, and from what the leader says.
fn row(node: &NodeStatus, member: &MemberStatus) -> Member {
    let id = member.member;
    let in_view = node.view.members.iter().find(|seen| seen.member == id);
    let seen = presence(node, id);
    let is_own = id == node.member;
    let state = seen.map_or(Presence::Absent, |seen| seen.presence);
    let is_present = is_own || state != Presence::Absent;
    let readers_at = seen.and_then(|seen| seen.readers_at.clone());
    let kind = match (member.has_data, readers_at.as_deref()) {
        (true, _) => "database",
        (false, Some("")) => "logger",
        (false, Some(_)) => "relay",
        // It has joined a moment ago. Relays seldom vote, loggers soon.
        (false, None) if is_present && !member.voter => "unknown",
        (false, None) => "logger",
    };
    let client_address = in_view.map(|seen| seen.incoming.clone()).or(readers_at);
    // What an absent one reported before is old.
    let mut databases = node
        .databases
        .iter()
        .filter(|_| member.has_data && is_present);
    let database = databases.find(|known| known.member == id);
    // The leader names databases; two of one name cannot be told apart.
    let mut lags = node.pace.lags.iter().filter(|lag| lag.0 == member.name);
    let lag = lags.next().filter(|_| lags.next().is_none());
    let lag = lag.filter(|_| member.has_data && is_present && node.leader.is_some());
    Member {
        id: id.to_string(),
        name: member.name.clone(),
        address: member.address.clone(),
        client_address: client_address.filter(|address| !address.is_empty()),
        is_voter: member.voter,
        kind: kind.to_owned(),
        is_present,
        is_silent: !is_own && state == Presence::Silent,
        silent_ms: match is_own {
            true => Some(0),
            false => seen.and_then(|seen| seen.silent_for).map(millis),
        },
        role: role(node, member, kind).to_owned(),
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
    // What a server without a majority lacks, it cannot know: the others may commit without it.
    let lacks = own.apply_queue.filter(|_| node.primary);
    Member {
        is_own: true,
        state: own.state.clone(),
        term: Some(node.term.0),
        log_index: Some(node.last_index.0),
        durable_index: Some(node.durable_index.0),
        applied_seqno: own.committed_seqno,
        lag_actions: lacks,
        // A database that lacks nothing does not lag, however long ago that was measured.
        lag_ms: lacks.map(|queue| match queue {
            0 => 0,
            _ => millis(node.pace.own_lag),
        }),
        apply_queue: own.apply_queue,
        program: Some(env!("CARGO_PKG_VERSION").to_owned()),
        log_format: (node.log_format != 0).then_some(node.log_format),
        ..row(node, member)
    }
}

fn other_row(node: &NodeStatus, links: &[LinkStatus], member: &MemberStatus) -> Member {
    let durable = node.durable_elsewhere.iter();
    let durable = durable.clone().find(|(id, _)| *id == member.member);
    let is_leader = node.leader == Some(member.member);
    let row = row(node, member);
    // The last answers of a member that is gone say nothing of it now.
    let mut links = links.iter().filter(|_| row.answers());
    let link = links.find(|link| link.member == member.member);
    let clock = link.and_then(|link| link.clock);
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

fn role<'a>(node: &NodeStatus, member: &MemberStatus, kind: &'a str) -> &'a str {
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
        (false, _) if kind == "unknown" => "learner",
        (false, _) => kind,
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

pub fn flow_control(node: &NodeStatus) -> FlowControl {
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

pub fn commit_wait(node: &NodeStatus) -> CommitWait {
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

    fn in_view(id: u64) -> ViewMember {
        ViewMember {
            member: MemberId(id),
            session: SessionId(1),
            name: String::new(),
            incoming: String::new(),
        }
    }

    fn seen(id: u64, presence: Presence) -> MemberPresence {
        MemberPresence {
            member: MemberId(id),
            presence,
            silent_for: (presence != Presence::Absent).then_some(Duration::from_millis(1300)),
            readers_at: None,
        }
    }

    /// Status of member 1: 2 leads and has told of both databases, 3 is away.
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
                members: vec![in_view(1), in_view(2)],
            },
            presence: vec![
                seen(1, Presence::Present),
                seen(2, Presence::Present),
                seen(3, Presence::Absent),
            ],
            primary: true,
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

    /// With a database that leads, this one, a logger and a relay that vote.
    fn mixed() -> NodeStatus {
        let mut node = follower();
        node.members.truncate(2);
        for (id, name) in [(3, "logger"), (4, "relay")] {
            let without_database = MemberStatus {
                has_data: false,
                ..configured(id, name)
            };
            node.members.push(without_database);
        }
        node.presence = (1..=4).map(|id| seen(id, Presence::Present)).collect();
        node.presence[3].readers_at = Some("relay:3310".into());
        node
    }

    #[test]
    fn member_is_present_while_it_is_heard_whatever_its_kind() {
        let node = mixed();
        let shown = rows(&node);
        let kinds: Vec<&str> = shown.iter().map(|row| &*row.kind).collect();
        assert_eq!(kinds, ["database", "database", "logger", "relay"]);
        assert!(shown.iter().all(Member::answers));
        assert_eq!((&*shown[2].role, &*shown[3].role), ("logger", "relay"));
        assert_eq!(shown[3].client_address.as_deref(), Some("relay:3310"));
        let group = group("g", &node, &shown);
        assert_eq!((group.voters, group.voters_present), (4, 4));
        assert_eq!(group.outlook, "4 voters: 1 may fail at a time");
        for (lost, name) in [(1, "b"), (2, "logger"), (3, "relay")] {
            let mut node = mixed();
            node.presence[lost] = seen(lost as u64 + 1, Presence::Absent);
            node.leader = Some(MemberId(1));
            let shown = rows(&node);
            assert!(!shown[lost].is_present && !shown[lost].answers(), "{name}");
            let outlook = super::group("g", &node, &shown).outlook;
            let expected =
                format!("4 voters, 3 answer ({name} not heard yet): no further one may fail");
            assert_eq!(outlook, expected);
        }
    }

    /// On a machine with much load that took most of a minute.
    #[test]
    fn member_that_has_just_joined_is_no_logger_before_its_report_says_so() {
        let mut node = mixed();
        node.members[3].voter = false;
        for (reported, kind, role) in [
            (None, "unknown", "learner"),
            (Some(""), "logger", "logger"),
            (Some("relay:3310"), "relay", "relay"),
        ] {
            node.presence[3].readers_at = reported.map(str::to_owned);
            let shown = &rows(&node)[3];
            assert_eq!((&*shown.kind, &*shown.role), (kind, role));
        }
    }

    #[test]
    fn silent_member_is_present_and_does_not_answer() {
        let mut node = mixed();
        node.leader = Some(MemberId(1));
        node.presence[2] = seen(3, Presence::Silent);
        let shown = rows(&node);
        assert!(shown[2].is_present && shown[2].is_silent && !shown[2].answers());
        assert_eq!(shown[2].silent_ms, Some(1300));
        assert_eq!(group("g", &node, &shown).voters_present, 3);
    }

    #[test]
    fn nothing_commits_without_a_leader_that_is_heard() {
        let commits = |node: &NodeStatus| group("g", node, &rows(node)).can_commit;
        let heard = mixed();
        assert!(commits(&heard));
        let mut silent = mixed();
        silent.presence[1] = seen(2, Presence::Silent);
        let mut unknown = mixed();
        unknown.leader = None;
        let mut lost = mixed();
        lost.primary = false;
        assert!(![silent, unknown, lost].iter().any(commits));
    }

    #[test]
    fn own_database_that_lacks_nothing_does_not_lag_while_a_majority_is_heard() {
        let mut node = follower();
        node.pace.own_lag = Duration::from_secs(12);
        let shown = |node: &NodeStatus, queue| {
            let own = OwnDatabase {
                apply_queue: Some(queue),
                ..OwnDatabase::default()
            };
            let rows = member_rows(node, &[], &own);
            assert_eq!(rows[0].apply_queue, Some(queue));
            (rows[0].lag_actions, rows[0].lag_ms)
        };
        assert_eq!(shown(&node, 0), (Some(0), Some(0)));
        assert_eq!(shown(&node, 3), (Some(3), Some(12_000)));
        node.primary = false;
        assert_eq!(shown(&node, 0), (None, None), "the others may commit");
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
        for gone in [Presence::Silent, Presence::Absent] {
            let mut node = follower();
            node.presence[1] = seen(2, gone);
            let shown = member_rows(&node, &links, &OwnDatabase::default());
            assert_eq!(times(&shown[1]), (None, None, None), "{gone:?}");
        }
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
