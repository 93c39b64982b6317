//! Two threads: one looks at the server, which does not call when an applier has committed;
//! the other opens and closes this server for writes.
//!
//! They are two because closing waits for commits under way, which wait for the group: meanwhile
//! the group must hear how far the database is, and waits of killed clients must end.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use synod_node::{
    Command, DataState, GroupSetting, Level, ProposalResult, Seqno, WaitResult, WritePermission,
    Writers,
};

use crate::host::{Member, State};
use crate::server::{Opening, ServerError};
use crate::status::Stage;
use crate::transaction;

/// Between two looks while the database is behind the group, or a client waits.
const BUSY: Duration = Duration::from_millis(5);
/// Between two looks otherwise.
const IDLE: Duration = Duration::from_millis(50);
/// The applier of the channel is started again so often without progress before the server takes no
/// part: a lock that was waited for too long may be free now.
const STARTS_MAX: u32 = 5;
/// Between two of these starts.
const START_AGAIN: Duration = Duration::from_secs(1);
/// Between two starts later: a full disk has room again, or a person has repaired the data.
const START_MUCH_LATER: Duration = Duration::from_secs(10);
/// The server writes an event to its relay log in less. A disk that is full takes as long as it is,
/// and the server looks each minute.
const QUEUING_MAX: Duration = Duration::from_secs(10);
/// A server that needs longer to apply what is committed should not lead: as the writer it would
/// take writes only after that.
const LAG_MAX: Duration = Duration::from_secs(1);
/// A writer that has not ended for so long what the group has committed should not lead either: a
/// server whose disk is full waits for room, for as long as it takes.
const ENDING_MAX: Duration = Duration::from_secs(5);
/// Longer, by a second for so many bytes of the largest of them: it is written to the binlog first.
const ENDED_BYTES_PER_S: u64 = 10 << 20;
/// The group is told so long that it is to choose another leader.
const HAND_OVER_LIMIT: Duration = Duration::from_secs(1);
/// Between two looks whether the writer flushes each commit.
const FLUSHES_EVERY: Duration = Duration::from_secs(1);
/// The group is asked so long for a change, and its answer is waited for so long.
const WRITERS_LIMIT: Duration = Duration::from_secs(10);
const WRITERS_PATIENCE: Duration = Duration::from_secs(1);

/// Starts of the applier since the database last made progress.
#[derive(Default)]
struct Starts {
    at: Seqno,
    count: u32,
    /// The next one is not before.
    next: Option<Instant>,
}

/// How long the database needs for what is committed.
#[derive(Default)]
struct Lag {
    /// A position that it lacked at this time, and lacks.
    lacks: Option<(Seqno, Instant)>,
    last: Duration,
    /// Answer given last to whether others should lead. None: none since this server follows.
    told: Option<bool>,
}

impl Lag {
    fn note(&mut self, applied: Seqno, committed: Seqno, now: Instant) {
        if applied >= committed {
            (self.lacks, self.last) = (None, Duration::ZERO);
            return;
        }
        if let Some((_, since)) = self.lacks.take_if(|(lacked, _)| applied >= *lacked) {
            self.last = now - since;
        }
        self.lacks.get_or_insert((committed, now));
    }

    fn exceeds(&self, limit: Duration, now: Instant) -> bool {
        let lacks = self.lacks.map(|(_, since)| now - since);
        self.last.max(lacks.unwrap_or_default()) > limit
    }
}

impl Member {
    pub(crate) fn watch(&self) {
        let (mut synced_at, mut flushes_at) = (None, Instant::now());
        let (mut starts, mut lag) = (Starts::default(), Lag::default());
        loop {
            self.look();
            self.clients.end_killed();
            self.tell_synced(&mut synced_at);
            if self.keep_applying(&mut starts) || self.keep_queuing(Instant::now()) {
                synced_at = None;
            }
            self.keep_weight(&mut lag);
            if flushes_at.elapsed() >= FLUSHES_EVERY {
                flushes_at = Instant::now();
                self.keep_flushing();
            }
            let is_busy = self.node().commit_seqno() > self.applied() || self.clients.count() > 0;
            if self.pause(if is_busy { BUSY } else { IDLE }) {
                return;
            }
        }
    }

    /// A person may have changed it by hand. On a replica it costs time only.
    fn keep_flushing(&self) {
        if self.lock().is_open != Some(true) || self.server.flushes() {
            return;
        }
        let text = "innodb_flush_log_at_trx_commit has been changed on the writer, and is set to 1 \
                    again: after a loss of power its binlog would claim transactions that InnoDB \
                    has lost";
        self.log(Level::Error, text);
        if let Err(error) = self.server.set_flush(true) {
            self.log(Level::Error, error.to_string());
        }
    }

    fn look(&self) {
        match self.server.executed() {
            Ok(executed) => {
                let applied = Seqno(executed.first_missing(self.settings.group) as i64 - 1);
                let known = self.applied();
                if applied > known {
                    self.set_applied(applied);
                } else if applied < known && self.lock().stage != Stage::Failed {
                    self.fail(format!(
                        "gtid_executed had the group's history up to {known}, and has it up to \
                         {applied} only: was it reset? Start this server again with a copy of \
                         another server's data"
                    ));
                }
            }
            Err(error) => self.log(Level::Error, error.to_string()),
        }
    }

    /// The database is synced once it has everything that was committed when it had joined.
    fn tell_synced(&self, synced_at: &mut Option<Seqno>) {
        if self.lock().stage != Stage::Following {
            return;
        }
        let node = self.node();
        let target = *synced_at.get_or_insert_with(|| node.commit_seqno());
        if target != Seqno(i64::MAX) && self.applied() >= target {
            self.set_data_state(DataState::Synced);
            self.log(
                Level::Info,
                format!("this server is synced, at {}", self.applied()),
            );
            *synced_at = Some(Seqno(i64::MAX));
        }
    }

    /// Starts the applier again when it has stopped. Returns whether the server follows the group
    /// again after it took no part.
    fn keep_applying(&self, starts: &mut Starts) -> bool {
        let (stage, at, now) = (self.lock().stage, self.applied(), Instant::now());
        if !matches!(stage, Stage::Following | Stage::Stuck) {
            return false;
        }
        let is_due = starts.next.is_none_or(|next| now >= next);
        let applies = self.server.is_applying();
        if stage == Stage::Stuck && (at > starts.at || applies && is_due) {
            self.follow_again();
            return true;
        }
        if applies || !is_due {
            return false;
        }
        if starts.at != at {
            (starts.at, starts.count) = (at, 0);
        }
        starts.count += 1;
        starts.next = Some(now + START_AGAIN);
        let see = "see performance_schema.replication_applier_status_by_worker and the error log";
        if starts.count > STARTS_MAX {
            starts.next = Some(now + START_MUCH_LATER);
            if stage == Stage::Following {
                let why = format!(
                    "the applier of the channel stops after {at}, however often it is started: \
                     {see}. It is tried again every {} s: give it what it lacks, such as room on \
                     the disk. If its data differ from the others', make the row as it is there, \
                     or give this server a copy of another server's data",
                    START_MUCH_LATER.as_secs()
                );
                self.take_out(Stage::Stuck, why);
            }
        } else {
            let text = format!("the applier of the channel has stopped after {at}: {see}");
            self.log(Level::Warning, text);
        }
        if let Err(error) = self.server.start_channel() {
            self.log(Level::Warning, error.to_string());
        }
        false
    }

    /// Takes the server out while it does not take events. Returns whether it follows the group
    /// again.
    fn keep_queuing(&self, now: Instant) -> bool {
        let since = *self.queuing.lock().unwrap_or_else(PoisonError::into_inner);
        let is_blocked = since.is_some_and(|since| now > since + QUEUING_MAX);
        let stage = self.lock().stage;
        if stage == Stage::Following && is_blocked {
            let why = format!(
                "the server has been writing to the relay log for {} s, as it does while the disk \
                 of that is full: see its error log, and make room. It looks each minute whether \
                 there is some, and then follows its group again",
                QUEUING_MAX.as_secs()
            );
            self.take_out(Stage::Blocked, why);
        }
        let continues = stage == Stage::Blocked && !is_blocked;
        if continues {
            self.follow_again();
        }
        continues
    }

    fn follow_again(&self) {
        self.log(Level::Info, "this server follows its group again");
        self.set_data_state(DataState::Joined);
        self.change(|state| {
            state.stage = Stage::Following;
            state.problem.clear();
        });
    }

    /// Keeps leadership away from a server that lags, for writers wait for its applier, and from a
    /// writer whose commits do not end.
    fn keep_weight(&self, lag: &mut Lag) {
        let (committed, now) = (self.node().commit_seqno(), Instant::now());
        let applied = self.applied();
        lag.note(applied, committed, now);
        if applied >= committed {
            self.largest_bytes.store(0, Ordering::Relaxed);
        }
        let (follows, is_open) = {
            let state = self.lock();
            (state.stage == Stage::Following, state.is_open == Some(true))
        };
        let largest_s = self.largest_bytes.load(Ordering::Relaxed) / ENDED_BYTES_PER_S;
        let limit = match is_open {
            true => ENDING_MAX + Duration::from_secs(largest_s),
            false => LAG_MAX,
        };
        let defers = follows.then_some(lag.exceeds(limit, now));
        if lag.told != defers {
            lag.told = defers;
            if let Some(defers) = defers {
                self.set_defers(defers);
            }
            if is_open && defers == Some(true) {
                self.give_up_writing(limit);
            }
        }
    }

    /// Has another server become the writer now: by its weight alone, it would after some election
    /// timeouts.
    fn give_up_writing(&self, limit: Duration) {
        let text = format!(
            "commits that the group has do not end on this server for {} s: another one becomes \
             the writer. Is the disk of its binlog or data full? See its error log",
            limit.as_secs()
        );
        self.log(Level::Warning, text);
        let command = Command::TransferLeadership { to: None };
        if let Err(error) = self.node().administrate(command, HAND_OVER_LIMIT) {
            self.log(Level::Warning, error.to_string());
        }
    }

    pub(crate) fn keep_gate(&self) {
        while let Some(step) = self.wait_for(|state| self.next_step(state)) {
            let done = match step {
                Step::OneWriter => self.order_one_writer(),
                Step::Gate { open } => (!open || self.say_beginning()) && self.set_gate(open),
                Step::Offline(offline) => self.set_offline(offline),
            };
            if !done && self.pause(WRITERS_PATIENCE) {
                return;
            }
        }
    }

    fn next_step(&self, state: &mut State) -> Option<Step> {
        let open = match state.permission {
            WritePermission::Here { after } => {
                state.stage == Stage::Following && self.applied() >= after
            }
            WritePermission::Everywhere | WritePermission::Elsewhere { .. } => false,
        };
        if state.is_open != Some(open) {
            return Some(Step::Gate { open });
        }
        let offline = matches!(state.stage, Stage::Stuck | Stage::Blocked | Stage::Failed);
        if state.is_offline != offline {
            return Some(Step::Offline(offline));
        }
        let everywhere = state.permission == WritePermission::Everywhere;
        (everywhere && state.stage == Stage::Following).then_some(Step::OneWriter)
    }

    /// Tells the group with which data it began, before the first of its transactions. Those that
    /// join later compare it with what they have.
    pub(crate) fn say_beginning(&self) -> bool {
        if !self.lock().founds {
            return true;
        }
        let executed = match self.server.executed() {
            Ok(executed) => executed.of_others(self.settings.group),
            Err(error) => {
                self.log(Level::Error, error.to_string());
                return false;
            }
        };
        // An earlier try may be in the order by now, and this one must not conflict with it.
        let mut action = transaction::beginning(&executed, self.origin());
        action.last_seen = self.applied().0;
        let pending = self.node().submit(&action);
        let WaitResult::ProposalResult(ProposalResult::Ordered { seqno, .. }) = pending.wait()
        else {
            return false;
        };
        // Until then the delivery of this number is not one of a client's transaction.
        let is_applied = |_: &mut State| (self.applied() >= seqno).then_some(());
        let is_applied = self.wait_for(is_applied).is_some();
        self.change(|state| state.founds = !is_applied);
        is_applied
    }

    fn set_gate(&self, open: bool) -> bool {
        // Closed before it is known to be, and open after.
        self.change(|state| {
            if open {
                state.openings += 1;
                state.opening = Opening(state.openings);
            } else {
                (state.is_open, state.opening) = (Some(false), Opening::NONE);
            }
        });
        if let Err(error) = self.move_gate(open) {
            let text = format!("this server cannot be opened or closed for writes: {error}");
            self.log(Level::Error, text);
            self.change(|state| (state.is_open, state.opening) = (None, Opening::NONE));
            return false;
        }
        self.change(|state| state.is_open = Some(open));
        let text = match open {
            true => "this server is the writer of its group (innodb_flush_log_at_trx_commit=1)",
            false => {
                "this server takes no writes: the leader of its group does. What this one applies \
                 is in the group's log (innodb_flush_log_at_trx_commit=0)"
            }
        };
        self.log(Level::Info, text);
        true
    }

    /// Opens or closes the server, and changes its flushes while it is closed. A replica has what
    /// it applies in the group's log, so it does not flush each commit. A writer does, before its
    /// binlog has the commit: after a crash the server takes the numbers of both, and the binlog
    /// would claim what the engine has lost.
    fn move_gate(&self, open: bool) -> Result<(), ServerError> {
        if open {
            self.server.set_flush(true)?;
            self.server.set_read_only(false)
        } else {
            // Waits for commits under way.
            self.server.set_read_only(true)?;
            self.server.set_flush(false)
        }
    }

    fn set_offline(&self, offline: bool) -> bool {
        if let Err(error) = self.server.set_offline(offline) {
            self.log(Level::Error, error.to_string());
            return false;
        }
        self.change(|state| state.is_offline = offline);
        true
    }

    fn order_one_writer(&self) -> bool {
        let order = |setting| {
            self.node()
                .set_for_group(setting, WRITERS_LIMIT, WRITERS_PATIENCE)
        };
        let regions = self.settings.options.commit_regions();
        let ordered = order(GroupSetting::Writers(Writers::Leader))
            .and_then(|()| order(GroupSetting::CommitRegions(regions)));
        if let Err(error) = &ordered {
            self.log(Level::Warning, error.to_string());
        }
        // The permission follows at once, or soon: it is waited for by the pause.
        ordered.is_ok() && self.lock().permission != WritePermission::Everywhere
    }
}

enum Step {
    /// The group takes the writes of its leader only.
    OneWriter,
    Gate {
        open: bool,
    },
    /// Ordinary clients are sent away, or no more.
    Offline(bool),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_long_from_its_limit_on_until_the_database_keeps_up() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut lag = Lag::default();
        lag.note(Seqno(1), Seqno(5), at(0));
        assert!(!lag.exceeds(LAG_MAX, at(900)));
        lag.note(Seqno(4), Seqno(9), at(1100));
        assert!(lag.exceeds(LAG_MAX, at(1100)) && !lag.exceeds(ENDING_MAX, at(1100)));
        // What it lacked has taken so long; what it lacks now is younger.
        lag.note(Seqno(5), Seqno(9), at(1200));
        assert!(lag.exceeds(LAG_MAX, at(1200)));
        lag.note(Seqno(9), Seqno(12), at(1300));
        assert!(!lag.exceeds(LAG_MAX, at(1300)));
        lag.note(Seqno(12), Seqno(12), at(9000));
        assert!(!lag.exceeds(LAG_MAX, at(9000)));
    }
}
