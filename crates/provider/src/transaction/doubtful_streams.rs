//! Streamed transactions whose commit was given up here before anybody knew whether it is ordered:
//! this server was stopped, or lost its node, while it waited for a majority.
//!
//! The transaction was rolled back here, with what the server stored of it. It is on record
//! (`position/recorded.rs`), and the log tells at the next start: every action that the database has
//! is before its commit. If a view with the next session of this member comes first, there is no
//! commit. If the commit comes, the fragments before it are in the log, too, and all of them are
//! applied as one transaction in the commit's place. Servers that are still there have the same rows:
//! unless they rolled the transaction back before, by the same views that are in the log.

use bytes::{Bytes, BytesMut};
use synod_node::{
    DoubtfulStream, DoubtfulStreams, Followed, Node, Origin, Remedy, Seqno, View as GroupView,
};
use synod_write_set::WriteSet;

use crate::api::{LogLevel, WsFlags};
use crate::apply::applier::Stop;
use crate::connection::Connection;
use crate::connection::disconnect::Data;
use crate::transaction::Transaction;

impl Connection {
    /// A streamed transaction was rolled back here, and nobody can tell now whether its commit is
    /// ordered.
    pub(crate) fn doubt_stream_commit(&self, transaction: &Transaction) {
        let Some((member, session)) = self.node().map(|node| node.identity()) else {
            return;
        };
        let (trx, stream) = (transaction.trx_id, transaction.lock().stream);
        let at = self.sequencer.left();
        let first = stream.and_then(|stream| stream.first).unwrap_or(at);
        let view = self.state().views.latest().map_or(0, fingerprint);
        let session = DoubtfulStreams {
            member,
            session,
            at: Seqno(at),
            view,
            streams: Vec::new(),
        };
        let stream = DoubtfulStream {
            transaction: trx,
            first: Seqno(first),
        };
        let position = &self.shared.position;
        if !position.stream_is_doubtful(self.group(), session, stream) {
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

    /// What to apply for an action: itself, or, if it commits a doubtful stream, the whole
    /// transaction.
    pub(crate) fn made_whole(
        &self,
        seqno: i64,
        origin: &Origin,
        write_set: WriteSet,
    ) -> Result<WriteSet, Stop> {
        let flags = write_set.flags;
        let is_commit = flags.contains(WsFlags::TRX_END) && !flags.contains(WsFlags::TRX_START);
        let Some(node) = self.node().filter(|node| {
            is_commit && node.identity().0 == origin.member && node.identity().1 != origin.session
        }) else {
            return Ok(write_set);
        };
        let doubtful = self.shared.position.record().doubtful;
        let known = doubtful.filter(|known| known.session == origin.session);
        let Some((known, stream)) = known.and_then(|known| {
            let mut streams = known.streams.iter();
            let stream = *streams.find(|stream| stream.transaction == write_set.trx)?;
            Some((known, stream))
        }) else {
            return Ok(write_set);
        };
        let gathered = match self.shared.position.was_stopped_in_order() {
            true => gather(node, &known, stream, seqno),
            false => Err("this server was not stopped in order since".to_owned()),
        };
        match gathered {
            Ok(None) => Ok(write_set),
            Ok(Some(mut fragments)) => {
                self.log(
                    LogLevel::Info,
                    format!(
                        "action {seqno} commits a streamed transaction that was rolled back here: \
                         it is applied with all its fragments from the log"
                    ),
                );
                fragments.extend_from_slice(&write_set.data);
                Ok(WriteSet {
                    flags: flags | WsFlags::TRX_START,
                    data: fragments.freeze(),
                    ..write_set
                })
            }
            Err(why) => Err(Stop::Broken(format!(
                "action {seqno} commits the streamed transaction {}, which was rolled back here, \
                 and its fragments are not there: {why}",
                stream.transaction
            ))),
        }
    }
}

/// The data of all fragments of a stream before its commit; `None` if the group has rolled it back.
fn gather(
    node: &Node,
    known: &DoubtfulStreams,
    stream: DoubtfulStream,
    commit: i64,
) -> Result<Option<BytesMut>, String> {
    let log = node.committed_log();
    let mut entries = log
        .follow(stream.first.prev())
        .map_err(|error| error.to_string())?;
    let (mut data, mut last_view) = (BytesMut::new(), known.view);
    loop {
        match entries.advance().map_err(|error| error.to_string())? {
            // Those before were shown to the server while the stream was open.
            Some(Followed::View(view)) if view.seqno > known.at => {
                let next = fingerprint(&view);
                if next == last_view || !view.contains(known.member, known.session) {
                    return Ok(None);
                }
                last_view = next;
            }
            Some(Followed::View(_)) => {}
            Some(Followed::Action(action)) if action.seqno.0 >= commit => return Ok(Some(data)),
            Some(Followed::Action(action)) => {
                if action.origin != (known.member, known.session) {
                    continue;
                }
                let found = node.ordered_action(action.seqno);
                let found = found.ok_or("a fragment came in several pieces")?;
                match fragment(action.seqno, stream.transaction, found.data)? {
                    Fragment::Other => {}
                    Fragment::Rollback => return Ok(None),
                    Fragment::Data(_) if action.seqno > known.at => {
                        return Err("a fragment has come since".to_owned());
                    }
                    Fragment::Data(bytes) => data.extend_from_slice(&bytes),
                }
            }
            None => return Err("the log ends before it".to_owned()),
        }
    }
}

enum Fragment {
    Data(Bytes),
    Rollback,
    /// Of another transaction.
    Other,
}

fn fragment(seqno: Seqno, transaction: u64, data: Bytes) -> Result<Fragment, String> {
    let WriteSet {
        flags, trx, data, ..
    } = WriteSet::decode(seqno.0, data).map_err(|error| error.to_string())?;
    Ok(match trx == transaction {
        _ if flags.contains(WsFlags::ISOLATION) => Fragment::Other,
        true if flags.contains(WsFlags::ROLLBACK) => Fragment::Rollback,
        true => Fragment::Data(data),
        false => Fragment::Other,
    })
}

/// Tells the members of a view from those of another.
fn fingerprint(view: &GroupView) -> u64 {
    let members = view.members.iter();
    let numbers = members.map(|m| m.session.0 ^ m.member.0.rotate_left(17));
    numbers.fold(0, |all, number| all ^ number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_node::{MemberId, SessionId, ViewMember};

    fn view(members: &[(u64, u64)]) -> GroupView {
        let member = |(member, session): &(u64, u64)| ViewMember {
            member: MemberId(*member),
            session: SessionId(*session),
            name: String::new(),
            incoming: String::new(),
        };
        GroupView {
            number: 1,
            seqno: Seqno(1),
            members: members.iter().map(member).collect(),
        }
    }

    #[test]
    fn views_with_other_members_or_sessions_are_told_apart() {
        let known = fingerprint(&view(&[(1, 10), (2, 20)]));
        assert_eq!(known, fingerprint(&view(&[(2, 20), (1, 10)])));
        for other in [&[(1, 10)][..], &[(1, 10), (2, 21)], &[(1, 20), (2, 10)]] {
            assert_ne!(known, fingerprint(&view(other)), "{other:?}");
        }
    }
}
