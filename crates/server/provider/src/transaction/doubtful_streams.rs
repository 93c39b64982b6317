//! Streamed transactions whose commit was given up here before anybody knew whether it is ordered:
//! this server was stopped, or lost its node, while it waited for a majority.
//!
//! They are on record (`position/recorded.rs`), and the log tells at the next start: every action
//! that the database has is before such a commit. If a view with the next session of this member
//! comes first, there is no commit. If the commit comes, and the server was stopped in order, it
//! has kept the fragments in its table and commits them (seen on 10.11.19). Otherwise nothing says
//! so, and the data are not trusted.

use synod_node::{Origin, Remedy};

use crate::api::{LogLevel, WsFlags};
use crate::apply::applier::Stop;
use crate::connection::Connection;
use crate::connection::disconnect::Data;

impl Connection {
    /// A streamed transaction is given up here, and it is not known now whether its commit is
    /// ordered.
    pub(crate) fn doubt_stream_commit(&self, trx: u64) {
        let Some(identity) = self.node().map(|node| node.identity()) else {
            return;
        };
        let position = &self.shared.position;
        if !position.stream_is_doubtful(self.group(), identity, trx) {
            return self.leave_as_inconsistent(&format!(
                "the streamed transaction {trx} was rolled back here, while the group may have \
                 committed it, and so were many others before"
            ));
        }
        let why = format!(
            "the streamed transaction {trx} was rolled back here before it was known whether the \
             group has it: the log will tell"
        );
        if self.is_leaving_by_request() {
            self.log(LogLevel::Info, why);
        } else {
            self.leave(&why, Data::Good, Remedy::Restart);
        }
    }

    /// The server was shown a view with this session: nothing of an earlier session of this member
    /// comes after it.
    pub(crate) fn forget_doubtful_streams(&self) {
        if let Some((_, session)) = self.node().map(|node| node.identity()) {
            self.shared.position.no_stream_is_doubtful_before(session);
        }
    }

    /// Refuses an action that commits a doubtful stream which this server may have lost.
    pub(crate) fn check_doubtful(
        &self,
        seqno: i64,
        origin: &Origin,
        flags: WsFlags,
        trx: u64,
    ) -> Result<(), Stop> {
        let is_commit = flags.contains(WsFlags::TRX_END) && !flags.contains(WsFlags::TRX_START);
        let is_own = self
            .node()
            .is_some_and(|node| node.identity().0 == origin.member);
        let position = &self.shared.position;
        if !is_commit || !is_own || position.was_stopped_in_order() {
            return Ok(());
        }
        let is_lost = position.record().doubtful.is_some_and(|streams| {
            streams.session == origin.session && streams.transactions.contains(&trx)
        });
        match is_lost {
            true => Err(Stop::Broken(format!(
                "action {seqno} commits the streamed transaction {trx}, which was rolled back here \
                 before it was known whether the group had it"
            ))),
            false => Ok(()),
        }
    }
}
