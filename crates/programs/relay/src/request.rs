//! The request of a reader: from where, up to where, and how; and the GTIDs of a group's own
//! transactions.
//!
//! The binlogs that readers see are not files. A binlog is named for the action that it begins
//! after, and holds what follows that action; so its name alone says where a reader begins, on
//! every relay of the group.
//!
//! Domain and server of GTIDs are made from the group's id, so that relays agree without being
//! told, and the GTIDs of two groups do not meet. An operator may choose the domain. The server
//! always follows from the group: a group that is founded again is another one to its readers.

use std::str::FromStr;
use std::time::{Duration, Instant};

use synod_binlog::writer::FIRST_POSITION;
use synod_binlog::{Checksum, Gtid, GtidList};
use synod_node::{GroupId, Seqno};

use crate::protocol::packet::Refusal;
use crate::upstream_log::history::GtidState;

/// A reader that wants no heartbeats is looked after so often.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
const FILE_PREFIX: &str = "synod.";

pub(crate) fn file_name(after: Seqno) -> String {
    format!("{FILE_PREFIX}{:020}", after.0)
}

/// The action that a binlog begins after, by its name.
pub(crate) fn seqno_of(file: &str) -> Option<Seqno> {
    let digits = file.strip_prefix(FILE_PREFIX)?;
    let after = digits.parse().ok().filter(|after| *after >= 0);
    after.map(Seqno)
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Its `server_id`; zero: it has none.
    pub(crate) server_id: u32,
    /// The GTIDs that it has; none: it names a binlog.
    pub(crate) gtids: Option<String>,
    /// The GTIDs after which the dump is to end (`START SLAVE UNTIL master_gtid_pos`); none: no end
    /// is wanted.
    pub(crate) until: Option<String>,
    pub(crate) file: String,
    pub(crate) position: u32,
    /// The dump ends where the log does.
    pub(crate) ends: bool,
    pub(crate) checksum: Checksum,
    pub(crate) heartbeat: Duration,
    pub(crate) annotates: bool,
    /// The reader acknowledges events (semi-synchronous replication).
    pub(crate) acknowledges: bool,
}

impl Request {
    /// The GTIDs that the reader has; none: it names a binlog.
    pub(crate) fn gtids(&self) -> Result<Option<GtidList>, Refusal> {
        parsed(self.gtids.as_deref())
    }

    /// The action after which the reader begins, in a group with GTIDs of its own.
    pub(crate) fn after(&self, identity: Identity) -> Result<Seqno, Refusal> {
        match self.gtids()? {
            Some(list) => after_gtids(&list, identity),
            None => self.after_file(),
        }
    }

    /// The newest GTID of each domain that the reader wants from an upstream; none: all.
    pub(crate) fn until_state(&self) -> Result<Option<GtidState>, Refusal> {
        Ok(parsed(self.until.as_deref())?.map(|list| GtidState::of(&list)))
    }

    /// The last action that the reader wants, in a group with GTIDs of its own; none: it does not
    /// end. An error if it is of another group: the dump would never come there.
    pub(crate) fn until_action(&self, identity: Identity) -> Result<Option<Seqno>, Refusal> {
        let Some(list) = parsed(self.until.as_deref())? else {
            return Ok(None);
        };
        let foreign = list.0.iter().find(|gtid| !identity.is_of(**gtid));
        if let Some(foreign) = foreign {
            return Err(Refusal::dump(format!(
                "The reader is to stop at {foreign}, which is no GTID of this group: they are \
                 {}-{}-N",
                identity.domain, identity.server_id
            )));
        }
        let last = list.0.first().map_or(0, |gtid| gtid.sequence);
        Ok(Some(Seqno(i64::try_from(last).unwrap_or(i64::MAX))))
    }

    /// Time at which the reader is due a heartbeat, or a check.
    pub(crate) fn quiet_until(&self) -> Instant {
        let limit = if self.heartbeat.is_zero() {
            LONGEST_WAIT
        } else {
            self.heartbeat.min(LONGEST_WAIT)
        };
        Instant::now() + limit
    }

    pub(crate) fn after_file(&self) -> Result<Seqno, Refusal> {
        let Some(after) = seqno_of(&self.file) else {
            let example = file_name(Seqno(0));
            return Err(Refusal::dump(format!(
                "There is no binlog '{}' on this relay. Ask by GTID (MASTER_USE_GTID = slave_pos), \
                 or for the binlog after an action, such as {example}; SHOW BINARY LOGS names the \
                 first one",
                self.file
            )));
        };
        if self.position > FIRST_POSITION {
            return Err(Refusal::dump(format!(
                "This relay serves a binlog from its beginning only (position {FIRST_POSITION}), \
                 not from position {}. Ask by GTID: MASTER_USE_GTID = slave_pos",
                self.position
            )));
        }
        Ok(after)
    }
}

fn parsed(list: Option<&str>) -> Result<Option<GtidList>, Refusal> {
    let list = list.map(GtidList::from_str).transpose();
    list.map_err(|error| Refusal::dump(error.to_string()))
}

fn after_gtids(list: &GtidList, identity: Identity) -> Result<Seqno, Refusal> {
    let Some(gtid) = list.of_domain(identity.domain) else {
        if list.0.is_empty() {
            return Ok(Seqno(0));
        }
        return Err(Refusal::dump(format!(
            "The reader is at '{list}', which has no GTID of this group: its domain is {}. Set \
             gtid_slave_pos to {}-{}-N, where N is the seqno of the copy that the reader's data \
             come from",
            identity.domain, identity.domain, identity.server_id
        )));
    };
    if !identity.is_of(gtid) {
        return Err(Refusal::dump(format!(
            "The reader is at {gtid}, which is no transaction of this group: the server_id of its \
             GTIDs is {}. The reader's data are of another server, or of another group. Copy a \
             server of the group again and set gtid_slave_pos to {}-{}-N, where N is the seqno of \
             the copy",
            identity.server_id, identity.domain, identity.server_id
        )));
    }
    let sequence = i64::try_from(gtid.sequence);
    sequence.map(Seqno).map_err(|_| {
        Refusal::dump(format!(
            "The reader is at {gtid}, which no group has reached"
        ))
    })
}

/// Domain and server of all GTIDs of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The domain that the group's seqnos count in.
    pub(crate) domain: u32,
    /// The server that readers take the group for. Not zero.
    pub(crate) server_id: u32,
}

impl Identity {
    pub(crate) fn of(group: GroupId, domain: Option<u32>) -> Identity {
        let [a, b, c, d, e, f, g, h, ..] = group.0;
        Identity {
            domain: domain.unwrap_or(u32::from_le_bytes([a, b, c, d])),
            server_id: u32::from_le_bytes([e, f, g, h]).max(1),
        }
    }

    /// Whether a GTID is one of this group, or may be.
    fn is_of(self, gtid: Gtid) -> bool {
        let of_group = Gtid {
            domain: self.domain,
            server_id: self.server_id,
            ..gtid
        };
        gtid.may_be(of_group)
    }

    pub(crate) fn gtid(self, seqno: Seqno) -> Gtid {
        Gtid {
            domain: self.domain,
            server_id: self.server_id,
            // Actions have positive numbers.
            sequence: seqno.0.unsigned_abs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity = Identity {
        domain: 3,
        server_id: 7,
    };

    fn request(gtids: Option<&str>, file: &str, position: u32) -> Request {
        Request {
            server_id: 5,
            gtids: gtids.map(str::to_owned),
            until: None,
            file: file.to_owned(),
            position,
            ends: false,
            checksum: Checksum::None,
            heartbeat: Duration::ZERO,
            annotates: false,
            acknowledges: false,
        }
    }

    #[track_caller]
    fn refused(request: &Request, part: &str) {
        let refusal = request.after(IDENTITY).unwrap_err();
        assert!(
            refusal.code == 1236 && refusal.text.contains(part),
            "{}",
            refusal.text
        );
    }

    #[test]
    fn reader_begins_after_its_gtid_of_the_group() {
        let after = |text| request(Some(text), "", 4).after(IDENTITY);
        assert_eq!(after("3-7-15"), Ok(Seqno(15)));
        assert_eq!(after("0-1-99,3-7-15"), Ok(Seqno(15)));
        assert_eq!(after(""), Ok(Seqno(0)));
        refused(&request(Some("4-7-15"), "", 4), "its domain is 3");
        refused(
            &request(Some("3-8-15"), "", 4),
            "no transaction of this group",
        );
        refused(&request(Some("nonsense"), "", 4), "domain-server-sequence");
        refused(
            &request(Some("3-7-18446744073709551615"), "", 4),
            "no group has reached",
        );
    }

    #[test]
    fn reader_begins_after_the_action_that_a_binlog_is_named_for() {
        let name = file_name(Seqno(4711));
        assert_eq!(name, "synod.00000000000000004711");
        assert_eq!(request(None, &name, 4).after(IDENTITY), Ok(Seqno(4711)));
        assert_eq!(request(None, "synod.0", 0).after(IDENTITY), Ok(Seqno(0)));
        refused(&request(None, &name, 500), "MASTER_USE_GTID");
        for file in ["", "mysql-bin.000001", "synod.", "synod.-1"] {
            refused(&request(None, file, 4), "SHOW BINARY LOGS");
        }
    }

    #[test]
    fn dump_ends_after_an_action_of_this_group_only() {
        let until = |text: Option<&str>| {
            let until = text.map(str::to_owned);
            let request = Request {
                until,
                ..request(Some("3-7-15"), "", 4)
            };
            request.until_action(IDENTITY).map_err(|told| told.text)
        };
        assert_eq!(until(None), Ok(None));
        assert_eq!(until(Some("3-7-20")), Ok(Some(Seqno(20))));
        assert_eq!(until(Some("")), Ok(Some(Seqno(0))), "nothing is wanted");
        for foreign in ["3-8-20", "0-1-5", "3-7-20,0-1-5"] {
            let told = until(Some(foreign)).unwrap_err();
            assert!(told.contains("no GTID of this group"), "{told}");
        }
        assert!(until(Some("nonsense")).is_err());
    }

    #[test]
    fn groups_have_gtids_of_their_own_unless_told() {
        let one = Identity::of(GroupId([1; 16]), None);
        let other = Identity::of(GroupId([2; 16]), None);
        assert_ne!(one.domain, other.domain);
        assert_eq!(one, Identity::of(GroupId([1; 16]), None));
        assert_eq!(Identity::of(GroupId::NONE, None).server_id, 1);
        let told = Identity::of(GroupId([1; 16]), Some(7));
        assert_eq!(told.gtid(Seqno(4)).to_string(), "7-16843009-4");
        let again = Identity::of(GroupId([2; 16]), Some(7));
        assert_ne!(again.gtid(Seqno(4)), told.gtid(Seqno(4)));
    }
}
