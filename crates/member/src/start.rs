//! What a member decides between the opening of its log and its first turn.

use std::sync::Arc;

use synod_certify::CertLimits;
use synod_consensus::{
    Core, CoreParams, GroupId, LogBase, LogIndex, Recovered, Seqno, SessionId, Time,
};
use synod_log::{LogError, LogReader, Opened};

use crate::certification::CertificationState;
use crate::config::{DatabasePosition, MemberConfig, StartMode};
use crate::driver::Me;
use crate::host::{Host, Level};
use crate::tuning::Tuning;

/// And from about so many bytes, which bounds the time a start takes.
const WARM_TOTAL_BYTES: u64 = 256 << 20;
/// Read at a time for that.
const WARM_BYTES: usize = 4 << 20;

/// Why a member does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The log failed.
    #[error("{0}")]
    Log(#[from] LogError),
    /// The log and the database belong to different histories.
    #[error("the log belongs to group {log}, the database to {database}")]
    OtherHistory {
        /// The log's group.
        log: GroupId,
        /// The database's.
        database: GroupId,
    },
}

/// What chance gives a start: nothing here draws for itself.
#[derive(Clone, Copy, Debug)]
pub struct StartEntropy {
    /// This process.
    pub session: SessionId,
    /// For the protocol's own draws.
    pub seed: u64,
    /// A group to be begun gets this name, unless the database has one.
    pub group: GroupId,
}

/// What recovery and start-up decided.
pub struct Start {
    pub(crate) me: Me,
    pub(crate) config: MemberConfig,
    pub(crate) tuning: Tuning,
    pub(crate) group: GroupId,
    pub(crate) mode: StartMode,
    pub(crate) core: Core,
    pub(crate) ingest: CertificationState,
}

impl Start {
    /// Decides which history this member starts with (a bootstrap begins one), and rebuilds the
    /// protocol's and certification's state from the log.
    ///
    /// # Errors
    /// If the log cannot be written, or a bootstrap is asked for of a log and a database that belong
    /// to different groups.
    pub fn new(
        mut config: MemberConfig,
        tuning: Tuning,
        mode: StartMode,
        drawn: StartEntropy,
        opened: &mut Opened,
        host: &Arc<dyn Host>,
        now: Time,
    ) -> Result<Start, StartError> {
        let group = begin_history(&mut config, mode, drawn.group, opened, host)?;
        let me = Me {
            member: opened.identity.member,
            session: drawn.session,
        };
        let recovered = std::mem::take(&mut opened.recovered);
        let warm_entries = warm_entries(&recovered, tuning.warm_entries);
        let params = CoreParams {
            id: me.member,
            timing: config.timing.clone(),
            limits: config.limits.clone(),
            seed: drawn.seed,
        };
        let core = Core::new(params, recovered, now);
        let ingest = warm_ingestor(&config, &core, &opened.reader, warm_entries, host, now);
        Ok(Start {
            me,
            config,
            tuning,
            group,
            mode,
            core,
            ingest,
        })
    }

    /// Who the member is.
    pub fn me(&self) -> Me {
        self.me
    }

    /// The group it belongs to; `NONE` if it has to find one.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// Where the group reached this member, by its own log; none if it was in no group.
    pub fn configured_address(&self) -> Option<&str> {
        let members = &self.core.config().config.members;
        members.get(&self.me.member).map(|m| m.address.as_str())
    }

    /// Where its database counts as being: a bootstrap may have settled that.
    pub fn database(&self) -> DatabasePosition {
        self.config.database
    }
}

/// Decides which history this member starts with; a bootstrap begins one.
fn begin_history(
    config: &mut MemberConfig,
    mode: StartMode,
    new_group: GroupId,
    opened: &mut Opened,
    host: &Arc<dyn Host>,
) -> Result<GroupId, StartError> {
    let group = opened.identity.group;
    if mode == StartMode::Join {
        return Ok(group);
    }
    let database = config.database;
    if group != GroupId::NONE {
        if database.group != GroupId::NONE && database.group != group {
            return Err(StartError::OtherHistory {
                log: group,
                database: database.group,
            });
        }
        let text = format!(
            "bootstrap was asked for, but this member belongs to group {group} already: it finds its \
             way back by itself"
        );
        host.log(Level::Info, &text);
        return Ok(group);
    }
    let group = match database.group {
        GroupId::NONE => new_group,
        group => group,
    };
    opened.writer.set_group(group)?;
    if database.group == group && database.seqno > Seqno(0) {
        let base = LogBase {
            seqno: database.seqno,
            ..LogBase::default()
        };
        opened.writer.reset(base.clone())?;
        opened.writer.sync()?;
        opened.recovered.base = base;
    }
    // This database is the group's: what it holds is the beginning of the history.
    config.database = DatabasePosition {
        group,
        seqno: database.seqno.max(Seqno(0)),
    };
    host.log(Level::Info, &format!("beginning group {group}"));
    Ok(group)
}

/// How many of the log's last entries to read at start, judged by the size of the newest.
fn warm_entries(recovered: &Recovered, entries_max: u64) -> u64 {
    let known = recovered.tail.len() as u64;
    let bytes: u64 = recovered
        .tail
        .iter()
        .map(|header| u64::from(header.payload_len))
        .sum();
    match bytes.checked_div(known) {
        None | Some(0) => entries_max,
        Some(average) => (WARM_TOTAL_BYTES / average).clamp(1, entries_max),
    }
}

/// Certification state as far as the end of the log tells it.
fn warm_ingestor(
    config: &MemberConfig,
    core: &Core,
    reader: &LogReader,
    warm_entries: u64,
    host: &Arc<dyn Host>,
    now: Time,
) -> CertificationState {
    let limits = config.cert_limits();
    let base = core.base();
    let last = core.last_id().index;
    let start = LogIndex(last.0.saturating_sub(warm_entries).max(base.last.index.0));
    let seqno = match start == base.last.index {
        true => base.seqno,
        false => match reader.header(start) {
            Ok(header) => header.seqno,
            Err(error) => return without_history(core, limits, host, &error),
        },
    };
    let mut ingest = CertificationState::new(start, seqno, limits);
    let mut next = start.next();
    while next <= last {
        match reader.read(next, last, WARM_BYTES) {
            Ok(entries) => {
                for entry in entries {
                    next = entry.header.index.next();
                    if synod_planted::is(synod_planted::Bug::ColdCertification) {
                        ingest.ingest_without_keys(&entry.header);
                        continue;
                    }
                    if let Err(error) = ingest.appended(now, &entry.header, &entry.payload) {
                        let text = format!("entry {}: {error}", entry.header.id());
                        host.log(Level::Debug, &text);
                    }
                }
            }
            Err(error) => {
                return without_history(core, limits, host, &error);
            }
        }
    }
    ingest
}

fn without_history(
    core: &Core,
    limits: CertLimits,
    host: &Arc<dyn Host>,
    why: &LogError,
) -> CertificationState {
    let text = format!("certification starts without history: {why}");
    host.log(Level::Warning, &text);
    CertificationState::new(core.last_id().index, core.last_seqno(), limits)
}
