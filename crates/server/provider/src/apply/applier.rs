//! The server's applier threads, in `recv`: the first one takes the server into the group, all of
//! them apply what others did.

use std::cell::Cell;
use std::time::Instant;

use bytes::Bytes;
use synod_binlog::write_set::{Note, WriteSet};
use synod_node::{Origin, Remedy, View as GroupView};

use crate::api::{ExitLoop, LogLevel, RecvContext, Status, ViewStatus, WsFlags};
use crate::apply::sequencer::{Queued, Sequencer, Task, Work};
use crate::connection::Connection;
use crate::connection::disconnect::Data;
use crate::connection::join::JoinEnd;
use crate::connection::views::origin_uuid;
use crate::status::LocalState;
use crate::transaction::applied_handle;

/// Why an applier's work did not end as usual.
pub(crate) enum Stop {
    /// The server wants fewer appliers.
    ExitLoop,
    /// The action was not applied, for this reason; nothing of it is in the database.
    Unapplied(i64, String),
    /// The data of this server lack what they should have.
    Broken(String),
    /// The server refused a callback, but the data are good.
    Refused(String),
}

thread_local! {
    /// Time at which this thread began to apply its present action.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Takes the time at which this thread began to apply its action.
pub(crate) fn take_beginning() -> Option<Instant> {
    BEGAN.take()
}

/// Counts an applier as present, even if it unwinds.
struct Seat<'a> {
    sequencer: &'a Sequencer,
    taken: bool,
}

impl<'a> Seat<'a> {
    fn take(sequencer: &'a Sequencer) -> Seat<'a> {
        sequencer.applier_enters();
        Seat {
            sequencer,
            taken: true,
        }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if self.taken {
            self.sequencer.applier_lost();
        }
    }
}

impl Connection {
    /// Applies and shows what the sequencer hands out, on the calling thread, until the end of the
    /// connection or until the server wants fewer appliers.
    pub(crate) fn recv(&self, ctx: RecvContext) -> Status {
        let mut seat = Seat::take(&self.sequencer);
        let first = self.begins_join();
        if first {
            self.join_or_end(ctx);
        }
        let mut unwanted = false;
        loop {
            if unwanted && self.sequencer.applier_may_go() {
                seat.taken = false;
                return Status::Ok;
            }
            let result = match self.sequencer.next() {
                Work::Apply(Queued::View(view)) => self.show_view(ctx, &view),
                Work::Apply(Queued::Action {
                    seqno,
                    depends_on,
                    origin,
                    data,
                }) => self.apply(ctx, seqno, depends_on, &origin, data),
                Work::Do(task) => {
                    let result = self.do_task(ctx, task);
                    self.sequencer.task_done();
                    result
                }
                Work::End { last } => {
                    seat.taken = false;
                    return self.end(ctx, last);
                }
            };
            match result {
                Ok(()) => {}
                // The server asks only once.
                Err(Stop::ExitLoop) => unwanted = true,
                Err(Stop::Unapplied(seqno, why)) => self.leave_as_unapplied(seqno, &why),
                Err(Stop::Broken(why)) => self.leave_as_inconsistent(&why),
                Err(Stop::Refused(why)) => self.refused_by_server(&why),
            }
        }
    }

    fn join_or_end(&self, ctx: RecvContext) {
        let joined = self.join(ctx);
        if let Err(JoinEnd::Failed(why)) = &joined {
            self.take_copy_again(why);
        }
        self.update(|state| state.sst.end());
        match joined {
            Ok(()) => {}
            Err(JoinEnd::Left) => self.sequencer.abort(),
            Err(JoinEnd::Failed(why)) => {
                let why = format!("cannot join the group: {why}");
                self.leave(&why, Data::Good, Remedy::Restart);
                self.sequencer.abort();
            }
            Err(JoinEnd::Unprepared(why)) => {
                self.leave_saying(LogLevel::Info, &why, Data::Good, Remedy::Restart);
                self.sequencer.abort();
            }
        }
    }

    /// While it shuts down, the server may interrupt its own callbacks.
    fn refused_by_server(&self, why: &str) {
        if self.is_closing() {
            self.log(LogLevel::Info, format!("while leaving: {why}"));
        } else {
            let why = format!("this server leaves the group: {why}");
            self.leave(&why, Data::Good, Remedy::Restart);
        }
        self.sequencer.abort();
    }

    fn apply(
        &self,
        ctx: RecvContext,
        seqno: i64,
        depends_on: i64,
        origin: &Origin,
        data: Bytes,
    ) -> Result<(), Stop> {
        let write_set = WriteSet::decode(seqno, data)
            .map_err(|error| Stop::Unapplied(seqno, error.to_string()))?;
        let WriteSet {
            flags,
            note,
            trx,
            conn,
            data,
        } = write_set;
        if let Note::Outcome { .. } = note {
            self.pass_note(seqno);
            return Ok(());
        }
        self.check_doubtful(seqno, origin, flags, trx)?;
        if self.passes_own_fragment(seqno, origin, flags)? {
            return Ok(());
        }
        self.look_at_returned(origin, flags, &data);
        let meta = self.meta(seqno, depends_on, origin_uuid(origin), trx, conn);
        let handle = applied_handle(trx, seqno);
        if flags.contains(WsFlags::ISOLATION) {
            self.sequencer.begin_alone(seqno);
        }
        self.note_beginning(seqno);
        BEGAN.set(Some(Instant::now()));
        let exit = match self
            .shared
            .callbacks
            .apply(ctx, &handle, flags, &data, &meta)
        {
            Ok(exit) => exit,
            // It was not let into the order, and was rolled back: the log still has it.
            Err(_) if self.sequencer.is_aborted_before(seqno) => return Ok(()),
            Err(_) => {
                let why = format!("action {seqno} could not be applied");
                return Err(Stop::Unapplied(seqno, why));
            }
        };
        self.shared.counters.certified.one();
        self.shared
            .counters
            .deps_distance_sum
            .add((seqno - depends_on).unsigned_abs());
        self.release(seqno);
        match exit {
            ExitLoop::No => Ok(()),
            ExitLoop::Yes => Err(Stop::ExitLoop),
        }
    }

    /// A view in its place in the order.
    fn show_view(&self, ctx: RecvContext, view: &GroupView) -> Result<(), Stop> {
        let seqno = view.seqno.0;
        let shown = self
            .view_frame(seqno)
            .server_view(view, ViewStatus::Primary);
        let present = shown.my_index.is_some();
        self.lose_streams(view);
        let refused = |error| Stop::Refused(format!("view at {seqno}: {error}"));
        self.shared.callbacks.view(ctx, &shown).map_err(refused)?;
        self.shared
            .position
            .set_last_member(present && view.members.len() == 1);
        if present {
            self.forget_doubtful_streams();
        }
        let back = self.update(|state| state.views.show(view, present));
        self.sequencer.pass(seqno);
        self.release(seqno);
        if back {
            self.set_local(LocalState::Joined);
            self.sequencer.add_task(0, Task::Synced);
        }
        // The leader may have been lost while this view was on its way.
        self.follow_primary();
        Ok(())
    }

    fn do_task(&self, ctx: RecvContext, task: Task) -> Result<(), Stop> {
        match task {
            Task::ShowLost => self.show_lost(ctx),
            Task::Synced => self.show_synced(),
            Task::OpenWriteGate => {
                self.open_write_gate();
                Ok(())
            }
            Task::Donate(request) => {
                self.donate_copy(ctx, &request);
                Ok(())
            }
        }
    }

    /// Shows the server that the group is lost, if it does not know.
    ///
    /// That the group is back is never shown out of order: a second primary view with the same
    /// members makes the server roll back all streamed transactions, which all members may do only
    /// at the same position. The leader orders a view for it.
    fn show_lost(&self, ctx: RecvContext) -> Result<(), Stop> {
        let (shown, view) = {
            let state = self.state();
            (state.views.is_primary(), state.views.latest().cloned())
        };
        let Some(view) = view.filter(|_| shown && !self.is_primary()) else {
            return Ok(());
        };
        let refused = |error| Stop::Refused(format!("view without a position: {error}"));
        let released = self.sequencer.released();
        let lost = self.view_frame(released).lost_view(&view);
        self.shared.callbacks.view(ctx, &lost).map_err(refused)?;
        self.update(|state| {
            state.views.lose();
            state.donor.lose_group();
        });
        self.set_local(LocalState::Initialized);
        Ok(())
    }

    /// The server has caught up.
    fn show_synced(&self) -> Result<(), Stop> {
        let is_ready = self.update(|state| state.views.is_primary() && state.donor.lets_sync());
        if !is_ready {
            return Ok(());
        }
        self.shared
            .callbacks
            .synced()
            .map_err(|error| Stop::Refused(error.to_string()))?;
        // It may have been desynced when the group was lost, or by a client during the callback.
        let desynced = self.state().donor.desyncs() > 0;
        self.set_local(if desynced {
            LocalState::DonorDesynced
        } else {
            LocalState::Synced
        });
        self.log(LogLevel::Info, "synced with the group");
        if let Some(text) = self.shared.other_replication.what_returned() {
            self.log(LogLevel::Error, text);
        }
        Ok(())
    }
}
