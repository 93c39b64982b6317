//! Session setup of a replica with MySQL 8, before its dump.

use synod_binlog::{MysqlGtid, MysqlGtidSet};

use crate::config::UpstreamConfig;
use crate::error::UpstreamError;
use crate::position::{Held, MysqlPosition, Position};
use crate::protocol::command;
use crate::questions::Prepared;
use crate::session::Session;
use crate::stream::mysql::Translator;

/// Name of MySQL in errors.
const NAME: &str = "MySQL";

impl Session {
    /// [`Session::prepare`] for MySQL. Each variable is set by its old and its new name, since
    /// versions of MySQL know different ones.
    ///
    /// # Errors
    /// It cannot be followed, or refuses a step.
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
        let registration = command::register(config.server_id);
        self.order("the registration as a replica", &registration)?;
        let asked = held.map_or_else(|| start.has.clone(), |gtid| start.has.without(gtid));
        Ok(Prepared {
            checksum,
            held: None,
            translator: Some(Translator::new(domain, start.has.size(), held)),
            dump: command::dump_gtid(config.server_id, &asked),
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
