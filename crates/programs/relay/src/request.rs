//! The request of a reader: from where, up to where, and how.
//!
//! The binlogs that readers see are not files. A binlog is named for the action that it begins
//! after, and holds what follows that action; so its name alone says where a reader begins, on
//! every relay of the group.

use std::str::FromStr;
use std::time::{Duration, Instant};

use synod_binlog::writer::FIRST_POSITION;
use synod_binlog::{Checksum, GtidList};
use synod_node::Seqno;

use crate::identity::Identity;
use crate::protocol::answer::Refusal;
use crate::upstream_log::state::GtidState;

/// A reader that wants no heartbeats is looked after so often.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Prefix of binlog names.
const FILE_PREFIX: &str = "synod.";

/// Name of the binlog that begins after an action.
pub(crate) fn file_name(after: Seqno) -> String {
    format!("{FILE_PREFIX}{:020}", after.0)
}

/// Request for a dump.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Its `server_id`; zero: it has none.
    pub(crate) server_id: u32,
    /// The GTIDs that it has; none: it names a binlog.
    pub(crate) gtids: Option<String>,
    /// The GTIDs after which the dump is to end (`START SLAVE UNTIL master_gtid_pos`); none: no end
    /// is wanted.
    pub(crate) until: Option<String>,
    /// Name of the binlog.
    pub(crate) file: String,
    pub(crate) position: u32,
    /// The dump ends where the log does.
    pub(crate) ends: bool,
    /// Checksum to append to events.
    pub(crate) checksum: Checksum,
    /// Interval of heartbeats; zero: none.
    pub(crate) heartbeat: Duration,
    /// Sends the texts of statements before their rows.
    pub(crate) annotates: bool,
    /// The reader acknowledges events (semi-synchronous replication).
    pub(crate) acknowledges: bool,
}

impl Request {
    /// The GTIDs that the reader has; none: it names a binlog.
    ///
    /// # Errors
    /// What it names is no list of GTIDs.
    pub(crate) fn gtids(&self) -> Result<Option<GtidList>, Refusal> {
        let list = self.gtids.as_deref().map(GtidList::from_str).transpose();
        list.map_err(|error| Refusal::dump(error.to_string()))
    }

    /// The action after which the reader begins, in a group with GTIDs of its own.
    ///
    /// # Errors
    /// What it names is of another group, or no place.
    pub(crate) fn after(&self, identity: Identity) -> Result<Seqno, Refusal> {
        match self.gtids()? {
            Some(list) => after_gtids(&list, identity),
            None => self.after_file(),
        }
    }

    /// The GTIDs after which the dump is to end; none: it does not end.
    ///
    /// # Errors
    /// What it names is no list of GTIDs.
    fn until_gtids(&self) -> Result<Option<GtidList>, Refusal> {
        let list = self.until.as_deref().map(GtidList::from_str).transpose();
        list.map_err(|error| Refusal::dump(error.to_string()))
    }

    /// The newest GTID of each domain that the reader wants from an upstream; none: all.
    ///
    /// # Errors
    /// What it names is no list of GTIDs.
    pub(crate) fn until_state(&self) -> Result<Option<GtidState>, Refusal> {
        Ok(self.until_gtids()?.map(|list| GtidState::of(&list)))
    }

    /// The last action that the reader wants, in a group with GTIDs of its own; none: it does not
    /// end.
    ///
    /// # Errors
    /// What it names is of another group: the dump would never come there.
    pub(crate) fn until_action(&self, identity: Identity) -> Result<Option<Seqno>, Refusal> {
        let Some(list) = self.until_gtids()? else {
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
        let digits = self.file.strip_prefix(FILE_PREFIX);
        let after = digits.and_then(|digits| digits.parse::<i64>().ok());
        let Some(after) = after.filter(|after| *after >= 0) else {
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
        Ok(Seqno(after))
    }
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
}
