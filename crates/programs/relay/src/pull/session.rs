//! One connection to the upstream: from what it sends to entries of the log, while that has room.
//!
//! A registered reader that is away holds the log until that is at its disk bound. Then the pull
//! stops, before the log is full: a full log takes nothing, and so not the order either that gives
//! the reader's place up, nor the note that the reader has caught up. With the policy to drop what
//! is held there is no need for that: a full log is purged.

use synod_binlog::{Gtid, MysqlGtid, MysqlGtidSet};
use synod_node::{CommittedLog, FullLogPolicy, Node};
use synod_upstream::{Incoming, Part, Stopped, Upstream, UpstreamError};

use crate::pull::submissions::Submissions;
use crate::upstream_log::entry::{EntryError, Head, Orders, PartHead};
use crate::upstream_log::history::GtidState;
use crate::upstream_log::tail::{End, Tail};

#[derive(Debug, thiserror::Error)]
pub(crate) enum PullError {
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    #[error(
        "the upstream has sent transaction {gtid} after '{state}': the numbers of a domain must \
         rise, or no relay could tell what a reader has. Set gtid_strict_mode = ON on the \
         upstream, and give each server that writes at the same time a gtid_domain_id of its own"
    )]
    OutOfOrder { gtid: Gtid, state: GtidState },
    #[error(
        "the upstream has sent transaction {0}, which is in the log already. It must have been \
         executed twice there (RESET MASTER, or a gtid_next that was used before): pull from \
         another server, or begin a new group from a new copy"
    )]
    Twice(MysqlGtid),
    #[error(
        "transaction {gtid} would be number {number} of MySQL's set of executed ones. This is a \
         fault in Synod: report this line"
    )]
    Number { gtid: Gtid, number: u64 },
    #[error(
        "the upstream is {found}, and what this group's log has is of {kept}. Pull from a server \
         of the same kind, or begin a new group from a new copy"
    )]
    OtherKind {
        found: &'static str,
        kept: &'static str,
    },
    #[error(
        "the parts of transaction {0} have come out of order. This is a fault in Synod: the relay \
         tries again by itself; report this line"
    )]
    Parts(Gtid),
    #[error(transparent)]
    Entry(#[from] EntryError),
    #[error(
        "the log has reached its bound, and registered reader {server_id} needs what is in it, as \
         far as was noted: that is done every ten seconds. If this lasts: start that reader, or \
         give its place up (synod relay readers remove {server_id}), or raise \
         synod.log_retain_size on all relays"
    )]
    Held {
        /// The reader that holds the most.
        server_id: u32,
    },
}

impl PullError {
    /// The transaction that cannot be followed, and can be left out.
    pub(crate) fn stopped(&self) -> Option<Stopped> {
        match self {
            PullError::Upstream(UpstreamError::NotFollowed { why, .. }) => why.stopped(),
            _ => None,
        }
    }

    pub(crate) fn may_pass(&self) -> bool {
        match self {
            PullError::Upstream(error) => error.may_pass(),
            PullError::Held { .. } => true,
            _ => false,
        }
    }

    /// Whether another relay may be without it. All have the same log, and what is kept for
    /// registered readers is kept by each.
    pub(crate) fn may_be_of_one_relay(&self) -> bool {
        !matches!(self, PullError::Held { .. })
    }
}

pub(crate) struct Session<'a> {
    submissions: Submissions<'a>,
    pull: u64,
    orders: Orders,
    tail: &'a Tail,
    room: Room,
    /// Upstream's position after the last whole transaction.
    state: GtidState,
    /// The same by MySQL's GTIDs.
    mysql: Option<MysqlGtidSet>,
    /// The transaction whose last part has not come, and the number of its next part.
    open: Option<(Gtid, u32)>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        submissions: Submissions<'a>,
        pull: u64,
        orders: Orders,
        tail: &'a Tail,
        room: Room,
        state: GtidState,
        mysql: Option<MysqlGtidSet>,
    ) -> Session<'a> {
        Session {
            submissions,
            pull,
            orders,
            tail,
            room,
            state,
            mysql,
            open: None,
        }
    }

    /// Takes what the upstream sends, until the connection ends or a part does not get into the
    /// log. `heard` is called with whatever has come.
    pub(crate) fn run(
        mut self,
        upstream: &mut Upstream,
        mut heard: impl FnMut(&Incoming),
    ) -> Result<(), PullError> {
        let mut has_begun = false;
        loop {
            let incoming = upstream.next()?;
            heard(&incoming);
            // When the upstream has shown that it can be followed from there.
            if !std::mem::replace(&mut has_begun, true) && !self.begin()? {
                return Ok(());
            }
            match incoming {
                Incoming::Part(part) => {
                    if !self.take(part)? {
                        return Ok(());
                    }
                }
                Incoming::Heartbeat if self.submissions.are_settled() => self.tail.is_level(),
                Incoming::Heartbeat => {}
                Incoming::Rotated { .. } => self.open = None,
            }
        }
    }

    /// Notes where the upstream is, which begins the pull; false if that has not got into the log.
    fn begin(&self) -> Result<bool, PullError> {
        let head = self.head(None);
        Ok(self.submissions.first(head.encode(&[])?))
    }

    fn head(&self, part: Option<PartHead>) -> Head {
        Head {
            before: self.state.clone(),
            orders: self.orders.clone(),
            known: self.tail.known(),
            mysql: self.mysql.clone(),
            part,
        }
    }

    /// Submits a part; false once one has not got into the log.
    fn take(&mut self, part: Part) -> Result<bool, PullError> {
        self.room.check(self.tail)?;
        let number = match self.open {
            _ if part.first => 0,
            Some((gtid, number)) if gtid == part.gtid => number,
            Some(_) | None => return Err(PullError::Parts(part.gtid)),
        };
        if self.state.has(part.gtid) {
            let (gtid, state) = (part.gtid, self.state.clone());
            return Err(PullError::OutOfOrder { gtid, state });
        }
        if let (Some(set), Some(gtid)) = (&self.mysql, part.mysql) {
            check_number(set, gtid, part.gtid)?;
        }
        let head = self.head(Some(PartHead {
            pull: self.pull,
            number,
            is_last: part.last,
            gtid: part.gtid,
            mysql: part.mysql,
            end: part.end.clone(),
        }));
        let data = head.encode(&part.events)?;
        self.open = (!part.last).then(|| (part.gtid, number.wrapping_add(1)));
        if part.last {
            self.state.add(part.gtid);
            if let (Some(set), Some(gtid)) = (&mut self.mysql, part.mysql) {
                set.add(gtid);
            }
        }
        let end = part.last.then_some(part.end);
        let bytes_max = self.room.on_their_way_max(self.tail);
        Ok(self.submissions.part(data, end, bytes_max))
    }
}

/// Checks that a transaction is not in MySQL's set, and has the number that comes next.
fn check_number(set: &MysqlGtidSet, of_mysql: MysqlGtid, gtid: Gtid) -> Result<(), PullError> {
    if set.contains(of_mysql) {
        return Err(PullError::Twice(of_mysql));
    }
    let number = set.size().saturating_add(1);
    match gtid.sequence == number {
        true => Ok(()),
        false => Err(PullError::Number { gtid, number }),
    }
}

/// Checks that an upstream is of the kind that the log is of, if it is of any.
pub(crate) fn check_kind(end: &End, upstream: &Upstream) -> Result<(), PullError> {
    if end.state.is_none() || end.mysql.is_some() == upstream.mysql_start().is_some() {
        return Ok(());
    }
    let name = |is_mysql| if is_mysql { "MySQL" } else { "MariaDB" };
    Err(PullError::OtherKind {
        found: name(upstream.mysql_start().is_some()),
        kept: name(end.mysql.is_some()),
    })
}

/// Whether this node may have what an upstream sends: no member of its group has a database.
pub(crate) fn is_in_relay_group(node: &Node) -> bool {
    node.status().members.iter().all(|member| !member.has_data)
}

#[derive(Clone)]
pub(crate) struct Room {
    pub(crate) log: CommittedLog,
    pub(crate) policy: FullLogPolicy,
    /// Size of the log's files, in bytes.
    pub(crate) segment_bytes: u64,
}

impl Room {
    /// Bytes of parts on their way at a time, at most; but one part always may be. When the pull
    /// stops for a registered reader, they get into the log, which must not be full then. It is
    /// full when it has two segments more than at its bound: one is prepared when the bound is
    /// passed, and half of one makes no more than another one.
    fn on_their_way_max(&self, tail: &Tail) -> usize {
        match self.policy {
            FullLogPolicy::Wait if tail.has_registered_readers() => {
                usize::try_from(self.segment_bytes / 2).unwrap_or(usize::MAX)
            }
            FullLogPolicy::Wait | FullLogPolicy::Drop => usize::MAX,
        }
    }

    pub(crate) fn check(&self, tail: &Tail) -> Result<(), PullError> {
        let waits = match self.policy {
            FullLogPolicy::Wait => self.log.is_tight(),
            FullLogPolicy::Drop => false,
        };
        if !waits {
            return Ok(());
        }
        let before_log = self.log.first_seqno().prev();
        match tail.known().registry.slowest(before_log) {
            Some((server_id, _)) => Err(PullError::Held { server_id }),
            None => Ok(()),
        }
    }
}
