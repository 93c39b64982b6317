//! The thread that pulls: it waits for its turn, connects, and does what operators order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use synod_admin::relay::PullState;
use synod_binlog::mysql_gtid::Uuid;
use synod_logger::output::Output;
use synod_node::{Command, Level, Node, ProposalResult};
use synod_upstream::{
    Held, Incoming, MysqlPosition, Part, Position, Upstream, UpstreamConfig, UpstreamError,
};

use super::control::{Control, Order, OrderRefusal, Ordered, Turn};
use super::patience::Patience;
use super::session::{PullError, Session, check_kind, is_in_relay_group};
use super::skip;
use super::submissions::{Submissions, submit};
use crate::config::{UpstreamSettings, address_of};
use crate::pull::patience::Backoff;
use crate::pull::session::Room;
use crate::upstream_log::entry::{Head, Orders};
use crate::upstream_log::history::GtidState;
use crate::upstream_log::tail::{Broken, End, Tail};

/// Interval of looks at something that no event announces.
const LOOK: Duration = Duration::from_secs(1);
const READ_LIMIT: Duration = Duration::from_secs(10);
const HANDOVER_LIMIT: Duration = Duration::from_secs(5);

struct Attempts {
    backoff: Backoff,
    patience: Patience,
    count: u64,
}

pub(crate) struct Puller {
    pub(crate) node: Arc<Node>,
    pub(crate) tail: Arc<Tail>,
    pub(crate) control: Arc<Control>,
    pub(crate) settings: UpstreamSettings,
    pub(crate) room: Room,
    pub(crate) output: Output,
}

impl Puller {
    /// Pulls until the control is stopped: the body of a thread.
    pub(crate) fn run(&self) {
        let mut attempts = Attempts {
            backoff: Backoff::new(),
            patience: Patience::new(),
            count: 0,
        };
        let mut last = None;
        while let Some(turn) = self.control.await_turn() {
            if last.replace(turn) != Some(turn) {
                attempts.patience.rest();
            }
            let Some(end) = self.end_before(turn, &mut attempts.patience) else {
                continue;
            };
            if let Some(order) = self.control.take_order() {
                self.obey(order, &end);
            } else if end.orders.is_paused {
                attempts.patience.rest();
                self.control.show(PullState::Paused, None);
                self.control.pause(turn, LOOK);
            } else {
                attempts.count += 1;
                match self.pull(turn, end, &mut attempts) {
                    Ok(()) => self.control.pause(turn, Duration::from_millis(100)),
                    Err(error) => self.wait_after(&error, turn, &mut attempts),
                }
            }
        }
    }

    /// State at the log's end before this turn; none: unreadable so far, or no pull is wanted.
    fn end_before(&self, turn: Turn, patience: &mut Patience) -> Option<End> {
        if !self.tail.await_seqno(
            self.control.read_before(turn).max(self.node.commit_seqno()),
            LOOK,
        ) {
            if let Some(broken) = self.tail.end().broken {
                self.cannot_read(&broken, turn, patience);
            }
            return None;
        }
        if !is_in_relay_group(&self.node) {
            let text = "a member of this group has a database: a relay keeps an upstream's binlog \
                        in a group of relays only. Correct cluster_name or peers, and give this \
                        relay a directory of its own";
            self.stuck(text, turn);
            return None;
        }
        Some(self.tail.end())
    }

    /// The log cannot be read, so it is not known from where to pull. Where that is this relay's
    /// fault alone, another one is to lead.
    fn cannot_read(&self, broken: &Broken, turn: Turn, patience: &mut Patience) {
        let why = &broken.why;
        if broken.is_final {
            let text = format!("the log of this group cannot be continued: {why}");
            return self.stuck(&text, turn);
        }
        let text = format!(
            "this relay cannot read its log, and so pulls nothing: {why}. It tries again by itself"
        );
        if let Some(failing) = patience.has_ended(Instant::now()) {
            self.hand_over(failing, &text, patience);
        }
        self.stuck(&text, turn);
    }

    /// Nothing can be done until an operator has acted, or what is wrong has passed.
    fn stuck(&self, text: &str, turn: Turn) {
        self.control.refuse_order(text);
        if self.control.shown().error.as_deref() != Some(text) {
            self.output.log(Level::Error, text);
        }
        self.control
            .show(PullState::Connecting, Some(text.to_owned()));
        self.control.pause(turn, LOOK);
    }

    fn upstream(&self, orders: &Orders) -> UpstreamConfig {
        let mut config = self.settings.config.clone();
        // All relays of the group are one reader, so the dump of a former leader ends.
        config.uuid = Some(Uuid(self.node.status().group.0));
        let ordered = orders.address.as_deref();
        if let Some(Ok(address)) = ordered.map(address_of) {
            config.address = address;
        }
        config
    }

    /// One connection, from where the log ends. Ends without an error when the turn is over, an
    /// order has come, or a part has not got into the log.
    fn pull(&self, turn: Turn, end: End, attempts: &mut Attempts) -> Result<(), PullError> {
        self.room.check(&self.tail)?;
        let config = self.upstream(&end.orders);
        let position = match &end.state {
            Some(state) => position_of(&end, state),
            None => self.settings.start.clone(),
        };
        let shown = self.control.shown();
        self.control.show(PullState::Connecting, shown.error);
        // A commit may wait for what the log has already.
        let mut upstream = Upstream::connect_holding(&config, &position, held_of(&end).as_ref())?;
        check_kind(&end, &upstream)?;
        let handle = upstream.handle();
        if !self.control.opened(turn, handle.clone()) {
            return Ok(());
        }
        let state = end.state.unwrap_or_else(|| GtidState::of(upstream.start()));
        let mysql = upstream.mysql_start().cloned();
        let text = match &mysql {
            Some(set) => format!(
                "pulling from the upstream {}, MySQL {}, after '{set}', which is '{state}' here",
                config.address,
                upstream.version()
            ),
            None => format!(
                "pulling from the upstream {} after '{state}'",
                config.address
            ),
        };
        self.output.log(Level::Info, &text);
        let (submissions, settling) = Submissions::begin(&self.node, &self.control, turn);
        let (tail, room) = (&*self.tail, self.room.clone());
        let (pull, orders) = (attempts.count, end.orders);
        let session = Session::new(submissions, pull, orders, tail, room, state, mysql);
        let ended = std::thread::scope(|threads| {
            let settle = || settling.run(&handle);
            let spawned = std::thread::Builder::new()
                .name("synod-settle".to_owned())
                .spawn_scoped(threads, settle);
            if let Err(error) = spawned {
                return Err(PullError::Upstream(UpstreamError::Lost(error)));
            }
            let mut has_told_of_rows = false;
            session.run(&mut upstream, |incoming| {
                attempts.backoff.reset();
                self.control.show(PullState::Pulling, None);
                match incoming {
                    Incoming::Part(part) => {
                        attempts.patience.has_pulled();
                        self.look_at_rows(part, &mut has_told_of_rows);
                    }
                    Incoming::Heartbeat => attempts.patience.has_pulled(),
                    // It comes first, also where nothing comes after it.
                    Incoming::Rotated { .. } => {}
                }
            })
        });
        self.control.closed();
        match ended {
            Err(_) if !self.control.has(turn) => Ok(()),
            Err(PullError::Upstream(UpstreamError::Stopped)) => Ok(()),
            ended => ended,
        }
    }

    /// Notes what readers of rows do not get of a part. The log says it once for a connection.
    fn look_at_rows(&self, part: &Part, has_told: &mut bool) {
        let Some(lack) = &part.not_whole_rows else {
            return;
        };
        let is_new = self.control.pulled_without_rows(part.gtid, lack);
        if is_new && !std::mem::replace(has_told, true) {
            let line = format!(
                "transaction {} of the upstream has {lack}. Replicas execute it, but readers of \
                 rows (CDC) do not get its changes. A client of the upstream has set this for its \
                 session, or for all that connect from now on; or the table is versioned by \
                 transactions, whose changes MariaDB writes as statements. 'synod relay status' \
                 counts such transactions; this line is not repeated for the present connection",
                part.gtid
            );
            self.output.log(Level::Warning, &line);
        }
    }

    fn wait_after(&self, error: &PullError, turn: Turn, attempts: &mut Attempts) {
        let pause = attempts.backoff.next(error.may_pass());
        let text = error.to_string();
        if self.control.shown().error.as_deref() != Some(text.as_str()) {
            let line = format!(
                "nothing is pulled from the upstream: {text}. Readers get what is in the log. \
                 The relay tries again by itself; 'synod relay status' shows the error"
            );
            self.output.log(Level::Warning, &line);
        }
        self.control.show(PullState::Connecting, Some(text.clone()));
        self.control.ended_at(error.stopped());
        let ended = attempts.patience.has_ended(Instant::now());
        if let Some(failing) = ended.filter(|_| error.may_be_of_one_relay()) {
            self.hand_over(failing, &text, &mut attempts.patience);
        }
        // Returns at once if another relay leads.
        self.control.pause(turn, pause);
    }

    /// Hands leadership to another relay that answers, if there is one: it may reach what this one
    /// does not.
    fn hand_over(&self, failing: Duration, error: &str, patience: &mut Patience) {
        let status = self.node.status();
        let Some(to) = patience.offer(status.member, &status.members) else {
            return;
        };
        let command = Command::TransferLeadership {
            to: Some(to.member.to_string()),
        };
        let (name, seconds) = (&to.name, failing.as_secs());
        let line = match self.node.administrate(command, HANDOVER_LIMIT) {
            Ok(_) => format!(
                "this relay has pulled nothing for {seconds} s, so {name} leads now, and tries in \
                 its place. What this relay could not do: {error}"
            ),
            Err(refusal) => format!(
                "this relay has pulled nothing for {seconds} s, and {name} did not take over: \
                 {refusal}. It tries again, and asks another relay later"
            ),
        };
        self.output.log(Level::Warning, &line);
    }

    fn obey(&self, (order, reply): Ordered, end: &End) {
        let result = self.carry_out(&order, end);
        // The operator may have waited long enough.
        let _ = reply.send(result);
    }

    fn carry_out(&self, order: &Order, end: &End) -> Result<String, OrderRefusal> {
        let refused = OrderRefusal::Refused;
        let Some(state) = end.state.clone() else {
            return Err(refused(
                "the log holds nothing of an upstream yet: correct the relays' files, and start \
                 them again"
                    .to_owned(),
            ));
        };
        let mut orders = end.orders.clone();
        let (mut part, mut events) = (None, Vec::new());
        let text = match order {
            Order::Pause => {
                orders.is_paused = true;
                "nothing is pulled from now on".to_owned()
            }
            Order::Resume => {
                orders.is_paused = false;
                "the upstream is pulled from again".to_owned()
            }
            Order::Switch(to) => {
                let address = address_of(to).map_err(refused)?;
                orders.address = Some(address.to_string());
                let position = position_of(end, &state);
                // An upstream that does not have what the log has is not taken.
                let tried = Upstream::connect(&self.upstream(&orders), &position);
                let tried = tried.map_err(PullError::from).and_then(|mut upstream| {
                    check_kind(end, &upstream)?;
                    upstream.next()?;
                    Ok(())
                });
                if let Err(error) = tried {
                    return Err(refused(format!(
                        "the upstream stays as it is, because the other one cannot be pulled \
                         from: {error}"
                    )));
                }
                format!("the upstream is {address} from now on")
            }
            Order::Skip(gtid) => {
                let set = end.mysql.as_ref();
                let stopped = skip::checked(gtid, self.control.stopped_at(), set);
                let stopped = stopped.map_err(refused)?;
                let domain = self.settings.config.mysql_domain;
                let (head, left) = skip::in_place_of(stopped, domain, end);
                (part, events) = (Some(head), left);
                format!(
                    "transaction {stopped} is left out: each replica stops at its place, and says \
                     what to do"
                )
            }
        };
        if part.is_none() && orders == end.orders {
            return Err(refused("that is in force already".to_owned()));
        }
        let head = Head {
            before: state,
            orders,
            known: self.tail.known(),
            mysql: end.mysql.clone(),
            part,
        };
        let data = head
            .encode(&events)
            .map_err(|error| refused(error.to_string()))?;
        match submit(&self.node, data, self.node.commit_seqno()).wait_for_result() {
            ProposalResult::Ordered { seqno, .. } => {
                self.control.ordered(seqno);
                self.tail.await_seqno(seqno, READ_LIMIT);
                self.output.log(Level::Info, &format!("as ordered, {text}"));
                Ok(text)
            }
            ProposalResult::Unknown => Err(OrderRefusal::Unknown),
            _ => Err(OrderRefusal::NotLeader),
        }
    }
}

fn position_of(end: &End, state: &GtidState) -> Position {
    let given = state.list();
    match &end.mysql {
        Some(has) => Position::Mysql(MysqlPosition {
            has: has.clone(),
            given,
        }),
        None => Position::Gtids(given),
    }
}

/// The newest transaction in the log, which the upstream may wait for.
fn held_of(end: &End) -> Option<Held> {
    match end.mysql {
        Some(_) => end.mysql_newest.map(Held::Mysql),
        None if end.place.file.is_empty() => None,
        None => Some(Held::Place(end.place.clone())),
    }
}

#[cfg(test)]
mod tests {
    use synod_binlog::GtidList;
    use synod_node::FullLogPolicy;

    use super::*;
    use crate::testing::{TestRelay, eventually};

    /// One whose upstream does not answer.
    fn puller_of(relay: &TestRelay) -> Puller {
        let address = address_of("127.0.0.1:1").unwrap();
        Puller {
            node: relay.node.clone(),
            tail: relay.tail.clone(),
            control: relay.control.clone(),
            settings: UpstreamSettings {
                config: UpstreamConfig::new(address, "reader", 4711),
                start: Position::Gtids(GtidList::default()),
            },
            room: Room {
                log: relay.node.committed_log(),
                policy: FullLogPolicy::Wait,
                segment_bytes: 1 << 20,
            },
            output: Output::to_stderr(),
        }
    }

    #[test]
    fn relay_that_cannot_read_its_log_hands_over_to_one_that_can() {
        let first = TestRelay::begin("relay1");
        let second = first.joined_by("relay2");
        let before = first.order();
        for relay in [&first, &second] {
            relay.await_end("read", |end| end.seqno >= before);
        }
        let puller = puller_of(&first);
        let turn = first.control.await_turn().unwrap();
        // It has failed for long enough.
        let mut patience = Patience::new();
        let long_ago = Instant::now().checked_sub(Duration::from_secs(120));
        patience.has_ended(long_ago.unwrap());

        // What is wrong with the group's log is wrong on each relay: no other one would do better.
        let broken = Broken {
            why: "transactions are missing".to_owned(),
            is_final: true,
        };
        puller.cannot_read(&broken, turn, &mut patience);
        assert!(first.is_leader());

        first.break_reads();
        let unread = first.order();
        first.await_end("broken", |end| end.broken.is_some());
        eventually("led by the other", || {
            assert!(puller.end_before(turn, &mut patience).is_none());
            second.is_leader()
        });
        assert!(!first.control.has(turn));

        // The other one has all, and could pull; the first reads on once it can.
        second.await_end("read", |end| end.seqno >= unread && end.broken.is_none());
        let turn = second.control.await_turn().unwrap();
        let mut patience = Patience::new();
        eventually("ready to pull", || {
            puller_of(&second).end_before(turn, &mut patience).is_some()
        });
        let after = second.order();
        first.files.heal();
        first.await_end("read on", |end| end.seqno >= after && end.broken.is_none());
    }
}
