//! The server's applier threads, in `recv`: the first one takes the server into the group, all of
//! them apply what others did.

use std::cell::Cell;
use std::time::Instant;

use bytes::Bytes;
use synod_binlog::write_set::{Note, WriteSet};
use synod_node::{Origin, Remedy, View as GroupView};

use crate::api::{ExitLoop, LogLevel, RecvContext, Status, ViewStatus, WsFlags};
use crate::apply::failed_action_here::note_beginning;
use crate::apply::sequencer::{Queued, Sequencer, Task, Work};
use crate::connection::Connection;
use crate::connection::departure::Data;
use crate::connection::donor::donate_copy;
use crate::connection::join::JoinEnd;
use crate::connection::joiner::take_copy_again;
use crate::connection::session::Session;
use crate::connection::views::origin_uuid;
use crate::status::LocalState;
use crate::transaction::applied_handle;
use crate::transaction::streamed_transactions::{
    check_doubtful, forget_doubtful_streams, passes_own_fragment,
};

/// Why an applier's work did not end as usual.
pub(crate) enum Stop {
    ExitLoop,
    /// The action was not applied, for this reason; nothing of it is in the database.
    Unapplied(i64, String),
    /// The data of this server lack what they should have.
    Broken(String),
    Refused(String),
}

thread_local! {
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

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
        let session = &self.session;
        let mut seat = Seat::take(&session.sequencer);
        if session.begins_join() {
            self.join_or_end(ctx);
        }
        let mut unwanted = false;
        loop {
            if unwanted && session.sequencer.applier_may_go() {
                seat.taken = false;
                return Status::Ok;
            }
            let result = match session.sequencer.next() {
                Work::Apply(Queued::View(view)) => self.show_view(ctx, &view),
                Work::Apply(Queued::Action {
                    seqno,
                    depends_on,
                    origin,
                    data,
                }) => self.apply(ctx, seqno, depends_on, &origin, data),
                Work::Do(task) => {
                    let result = self.do_task(ctx, task);
                    session.sequencer.task_done();
                    result
                }
                Work::End { last } => {
                    seat.taken = false;
                    return session.end(ctx, last);
                }
            };
            match result {
                Ok(()) => {}
                // The server asks only once.
                Err(Stop::ExitLoop) => unwanted = true,
                Err(Stop::Unapplied(seqno, why)) => {
                    self.votes.leave_as_unapplied(session, seqno, &why)
                }
                Err(Stop::Broken(why)) => session.leave_as_inconsistent(&why),
                Err(Stop::Refused(why)) => refused_by_server(session, &why),
            }
        }
    }

    fn join_or_end(&self, ctx: RecvContext) {
        let session = &self.session;
        let joined = self.joiner.join(session, ctx);
        if let Err(JoinEnd::Failed(why)) = &joined {
            take_copy_again(session, why);
        }
        session.update(|state| state.sst.end());
        match joined {
            Ok(()) => {}
            Err(JoinEnd::Left) => session.sequencer.abort(),
            Err(JoinEnd::Failed(why)) => {
                let why = format!("cannot join the group: {why}");
                session.leave(&why, Data::Good, Remedy::Restart);
                session.sequencer.abort();
            }
            Err(JoinEnd::Unprepared(why)) => {
                session.leave_saying(LogLevel::Error, &why, Data::Good, Remedy::Restart);
                session.sequencer.abort();
            }
        }
    }

    fn apply(
        &self,
        ctx: RecvContext,
        seqno: i64,
        depends_on: i64,
        origin: &Origin,
        data: Bytes,
    ) -> Result<(), Stop> {
        let session = &self.session;
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
            session.pass_note(seqno);
            return Ok(());
        }
        check_doubtful(session, seqno, origin, flags, trx)?;
        if passes_own_fragment(session, seqno, origin, flags)? {
            return Ok(());
        }
        if session.is_of_this_member(origin) {
            session.server.other_replication.note_returned(flags, &data);
        }
        let meta = session.meta(seqno, depends_on, origin_uuid(origin), trx, conn);
        let handle = applied_handle(trx, seqno);
        if flags.contains(WsFlags::ISOLATION) {
            session.sequencer.begin_alone(seqno);
            session.server.position.executes(session.group(), seqno);
        }
        note_beginning(session, seqno);
        let data = self.votes.given(session, seqno, flags, data);
        BEGAN.set(Some(Instant::now()));
        let exit = match session
            .server
            .callbacks
            .apply(ctx, &handle, flags, &data, &meta)
        {
            Ok(exit) => exit,
            // It was not let into the order, and was rolled back: the log still has it.
            Err(_) if session.sequencer.is_aborted_before(seqno) => return Ok(()),
            Err(_) => {
                let why = format!("action {seqno} could not be applied");
                return Err(Stop::Unapplied(seqno, why));
            }
        };
        session.server.counters.certified.one();
        session
            .server
            .counters
            .deps_distance_sum
            .add((seqno - depends_on).unsigned_abs());
        session.release(seqno);
        match exit {
            ExitLoop::No => Ok(()),
            ExitLoop::Yes => Err(Stop::ExitLoop),
        }
    }

    /// A view in its place in the order.
    fn show_view(&self, ctx: RecvContext, view: &GroupView) -> Result<(), Stop> {
        let session = &self.session;
        let seqno = view.seqno.0;
        let shown = session
            .view_frame(seqno)
            .server_view(view, ViewStatus::Primary);
        let present = shown.my_index.is_some();
        self.lost_streams
            .roll_back_streams_of_lost_members(session, ctx, view, &shown)?;
        session
            .server
            .position
            .set_last_member(present && view.members.len() == 1);
        if present {
            forget_doubtful_streams(session);
        }
        let back = session.update(|state| state.views.show(view, present));
        session.sequencer.pass(seqno);
        session.release(seqno);
        if back {
            session.set_local(LocalState::Joined);
            session.sequencer.add_task(0, Task::Synced);
        }
        // The leader may have been lost while this view was on its way.
        session.follow_primary();
        Ok(())
    }

    fn do_task(&self, ctx: RecvContext, task: Task) -> Result<(), Stop> {
        let session = &self.session;
        match task {
            Task::ShowLost => show_lost(session, ctx),
            Task::Synced => show_synced(session),
            Task::OpenWriteGate => {
                self.write_gate.open_when_applied(session);
                Ok(())
            }
            Task::Donate(request) => {
                donate_copy(session, ctx, &request);
                Ok(())
            }
        }
    }
}

/// While it shuts down, the server may interrupt its own callbacks.
fn refused_by_server(session: &Session, why: &str) {
    if session.is_closing() {
        session.log(LogLevel::Info, format!("while leaving: {why}"));
    } else {
        let why = format!("this server leaves the group: {why}");
        session.leave(&why, Data::Good, Remedy::Restart);
    }
    session.sequencer.abort();
}

/// Shows the server that the group is lost, if it does not know.
///
/// That the group is back is never shown out of order: a second primary view with the same
/// members makes the server roll back all streamed transactions, which all members may do only
/// at the same position. The leader orders a view for it.
fn show_lost(session: &Session, ctx: RecvContext) -> Result<(), Stop> {
    let (shown, view) = {
        let state = session.state();
        (state.views.is_primary(), state.views.latest().cloned())
    };
    let Some(view) = view.filter(|_| shown && !session.is_primary()) else {
        return Ok(());
    };
    let refused = |error| Stop::Refused(format!("view without a position: {error}"));
    let released = session.sequencer.released();
    let lost = session.view_frame(released).lost_view(&view);
    session.server.callbacks.view(ctx, &lost).map_err(refused)?;
    session.update(|state| {
        state.views.lose();
        state.donor.lose_group();
    });
    session.set_local(LocalState::Initialized);
    Ok(())
}

fn show_synced(session: &Session) -> Result<(), Stop> {
    let is_ready = session.update(|state| state.views.is_primary() && state.donor.lets_sync());
    if !is_ready {
        return Ok(());
    }
    session
        .server
        .callbacks
        .synced()
        .map_err(|error| Stop::Refused(error.to_string()))?;
    // It may have been desynced when the group was lost, or by a client during the callback.
    let desynced = session.state().donor.desyncs() > 0;
    session.set_local(if desynced {
        LocalState::DonorDesynced
    } else {
        LocalState::Synced
    });
    session.log(LogLevel::Info, "synced with the group");
    if let Some(text) = session.server.other_replication.what_returned() {
        session.log(LogLevel::Error, text);
    }
    Ok(())
}
