//! How a server enters the group, on the first applier's thread.
//!
//! The database's position decides. If the member's own log has, or is being sent, every action after
//! it, those are applied and nothing is copied. Otherwise the server asks for a full copy.

use std::time::{Duration, Instant};

use synod_node::{Seqno, TransferNews, View as GroupView};

use crate::api::{LogLevel, RecvContext, ViewStatus};
use crate::connection::{Connection};
use crate::status::LocalState;
use crate::sequence::Task;

/// Between two requests for a donor.
const DONOR_RETRY: Duration = Duration::from_secs(1);

impl Connection {
    /// Takes the server into the group.
    ///
    /// # Errors
    /// Why that is impossible, for the error log.
    pub fn join(&self, ctx: RecvContext) -> Result<(), String> {
        let node = self.node().ok_or("no node is running")?;
        let view = self
            .wait_for(None, |state| match (&state.joined, &state.failure) {
                (Some(view), _) => Some(Ok(view.clone())),
                (None, Some(why)) => Some(Err(why.clone())),
                (None, None) => None,
            })
            .unwrap_or_else(|| Err("the wait ended".to_owned()))?;
        self.set_local(LocalState::Joining);
        let seqno = view.seqno.0;
        let shown = self.server_view(&view, ViewStatus::Primary, seqno);
        self.callbacks.connected(&shown).map_err(|error| error.to_string())?;
        let position = self.known_position(&view)?;
        match position {
            Some(position) => self.catch_up(ctx, &view, position)?,
            None => self.take_copy(&view)?,
        }
        node.set_applied(Seqno(self.sequencer.released()));
        self.set_local(LocalState::Joined);
        // Everything known to be committed now; what comes later is ordinary work.
        let target = seqno.max(node.commit_seqno().0);
        self.sequencer.add_task(target, Task::Synced);
        node.deliver_after(Seqno(self.sequencer.released())).map_err(|error| error.to_string())
    }

    /// Where the database is, if what follows can be had from the log.
    fn known_position(&self, view: &GroupView) -> Result<Option<i64>, String> {
        let node = self.node().ok_or("no node is running")?;
        let database = node.database();
        if database.group != node.status().group || database.seqno < Seqno(0) {
            return Ok(None);
        }
        let (position, seqno) = (database.seqno.0, view.seqno.0);
        if position >= seqno {
            return Err(format!(
                "the database is at {position}, but the group's history has only reached {seqno}: the \
                 database has taken part in another history under the same name. To join, stop the \
                 server, delete its data and start it again"
            ));
        }
        if !node.can_deliver_after(database.seqno) {
            self.log(
                LogLevel::Info,
                format!(
                    "the database is at {position}, the group's log begins later: a full copy is needed"
                ),
            );
            return Ok(None);
        }
        Ok(Some(position))
    }

    /// Applies what is missing from the log. The server first sees a view at its own position, which
    /// starts its engines.
    fn catch_up(&self, ctx: RecvContext, view: &GroupView, position: i64) -> Result<(), String> {
        let missing = view.seqno.0 - position - 1;
        self.log(
            LogLevel::Info,
            format!("the database is at {position}; {missing} actions are missing, from the log"),
        );
        self.sequencer.reset(position);
        if missing > 0 {
            let synthetic = self.server_view(view, ViewStatus::Primary, position);
            self.callbacks.view(ctx, &synthetic).map_err(|error| error.to_string())?;
            self.update(|state| state.shown_primary = true);
        }
        Ok(())
    }

    /// Gets a full copy by the server's own scripts.
    fn take_copy(&self, view: &GroupView) -> Result<(), String> {
        let request = self.callbacks.sst_request().map_err(|error| error.to_string())?;
        let Some(request) = request else {
            return Err("a full copy is needed, which a running server cannot take: restart it \
                        (without wsrep_start_position, so that it asks for a copy at start)"
                .to_owned());
        };
        if is_without_copy(&request) {
            self.sequencer.reset(view.seqno.0);
            return Ok(());
        }
        self.log(LogLevel::Info, "asking for a full copy");
        self.set_local(LocalState::ReceivingStateTransfer);
        let received = self.wait_for_copy(view, &request)?;
        if received < view.seqno.0 {
            self.log(
                LogLevel::Info,
                format!("the copy is at {received}, before the view at {}", view.seqno),
            );
        }
        self.sequencer.reset(received);
        if received >= view.seqno.0 {
            // The copy contains the view: the server will not be shown it again.
            self.update(|state| {
                state.view = Some(view.clone());
                state.shown_primary = true;
                state.in_order = true;
            });
        }
        Ok(())
    }

    fn wait_for_copy(&self, view: &GroupView, request: &[u8]) -> Result<i64, String> {
        let node = self.node().ok_or("no node is running")?;
        let (preferred, any) = self.donors.clone();
        let request = bytes::Bytes::copy_from_slice(request);
        let ask = || node.request_state(view.seqno, preferred.clone(), any, request.clone());
        let mut id = ask();
        let mut asked = Instant::now();
        let mut accepted = false;
        let mut told = String::new();
        loop {
            let deadline = (!accepted).then(|| asked + DONOR_RETRY);
            let event = self.wait_for(deadline, |state| {
                if let Some(received) = state.received.take() {
                    return Some(CopyEvent::Received(received));
                }
                if let Some(why) = &state.failure {
                    return Some(CopyEvent::Stopped(why.clone()));
                }
                state.news.pop_front().map(|(of, news)| CopyEvent::News(of, news))
            });
            match event {
                Some(CopyEvent::Received(received)) if received.code == 0 => {
                    return Ok(received.gtid.seqno);
                }
                Some(CopyEvent::Received(received)) => {
                    return Err(format!(
                        "the copy failed here with code {}: see the lines of WSREP_SST above",
                        received.code
                    ));
                }
                Some(CopyEvent::Stopped(why)) => return Err(why),
                Some(CopyEvent::News(of, news)) if of == id => match news {
                    TransferNews::Accepted { .. } => accepted = true,
                    TransferNews::NoDonor { text } => {
                        if told != text {
                            self.log(LogLevel::Info, format!("waiting for a donor: {text}"));
                            told = text;
                        }
                    }
                    TransferNews::Done { .. } => {}
                    TransferNews::Failed { code, text } => {
                        return Err(format!("the donor failed with code {code}: {text}"));
                    }
                },
                // An answer to an earlier request.
                Some(CopyEvent::News(..)) => {}
                None => {
                    id = ask();
                    asked = Instant::now();
                }
            }
        }
    }
}

enum CopyEvent {
    Received(crate::connection::Received),
    Stopped(String),
    News(u64, TransferNews),
}

/// `wsrep_sst_method=skip` and the like: the server says that it needs nothing.
fn is_without_copy(request: &[u8]) -> bool {
    let method = request.split(|byte| *byte == 0).next().unwrap_or_default();
    method == b"trivial" || method == b"none"
}
