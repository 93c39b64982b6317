//! Two servers and a logger: any one of the three may be lost (P1, P5), and a server leads again.
//!
//! One after the other loses its power: the server that leads, the other one while the first is
//! back, the logger, then both servers at once. Nothing else fails. Between these, the logger leads
//! because the only server that is up lacks something. That nothing acknowledged is lost is the
//! rule of every run; here the group must also keep committing, and the logger must not keep
//! leading.

use synod_consensus::MemberId;

use crate::invariants::Violation;
use crate::world::{SECOND, World};

/// Number of losses of each kind.
const ROUNDS: usize = 3;
/// In this time a member that is back has what was committed, and a server leads. The logger waits
/// up to 32 times longer if it has to hand over again and again.
const BACK_US: u64 = 40 * SECOND;

impl World {
    /// Loses each of the voters in turn, while clients work.
    pub(crate) fn lose_each_beside_logger(&mut self) {
        let Some(logger) = self.voter(|world, id| !world.node(id).has_data) else {
            return;
        };
        for _ in 0..ROUNDS {
            self.logger_hands_over(logger);
            let Some(servers) = self.servers_leader_first() else {
                return;
            };
            for server in servers {
                self.lose_and_return(&[server]);
            }
            self.lose_and_return(&[logger]);
            self.lose_both(servers);
            if self.violation.is_some() {
                return;
            }
        }
    }

    /// A voter of the latest configuration with this property.
    fn voter(&self, is_it: impl Fn(&World, MemberId) -> bool) -> Option<MemberId> {
        let leader = self.ready_leader()?;
        let config = &self.core(leader).config().config;
        config.voters().find(|id| is_it(self, *id))
    }

    /// Both servers; the first of them leads.
    fn servers_leader_first(&self) -> Option<[MemberId; 2]> {
        let first = self.ready_leader()?;
        let is_other = |world: &World, id| id != first && world.node(id).has_data;
        Some([first, self.voter(is_other)?])
    }

    /// The one server that is up lacks what the other one and the logger have committed: the logger
    /// leads until the server has it, and gives leadership to it then.
    fn logger_hands_over(&mut self, logger: MemberId) {
        let Some([leads, lags]) = self.servers_leader_first() else {
            return self.beside_logger("no leader although nothing fails".to_owned());
        };
        self.lose_power(lags);
        self.commit_without(&[lags]);
        self.lose_power(leads);
        self.start(lags);
        if self.run_until(BACK_US, |world| world.ready_leader() == Some(logger)) {
            self.coverage.count("a logger led");
        }
        self.return_all(&[leads]);
    }

    fn expect_server_to_lead(&mut self) {
        let leads = self.run_until(BACK_US, |world| {
            let leader = world.ready_leader();
            leader.is_some_and(|id| world.node(id).has_data)
        });
        if !leads && self.violation.is_none() {
            self.beside_logger("no server leads although two are fit".to_owned());
        }
    }

    /// A minority loses its power, and is back later.
    fn lose_and_return(&mut self, lost: &[MemberId]) {
        if self.violation.is_some() {
            return;
        }
        lost.iter().for_each(|id| self.lose_power(*id));
        self.commit_without(lost);
        self.return_all(lost);
    }

    fn commit_without(&mut self, lost: &[MemberId]) {
        let patience_us = 10 * self.options.timing.election_timeout_max_us;
        for _ in 0..2 {
            let before = self.commit_index();
            let commits = self.run_until(patience_us, |world| world.commit_index() > before);
            if !commits && self.violation.is_none() {
                return self.beside_logger(format!("nothing is committed without {lost:?}"));
            }
        }
    }

    /// Both servers lose their power at once, and are back: the logger alone commits nothing.
    fn lose_both(&mut self, both: [MemberId; 2]) {
        if self.violation.is_some() {
            return;
        }
        both.iter().for_each(|id| self.lose_power(*id));
        self.run_for(SECOND);
        self.return_all(&both);
    }

    fn return_all(&mut self, lost: &[MemberId]) {
        lost.iter().for_each(|id| self.start(*id));
        let reached = self.commit_index();
        let all: Vec<MemberId> = self.nodes.keys().copied().collect();
        let is_back = self.run_until(BACK_US, |world| {
            all.iter().all(|id| {
                world.is_up(*id)
                    && world.core(*id).durable_index() >= reached
                    && world.core(*id).leader().is_some()
            })
        });
        if !is_back && self.violation.is_none() {
            return self.beside_logger(format!("{lost:?} came back, and not all take part"));
        }
        self.expect_server_to_lead();
    }

    fn beside_logger(&mut self, what: String) {
        let rule = "two servers and a logger survive any loss of one";
        self.violation = Some(Violation { rule, what });
    }
}
