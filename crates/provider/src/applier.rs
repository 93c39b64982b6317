//! The server's applier threads, in `recv`: the first one takes the server into the group, all of
//! them apply what others did.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use synod_node::{Origin, View as GroupView};

use crate::api::{ExitLoop, LogLevel, RecvContext, Status, View, ViewStatus};
use crate::capabilities::CAPABILITIES;
use crate::connection::{Connection, origin_uuid};
use crate::status::LocalState;
use crate::sequence::{Queued, Task, Work};
use crate::transaction::applied_handle;
use crate::write_set::WriteSet;

/// Why an applier stops working.
enum Stop {
    /// The server wants fewer appliers.
    ExitLoop,
    /// The action could not be applied: the data of this server is in doubt.
    Broken(String),
}

impl Connection {
    /// Lends the calling thread until the end of the connection.
    pub fn recv(&self, ctx: RecvContext) -> Status {
        self.sequencer.applier_enters();
        let first = !self.joining.swap(true, Ordering::AcqRel);
        if first {
            if let Err(why) = self.join(ctx) {
                self.log(LogLevel::Error, format!("cannot join the group: {why}"));
                self.update(|state| state.failure = Some(why));
                self.sequencer.stop();
            }
        }
        loop {
            let result = match self.sequencer.next() {
                Work::Apply(Queued::View(view)) => self.show_view(ctx, &view),
                Work::Apply(Queued::Action { seqno, depends_on, origin, data }) => {
                    self.apply(ctx, seqno, depends_on, &origin, data)
                }
                Work::Do(task) => {
                    let result = self.do_task(ctx, task);
                    self.sequencer.task_done();
                    result
                }
                Work::End { last } => return self.end(ctx, last),
            };
            match result {
                Ok(()) => {}
                Err(Stop::ExitLoop) => {
                    if self.sequencer.applier_may_go() {
                        return Status::Ok;
                    }
                }
                Err(Stop::Broken(why)) => self.inconsistent(&why),
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
        let write_set =
            WriteSet::decode(seqno, data).map_err(|error| Stop::Broken(error.to_string()))?;
        let WriteSet { flags, trx, conn, data } = write_set;
        let meta = self.meta(seqno, depends_on, origin_uuid(origin), trx, conn);
        let handle = applied_handle(trx, seqno);
        let applied = self.callbacks.apply(ctx, &handle, flags, &data, &meta);
        let exit =
            applied.map_err(|_| Stop::Broken(format!("action {seqno} could not be applied")))?;
        self.counters.certified.one();
        self.counters.deps_distance_sum.add((seqno - depends_on).unsigned_abs());
        self.release(seqno);
        match exit {
            ExitLoop::No => Ok(()),
            ExitLoop::Yes => Err(Stop::ExitLoop),
        }
    }

    /// A view in its place in the order.
    fn show_view(&self, ctx: RecvContext, view: &GroupView) -> Result<(), Stop> {
        let seqno = view.seqno.0;
        let shown = self.server_view(view, ViewStatus::Primary, seqno);
        let present = shown.my_index.is_some();
        let broken = |error| Stop::Broken(format!("view at {seqno}: {error}"));
        self.callbacks.view(ctx, &shown).map_err(broken)?;
        let back = self.update(|state| {
            state.view = Some(view.clone());
            let back = present && !state.shown_primary && state.in_order;
            state.shown_primary = true;
            state.in_order |= present;
            back
        });
        self.sequencer.pass(seqno);
        self.release(seqno);
        if back {
            self.set_local(LocalState::Joined);
            self.sequencer.add_task(0, Task::Synced);
        }
        Ok(())
    }

    fn do_task(&self, ctx: RecvContext, task: Task) -> Result<(), Stop> {
        match task {
            Task::ShowPrimary => self.show_primary(ctx),
            Task::Synced => self.show_synced(),
            Task::Donate(request) => {
                self.donate_copy(ctx, &request);
                Ok(())
            }
        }
    }

    /// Tells the server whether the group has a quorum, if it does not know.
    fn show_primary(&self, ctx: RecvContext) -> Result<(), Stop> {
        let primary = self.is_primary();
        let (shown, view) = {
            let state = self.state();
            (state.shown_primary, state.view.clone())
        };
        let Some(view) = view.filter(|_| shown != primary) else { return Ok(()) };
        let released = self.sequencer.released();
        let status = if primary { ViewStatus::Primary } else { ViewStatus::NonPrimary };
        let mut server_view = self.server_view(&view, status, released);
        if primary && server_view.my_index.is_none() {
            // Taken out of the view meanwhile: a new view is on its way.
            return Ok(());
        }
        if !primary {
            let own = server_view.my_index.map(|index| server_view.members[index].clone());
            server_view.my_index = own.as_ref().map(|_| 0);
            server_view.members = own.into_iter().collect();
        }
        let broken = |error| Stop::Broken(format!("view without a position: {error}"));
        self.callbacks.view(ctx, &server_view).map_err(broken)?;
        self.update(|state| state.shown_primary = primary);
        if primary {
            self.set_local(LocalState::Joined);
            self.sequencer.add_task(0, Task::Synced);
        } else {
            self.set_local(LocalState::Initialized);
        }
        Ok(())
    }

    /// The server has caught up.
    fn show_synced(&self) -> Result<(), Stop> {
        let ready = {
            let state = self.state();
            state.shown_primary && state.donation.is_none() && state.desyncs == 0
        };
        if !ready {
            return Ok(());
        }
        self.callbacks.synced().map_err(|error| Stop::Broken(error.to_string()))?;
        self.set_local(LocalState::Synced);
        self.log(LogLevel::Info, "synced with the group");
        Ok(())
    }

    /// The connection ends. The last applier shows the server the final view.
    fn end(&self, ctx: RecvContext, last: bool) -> Status {
        if !last {
            return Status::ConnFail;
        }
        self.show_end(ctx);
        Status::Ok
    }

    /// The final view, without which the server waits for ever.
    pub fn show_end(&self, ctx: RecvContext) {
        let position = crate::api::Gtid { group: self.group(), seqno: self.sequencer.released() };
        let view = View::last(position, CAPABILITIES);
        if let Err(error) = self.callbacks.view(ctx, &view) {
            self.log(LogLevel::Error, format!("final view: {error}"));
        }
        self.update(|state| {
            state.ended = true;
            state.shown_primary = false;
            if state.local != LocalState::Inconsistent {
                state.local = LocalState::Initialized;
            }
        });
    }
}

