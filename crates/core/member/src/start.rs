//! The start of a member, between the opening of its log and its first turn. [`Start::new`] decides
//! which history the member continues (a bootstrap may begin one), rebuilds the consensus core from
//! the log, and warms up certification: it feeds the last entries of the log to the
//! [`CertificationState`]. The result makes a [`crate::Driver`].

use std::sync::Arc;

use synod_certify::CertLimits;
use synod_consensus::{
    BootstrapError, Core, CoreParams, GroupId, LogIndex, Member, Recovered, SessionId, Time,
};
use synod_log::{Entry, LogError, LogReader, Opened};
use synod_planted::planted;

use crate::certification::CertificationState;
use crate::config::{DatabasePosition, MemberConfig, StartMode};
use crate::driver::Me;
use crate::host::{Host, Level};
use crate::initial_history::begin_history;
use crate::tuning::Tuning;

/// Upper bound on the log bytes read to rebuild the certification index at start (start-up time).
const WARM_TOTAL_BYTES: u64 = 256 << 20;
const WARM_BYTES: usize = 4 << 20;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0}")]
    Log(#[from] LogError),
    #[error("the log belongs to group {log}, the database to {database}")]
    OtherHistory { log: GroupId, database: GroupId },
    #[error("cannot begin a new group: {0}")]
    Begin(#[from] BootstrapError),
}

/// Random inputs of a start; nothing here generates its own.
#[derive(Clone, Copy, Debug)]
pub struct StartEntropy {
    /// Names this session. Sessions of one member must differ.
    pub session: SessionId,
    /// Seed of the consensus core's random numbers.
    pub seed: u64,
    /// Names the group that a bootstrap begins, unless the database belongs to one.
    pub group: GroupId,
}

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
    pub fn new(
        mut config: MemberConfig,
        tuning: Tuning,
        mode: StartMode,
        entropy: StartEntropy,
        opened: &mut Opened,
        host: &Arc<dyn Host>,
        now: Time,
    ) -> Result<Start, StartError> {
        let group = begin_history(&mut config, mode, entropy.group, opened, host)?;
        let me = Me {
            member: opened.identity.member,
            session: entropy.session,
        };
        let recovered = std::mem::take(&mut opened.recovered);
        let warm_entries = warm_entries(&recovered, tuning.warm_entries);
        let limits = config.cert_limits(&tuning);
        let params = CoreParams {
            id: me.member,
            timing: config.timing.clone(),
            limits: config.limits.clone(),
            seed: entropy.seed,
        };
        let core = Core::new(params, recovered, now);
        let ingest = warm_certification(limits, &core, &opened.reader, warm_entries, host, now);
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

    pub fn me(&self) -> Me {
        self.me
    }

    /// The group that the member belongs to; `NONE` if it has to find one.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// The address at which the group reached this member, by its own log; none if it was in no
    /// group.
    pub fn configured_address(&self) -> Option<&str> {
        self.configured().map(|me| me.address.as_str())
    }

    /// Name of this member, and whether it has a database, by its own log; none if it was in no
    /// group.
    pub fn configured_kind(&self) -> Option<(&str, bool)> {
        self.configured().map(|me| (me.name.as_str(), me.has_data))
    }

    /// The subject of the certificate that the group has bound this member to, by its own log; none
    /// if it was bound to none.
    pub fn configured_certificate(&self) -> Option<&str> {
        self.configured()?.certificate.as_deref()
    }

    fn configured(&self) -> Option<&Member> {
        self.core.config().config.members.get(&self.me.member)
    }

    /// The position of the database. A bootstrap makes it a position of the new group.
    pub fn database(&self) -> DatabasePosition {
        self.config.database
    }
}

/// How many of the log's last entries to read at start, estimated by the size of the newest.
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

/// Certification state that was fed with the last entries of the log.
fn warm_certification(
    limits: CertLimits,
    core: &Core,
    reader: &LogReader,
    warm_entries: u64,
    host: &Arc<dyn Host>,
    now: Time,
) -> CertificationState {
    let base = core.base();
    let last = core.last_id().index;
    let start = LogIndex(last.0.saturating_sub(warm_entries).max(base.last.index.0));
    let seqno = if start == base.last.index {
        base.seqno
    } else {
        match reader.header(start) {
            Ok(header) => header.seqno,
            Err(error) => return without_history(core, limits, host, &error),
        }
    };
    let mut certification = CertificationState::new(start, seqno, limits);
    let mut next = start.next();
    while next <= last {
        match reader.read(next, last, WARM_BYTES) {
            Ok(entries) => {
                for entry in entries {
                    next = entry.header.index.next();
                    let Entry { header, payload } = entry;
                    let fed = planted!(
                        ColdCertification,
                        certification.appended(now, &header, &payload),
                        else {
                            certification.ingest_without_keys(&header);
                            Ok(())
                        }
                    );
                    if let Err(error) = fed {
                        let text = format!("entry {}: {error}", header.id());
                        host.log(Level::Debug, &text);
                    }
                }
            }
            Err(error) => {
                return without_history(core, limits, host, &error);
            }
        }
    }
    certification
}

/// Certification state that knows nothing before the end of the log: write sets with an older
/// snapshot position will be refused.
fn without_history(
    core: &Core,
    limits: CertLimits,
    host: &Arc<dyn Host>,
    why: &LogError,
) -> CertificationState {
    let text = format!(
        "certification starts without history, so that some transactions may be refused now and \
         have to be tried again: {why}"
    );
    host.log(Level::Warning, &text);
    CertificationState::new(core.last_id().index, core.last_seqno(), limits)
}
