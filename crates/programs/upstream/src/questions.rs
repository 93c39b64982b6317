//! Session setup of a replica, before its dump: with MariaDB, and with MySQL 8.

use std::time::Duration;

use synod_binlog::{Checksum, GtidList, MysqlGtid, MysqlGtidSet};

use crate::config::UpstreamConfig;
use crate::error::UpstreamError;
use crate::messages::{dump_command, dump_gtid_command, register_command};
use crate::position::{FilePosition, Held, MysqlPosition, Position};
use crate::session::{ANSWER_LIMIT, Session};
use crate::stream::mysql::Translator;

/// Replica capability: GTIDs of MariaDB, and everything before them.
const CAPABILITY: u8 = 4;
/// For the question which GTIDs come before a place in a file: the upstream reads the file up to
/// there, and the largest one has 1 GiB.
const PLACE_LIMIT: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) struct Prepared {
    /// The transactions before the first one that comes.
    pub(crate) start: GtidList,
    pub(crate) checksum: Checksum,
    /// End of the last transaction before the start, if the upstream confirms it.
    pub(crate) held: Option<FilePosition>,
    /// The transactions of MySQL before the first one that comes, if the upstream is MySQL.
    pub(crate) mysql_start: Option<MysqlGtidSet>,
    pub(crate) translator: Option<Translator>,
    pub(crate) explicit_defaults: bool,
    pub(crate) dump: Vec<u8>,
}

impl Prepared {
    /// Start of the dump, for errors.
    pub(crate) fn begins(&self) -> String {
        match &self.mysql_start {
            Some(has) => format!("the set of MySQL's GTIDs '{has}'"),
            None => format!("GTID '{}'", self.start),
        }
    }
}

impl Session {
    pub(crate) fn prepare(
        &mut self,
        config: &UpstreamConfig,
        position: &Position,
        held: Option<&Held>,
    ) -> Result<Prepared, UpstreamError> {
        self.check(config.server_id)?;
        let start = self.start(position)?;
        let held = match held.filter(|_| config.semi_sync) {
            Some(Held::Place(place)) if self.is_after(place, &start)? => Some(place.clone()),
            Some(_) | None => None,
        };
        // Events end with what they end with in the binlog.
        self.ask("SET @master_binlog_checksum=@@global.binlog_checksum")?;
        let checksum = self.chosen_checksum()?;
        let explicit_defaults = self.other_than("explicit_defaults_for_timestamp", "OFF")?;
        // It would say nothing about a quiet binlog otherwise.
        let period = config.heartbeat.as_nanos();
        self.ask(&format!("SET @master_heartbeat_period={period}"))?;
        self.ask(&format!("SET @mariadb_slave_capability={CAPABILITY}"))?;
        self.ask(&format!("SET @slave_connect_state='{start}'"))?;
        // A GTID that the upstream does not have is an error, and not the beginning of its binlog.
        self.ask("SET @slave_gtid_strict_mode=1")?;
        self.ask("SET @slave_gtid_ignore_duplicates=0")?;
        if config.semi_sync {
            self.ask("SET @rpl_semi_sync_slave=1")?;
        }
        let registration = register_command(config.server_id);
        self.order("the registration as a replica", &registration)?;
        Ok(Prepared {
            start,
            checksum,
            held,
            mysql_start: None,
            translator: None,
            explicit_defaults: explicit_defaults.is_some(),
            dump: dump_command(config.server_id),
        })
    }

    /// Checks what every reader of rows needs.
    fn check(&mut self, own: u32) -> Result<(), UpstreamError> {
        let is_on = |value: &str| value.eq_ignore_ascii_case("ON") || value == "1";
        if !self.variable("log_bin")?.is_some_and(|value| is_on(&value)) {
            return Err(UpstreamError::NoBinlog);
        }
        if self.variable("server_id")? == Some(own.to_string()) {
            return Err(UpstreamError::OwnServerId { server_id: own });
        }
        // An upstream without these variables has nothing else.
        if let Some(found) = self.other_than("binlog_format", "ROW")? {
            return Err(UpstreamError::Format { found });
        }
        if let Some(found) = self.other_than("binlog_row_image", "FULL")? {
            return Err(UpstreamError::RowImage { found });
        }
        Ok(())
    }

    /// The value of a variable if it is another one than this.
    fn other_than(&mut self, name: &str, wanted: &str) -> Result<Option<String>, UpstreamError> {
        let value = self.variable(name)?;
        Ok(value.filter(|value| !value.eq_ignore_ascii_case(wanted)))
    }

    /// A variable of the upstream; none if it does not have it.
    fn variable(&mut self, name: &str) -> Result<Option<String>, UpstreamError> {
        let rows = self.ask(&format!("SHOW GLOBAL VARIABLES LIKE '{name}'"))?;
        let row = rows.into_iter().find(|row| {
            let found = row.first().and_then(Option::as_deref);
            found.is_some_and(|found| found.eq_ignore_ascii_case(name))
        });
        Ok(row.and_then(|row| row.into_iter().nth(1).flatten()))
    }

    fn start(&mut self, position: &Position) -> Result<GtidList, UpstreamError> {
        let text = match position {
            Position::Gtids(list) => return Ok(list.clone()),
            Position::Mysql(_) => {
                return Err(UpstreamError::OtherKind {
                    found: "MariaDB",
                    position: position.to_string(),
                });
            }
            Position::Now => self.value("SELECT @@GLOBAL.gtid_binlog_pos")?,
            Position::File(place) => self.gtids_at_start(place)?,
        };
        let text = text.unwrap_or_default();
        text.parse()
            .map_err(|error| UpstreamError::Protocol(format!("its position '{text}': {error}")))
    }

    /// Whether a place is just after these transactions in this upstream's binlog. It may be of
    /// another server, which had the same address.
    fn is_after(&mut self, place: &FilePosition, gtids: &GtidList) -> Result<bool, UpstreamError> {
        let text = match self.gtids_before(place) {
            Ok(text) => text.unwrap_or_default(),
            Err(UpstreamError::NoSuchPlace(_) | UpstreamError::Step { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let sorted = |list: &GtidList| {
            let mut list = list.0.clone();
            list.sort_unstable_by_key(|gtid| gtid.domain);
            list
        };
        let found = text.parse::<GtidList>();
        Ok(found.is_ok_and(|found| !found.0.is_empty() && sorted(&found) == sorted(gtids)))
    }

    /// [`Session::gtids_before`], with time to read a large file from a cold disk.
    fn gtids_at_start(&mut self, place: &FilePosition) -> Result<Option<String>, UpstreamError> {
        self.link
            .set_limit(PLACE_LIMIT)
            .map_err(UpstreamError::Lost)?;
        let found = self.gtids_before(place);
        self.link
            .set_limit(ANSWER_LIMIT)
            .map_err(UpstreamError::Lost)?;
        found.map_err(|error| match error {
            UpstreamError::Silent(_) => UpstreamError::SlowPlace {
                place: place.clone(),
                limit: PLACE_LIMIT,
            },
            other => other,
        })
    }

    fn gtids_before(&mut self, place: &FilePosition) -> Result<Option<String>, UpstreamError> {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"'\\".contains(&byte);
        if !place.file.bytes().all(is_plain) {
            return Err(UpstreamError::NoSuchPlace(place.clone()));
        }
        let (file, offset) = (&place.file, place.offset);
        let found = self.value(&format!("SELECT BINLOG_GTID_POS('{file}', {offset})"))?;
        if found.is_none() {
            return Err(UpstreamError::NoSuchPlace(place.clone()));
        }
        Ok(found)
    }

    /// The checksum that was set before.
    fn chosen_checksum(&mut self) -> Result<Checksum, UpstreamError> {
        match self.value("SELECT @master_binlog_checksum")?.as_deref() {
            Some("NONE") | None => Ok(Checksum::None),
            Some("CRC32") => Ok(Checksum::Crc32),
            Some(other) => Err(UpstreamError::Protocol(format!(
                "binlog_checksum = {other} is not known"
            ))),
        }
    }

    fn value(&mut self, statement: &str) -> Result<Option<String>, UpstreamError> {
        let rows = self.ask(statement)?;
        Ok(rows.into_iter().flatten().next().flatten())
    }
}

const NAME: &str = "MySQL";

impl Session {
    /// [`Session::prepare`] for MySQL. Each variable is set by its old and its new name, since
    /// versions of MySQL know different ones.
    pub(crate) fn prepare_mysql(
        &mut self,
        config: &UpstreamConfig,
        position: &Position,
        held: Option<&Held>,
    ) -> Result<Prepared, UpstreamError> {
        self.check(config.server_id)?;
        self.check_mysql()?;
        let domain = config.mysql_domain;
        let start = self.mysql_position(position, domain)?;
        if !start.is_in(domain) {
            let given = start.given;
            return Err(UpstreamError::OtherDomain { given, domain });
        }
        self.check_set(&start.has)?;
        let held = self.sent_again(config, &start.has, held)?;
        self.ask("SET @master_binlog_checksum=@@global.binlog_checksum")?;
        self.ask("SET @source_binlog_checksum=@@global.binlog_checksum")?;
        let checksum = self.chosen_checksum()?;
        let period = config.heartbeat.as_nanos();
        self.ask(&format!("SET @master_heartbeat_period={period}"))?;
        self.ask(&format!("SET @source_heartbeat_period={period}"))?;
        if let Some(uuid) = config.uuid {
            self.ask(&format!("SET @slave_uuid='{uuid}'"))?;
            self.ask(&format!("SET @replica_uuid='{uuid}'"))?;
        }
        if config.semi_sync {
            self.ask("SET @rpl_semi_sync_slave=1")?;
            self.ask("SET @rpl_semi_sync_replica=1")?;
        }
        let registration = register_command(config.server_id);
        self.order("the registration as a replica", &registration)?;
        let asked = held.map_or_else(|| start.has.clone(), |gtid| start.has.without(gtid));
        Ok(Prepared {
            checksum,
            held: None,
            translator: Some(Translator::new(domain, start.has.size(), held)),
            dump: dump_gtid_command(config.server_id, &asked),
            explicit_defaults: false,
            start: start.given,
            mysql_start: Some(start.has),
        })
    }

    fn check_mysql(&mut self) -> Result<(), UpstreamError> {
        if let Some(found) = self.other_than("gtid_mode", "ON")? {
            return Err(UpstreamError::NoGtids { found });
        }
        if let Some(found) = self.other_than("binlog_row_value_options", "")? {
            return Err(UpstreamError::PartialValues { found });
        }
        match self.other_than("binlog_transaction_compression", "OFF")? {
            Some(_) => Err(UpstreamError::CompressedTransactions),
            None => Ok(()),
        }
    }

    fn mysql_position(
        &mut self,
        position: &Position,
        domain: u32,
    ) -> Result<MysqlPosition, UpstreamError> {
        match position {
            Position::Mysql(position) if position.given.0.is_empty() => {
                Ok(MysqlPosition::after(position.has.clone(), domain))
            }
            Position::Mysql(position) => Ok(position.clone()),
            Position::Gtids(list) if list.0.is_empty() => Ok(MysqlPosition::default()),
            Position::Gtids(_) => Err(UpstreamError::OtherKind {
                found: NAME,
                position: position.to_string(),
            }),
            Position::File(place) => Err(UpstreamError::PlaceOfMysql(place.clone())),
            Position::Now => {
                let executed = self.value("SELECT @@GLOBAL.gtid_executed")?;
                let has = executed.unwrap_or_default().parse();
                let has = has.map_err(|error| {
                    UpstreamError::Protocol(format!("its gtid_executed: {error}"))
                })?;
                Ok(MysqlPosition::after(has, domain))
            }
        }
    }

    /// Checks that the upstream has this set, and everything that follows it.
    fn check_set(&mut self, has: &MysqlGtidSet) -> Result<(), UpstreamError> {
        let lacks = format!("SELECT GTID_SUBTRACT('{has}', @@GLOBAL.gtid_executed)");
        if let Some(missing) = self.value(&lacks)?.filter(|missing| !missing.is_empty()) {
            return Err(UpstreamError::Lacks { missing });
        }
        let purged = format!("SELECT GTID_SUBTRACT(@@GLOBAL.gtid_purged, '{has}')");
        match self.value(&purged)?.filter(|purged| !purged.is_empty()) {
            Some(purged) => Err(UpstreamError::Purged {
                position: format!("the set of MySQL's GTIDs '{has}'"),
                text: format!("its gtid_purged has {purged}"),
            }),
            None => Ok(()),
        }
    }

    /// The transaction that the upstream is asked to send again, to have it acknowledged: only then
    /// does this side know where it ends there.
    fn sent_again(
        &mut self,
        config: &UpstreamConfig,
        has: &MysqlGtidSet,
        held: Option<&Held>,
    ) -> Result<Option<MysqlGtid>, UpstreamError> {
        let Some(Held::Mysql(gtid)) = held.filter(|_| config.semi_sync) else {
            return Ok(None);
        };
        let is_there = format!("SELECT GTID_SUBSET('{gtid}', @@GLOBAL.gtid_purged)");
        let is_purged = self.value(&is_there)?.as_deref() != Some("0");
        Ok(Some(*gtid).filter(|gtid| has.contains(*gtid) && !is_purged))
    }
}
