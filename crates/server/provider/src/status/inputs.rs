//! The values behind one `SHOW STATUS`, gathered by `gather` and shown by the table in
//! [`variables`](super::variables).
//!
//! Only what is measured has a field here. What Galera shows and this provider does not measure is
//! a constant in the table.

use std::time::Instant;

use synod_admin::status::FlowControl;
use synod_commands::status::flow_control;
use synod_node::{CompressionStatus, MemberStatus, NodeStatus, RoleName, Seqno, Writers};

use crate::api::{Gtid, Uuid};
use crate::apply::client_waits;
use crate::connection::Connection;
use crate::connection::write_gate::Writer;
use crate::position::PositionKeeper;
use crate::status::counters::{Counted, Counters};
use crate::transaction::Transactions;

/// State of this server between start and service, as `wsrep_local_state` shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalState {
    /// Not in a primary view.
    #[default]
    Initialized,
    /// In the group, without its data yet.
    Joining,
    ReceivingStateTransfer,
    /// Has the data and catches up.
    Joined,
    /// Sends a full copy (SST), or is desynced.
    DonorDesynced,
    /// Has everything that was committed; serves clients.
    Synced,
    /// Could not apply what the others did, or was fenced.
    Inconsistent,
}

impl LocalState {
    /// `wsrep_local_state`. Health checks take 4, and only 4, for "send clients here".
    pub fn number(self) -> i64 {
        match self {
            LocalState::Initialized | LocalState::Inconsistent => 0,
            LocalState::Joining | LocalState::ReceivingStateTransfer => 1,
            LocalState::DonorDesynced => 2,
            LocalState::Joined => 3,
            LocalState::Synced => 4,
        }
    }

    pub fn comment(self) -> &'static str {
        match self {
            LocalState::Initialized => "Initialized",
            LocalState::Joining => "Joining",
            LocalState::ReceivingStateTransfer => "Joining: receiving State Transfer",
            LocalState::Joined => "Joined",
            LocalState::DonorDesynced => "Donor/Desynced",
            LocalState::Synced => "Synced",
            LocalState::Inconsistent => "Inconsistent",
        }
    }
}

/// A reason for which this server is out of its group, or its data are not as the others'.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trouble {
    #[default]
    None,
    /// The server has left its group for this reason, and comes back by itself.
    ComesBack(String),
    /// The server has left its group for this reason, and waits for a person.
    WaitsForPerson(String),
    /// Its data lack something, or must not be used: a sentence for each defect.
    Defects(Vec<String>),
}

impl Trouble {
    /// For people, in a line; empty: there is none.
    pub fn text(&self) -> String {
        match self {
            Trouble::None => String::new(),
            Trouble::ComesBack(why) => format!("out of its group, comes back by itself: {why}"),
            Trouble::WaitsForPerson(why) => {
                format!("out of its group, waits for a person: {why}")
            }
            Trouble::Defects(defects) => defects.join(" "),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LatencyStats {
    pub min: f64,
    pub average: f64,
    pub max: f64,
    pub deviation: f64,
    /// Number of samples; zero: no action was ordered in the time covered.
    pub samples: u64,
}

impl LatencyStats {
    /// Five numbers with slashes between them, as exporters parse them.
    pub fn text(&self) -> String {
        let LatencyStats {
            min,
            average,
            max,
            deviation,
            samples,
        } = self;
        format!("{min:.6}/{average:.6}/{max:.6}/{deviation:.6}/{samples}")
    }
}

#[derive(Clone, Debug, Default)]
pub struct GroupStatus {
    pub node: NodeStatus,
    pub compression: CompressionStatus,
    pub desync_count: i64,
    /// Times in which the group orders this server's actions.
    pub latency: LatencyStats,
    /// Share of the time since `FLUSH STATUS` in which writes of the group waited, 0 to 1.
    pub paused: f64,
    pub takes_writes: bool,
    /// This session's name in views.
    pub member: Uuid,
    pub segment: i64,
}

impl GroupStatus {
    pub(super) fn voters(&self) -> i64 {
        let voters = self.node.members.iter().filter(|m| m.voter).count();
        i64::try_from(voters).unwrap_or(i64::MAX)
    }

    /// `leader`, `follower`, `candidate` or `learner`; empty before the member has started.
    pub(super) fn role(&self) -> &'static str {
        match self.node.role {
            Some(RoleName::Leader) => "leader",
            Some(_) if !self.node.voter => "learner",
            Some(RoleName::Follower) => "follower",
            Some(RoleName::PreCandidate | RoleName::Candidate) => "candidate",
            None => "",
        }
    }

    pub(super) fn region(&self) -> String {
        let region = self.own_row().and_then(|member| member.region.as_ref());
        region.map_or_else(String::new, ToString::to_string)
    }

    fn own_row(&self) -> Option<&MemberStatus> {
        let node = &self.node;
        node.members.iter().find(|m| m.member == node.member)
    }

    /// The only server that takes writes; none: all do, or none is known.
    pub(super) fn writer(&self) -> Option<Writer> {
        Writer::of(&self.node).filter(|_| self.node.settings.writers == Writers::Leader)
    }

    /// Names of the members to which messages are compressed at the moment, with commas.
    pub(super) fn compressed_to(&self) -> String {
        let members = &self.compression.members;
        let known = self.node.members.iter();
        let named = known.filter(|member| members.contains(&member.member));
        let names: Vec<&str> = named.map(|member| member.name.as_str()).collect();
        names.join(",")
    }

    pub(crate) fn compression_saved_bytes(&self) -> i64 {
        let saved = &self.compression;
        let bytes = saved.plain_bytes.saturating_sub(saved.sent_bytes);
        i64::try_from(bytes).unwrap_or(i64::MAX)
    }

    pub(super) fn flow_control(&self) -> FlowControl {
        flow_control(&self.node)
    }

    /// Whether this database is the one that writes wait for.
    pub(super) fn is_waited_for(&self) -> bool {
        let own = self.own_row().map(|member| &member.name);
        own.is_some() && self.flow_control().slowest.as_ref() == own
    }

    /// Reason why not all actions are admitted; empty: all are.
    pub(super) fn admission_reason(&self) -> String {
        let FlowControl {
            slowest,
            slowest_lag_ms,
            ..
        } = self.flow_control();
        let lag = slowest.zip(slowest_lag_ms);
        lag.map_or_else(String::new, |(slowest, lag_ms)| {
            format!("{slowest} lags {lag_ms} ms and is needed for a majority")
        })
    }

    /// The databases as the leader knows them.
    pub(super) fn lags(&self) -> String {
        let lags = self.node.pace.lags.iter().map(|(name, actions, lag)| {
            let lag_ms = lag.as_millis();
            format!("{name}:{actions}:{lag_ms}")
        });
        lags.collect::<Vec<String>>().join(",")
    }
}

#[derive(Clone, Debug)]
pub struct StatusInputs {
    /// Group of the database, and the highest seqno released with all before it.
    pub last_committed: Gtid,
    pub counters: Counted,
    /// Local actions that are submitted and whose result is not known.
    pub send_queue: i64,
    /// Committed actions that are not released here.
    pub recv_queue: i64,
    /// Greatest age of this server's database that is proven; -1: none is.
    pub staleness_ms: i64,
    /// First seqno that a joiner can get from this member's log; -1: none.
    pub cached_downto: i64,
    /// Average distance between an action's seqno and the last one it depends on.
    pub deps_distance: f64,
    pub cert_index_size: i64,
    pub state: LocalState,
    pub trouble: Trouble,
    pub open_transactions: i64,
    /// Client addresses of the members, in the view's order.
    pub incoming_addresses: Vec<String>,
    pub group: Option<GroupStatus>,
}

impl Default for StatusInputs {
    fn default() -> StatusInputs {
        StatusInputs {
            last_committed: Gtid::UNDEFINED,
            counters: Counted::default(),
            send_queue: 0,
            recv_queue: 0,
            staleness_ms: -1,
            cached_downto: -1,
            deps_distance: 0.0,
            cert_index_size: 0,
            state: LocalState::default(),
            trouble: Trouble::default(),
            open_transactions: 0,
            incoming_addresses: Vec::new(),
            group: None,
        }
    }
}

impl StatusInputs {
    /// A value of the group; `without` while not connected.
    pub(super) fn of_group<T>(&self, without: T, read: impl FnOnce(&GroupStatus) -> T) -> T {
        self.group.as_ref().map_or(without, read)
    }

    /// A number of the node; zero while not connected.
    pub(super) fn of_node(&self, read: impl FnOnce(&NodeStatus) -> u64) -> i64 {
        let number = self.of_group(0, |group| read(&group.node));
        i64::try_from(number).unwrap_or(i64::MAX)
    }
}

pub(crate) fn gather(
    connection: Option<&Connection>,
    counters: &Counters,
    transactions: &Transactions,
    position: &PositionKeeper,
    segment: i64,
) -> StatusInputs {
    let saved = position.current();
    let mut inputs = StatusInputs {
        last_committed: Gtid::new(saved.group, saved.seqno.0),
        counters: counters.shown(),
        open_transactions: to_i64(transactions.len()),
        trouble: trouble(connection, position),
        ..StatusInputs::default()
    };
    let Some((connection, node)) = connection.and_then(|c| c.session.node().map(|node| (c, node)))
    else {
        return inputs;
    };
    let (session, status) = (&connection.session, node.status());
    inputs.last_committed = client_waits::last_committed(session);
    inputs.send_queue = to_i64(status.pending);
    let lag = status.commit_seqno.0 - session.sequencer.released();
    inputs.recv_queue = lag.max(0);
    let age = node.staleness(Seqno(session.sequencer.released()));
    inputs.staleness_ms = age.map_or(-1, |age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
    inputs.cached_downto = status.first_seqno.0;
    inputs.deps_distance = counters.deps_distance();
    inputs.cert_index_size = to_i64(status.cert_keys);
    let (local, desyncs, ended) = {
        let state = session.state();
        let lifecycle = &state.lifecycle;
        (
            lifecycle.local(),
            state.donor.desyncs(),
            lifecycle.has_ended(),
        )
    };
    inputs.state = local;
    if local == LocalState::Inconsistent {
        // The database is at no position of the group.
        inputs.last_committed = Gtid::UNDEFINED;
    }
    if ended {
        return inputs;
    }
    inputs.incoming_addresses = status
        .view
        .members
        .iter()
        .map(|m| m.incoming.clone())
        .collect();
    inputs.group = Some(GroupStatus {
        compression: node.compression(),
        desync_count: i64::from(desyncs),
        latency: counters
            .latency
            .shown(Instant::now(), session.server.options.stats_period()),
        paused: counters.paused.share(Instant::now(), status.pace.paused),
        takes_writes: status.primary && connection.write_gate.is_open(),
        member: session.own_uuid(),
        segment,
        node: status,
    });
    inputs
}

/// A departure explains more than a defect that it may have left.
fn trouble(connection: Option<&Connection>, position: &PositionKeeper) -> Trouble {
    let departure = connection.and_then(|connection| connection.session.departure());
    let is_copying = connection.is_some_and(|connection| {
        connection.session.state().lifecycle.local() == LocalState::ReceivingStateTransfer
    });
    match departure {
        Some((why, true)) => Trouble::WaitsForPerson(why),
        Some((why, false)) => Trouble::ComesBack(why),
        None if is_copying => Trouble::None,
        None => match position.defects() {
            defects if defects.is_empty() => Trouble::None,
            defects => Trouble::Defects(defects),
        },
    }
}

fn to_i64(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
