//! Finds a reader's start in the log by binary search: every entry states the upstream's position.

use synod_binlog::Gtid;
use synod_node::{CommittedLog, Seqno};

use super::state::GtidState;
use super::{KeptError, entry_after, last_entry_between};

/// Start of a reader in the log.
#[derive(Debug)]
pub(crate) struct Start {
    /// After this action.
    pub(crate) after: Seqno,
    /// Upstream's position there; none: the log has no entry yet.
    pub(crate) state: Option<GtidState>,
}

/// Why a reader cannot begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoStart {
    /// The log cannot be read.
    #[error(transparent)]
    Kept(#[from] KeptError),
    /// The reader's next transaction was purged.
    #[error(
        "What the reader lacks has been purged: transaction {lost} is not in the log, which \
         begins after '{begins}'. Copy a server again and set gtid_slave_pos from the copy, or \
         use a relay whose log begins earlier; synod.log_retain_size and synod.log_retain_age say \
         how much is kept"
    )]
    Purged {
        /// The newest transaction of its domain that the reader lacks.
        lost: Gtid,
        /// Upstream's position before the log begins.
        begins: GtidState,
    },
}

/// The place of a reader that has everything up to `has`.
///
/// # Errors
/// The log cannot be read, or no longer has what follows.
pub(crate) fn start(log: &CommittedLog, has: &GtidState) -> Result<Start, NoStart> {
    let before_log = log.first_seqno().prev();
    let end = log.readable_seqno();
    // Everything up to `low` is before the reader's place, and what follows `high` is not.
    let (mut low, mut high) = (before_log, end);
    while low < high {
        let middle = Seqno(low.0 + (high.0 - low.0) / 2);
        match entry_after(log, middle)? {
            Some((seqno, head)) if head.after().is_within(has) => low = seqno.min(high),
            Some(_) | None => high = middle,
        }
    }
    let Some((seqno, head)) = entry_after(log, low)? else {
        let state = newest(log, before_log, end)?;
        return Ok(Start { after: end, state });
    };
    let is_amid = head.part.as_ref().is_some_and(|part| part.number > 0);
    let lost = head.before.missing_in(has);
    // A transaction whose beginning was purged is lost as a whole.
    let of_amid = head.part.as_ref().filter(|_| is_amid).map(|part| part.gtid);
    if let Some(lost) = lost.or(of_amid) {
        let begins = head.before;
        return Err(NoStart::Purged { lost, begins });
    }
    Ok(Start {
        after: seqno.prev(),
        state: Some(head.before),
    })
}

/// Upstream's position at the last entry, which the reader has.
fn newest(
    log: &CommittedLog,
    before_log: Seqno,
    end: Seqno,
) -> Result<Option<GtidState>, KeptError> {
    let mut back = 1;
    loop {
        // Many notes may follow it.
        let after = Seqno(end.0.saturating_sub(back)).max(before_log);
        let newest = last_entry_between(log, after, end)?;
        if newest.is_some() || after == before_log {
            return Ok(newest.map(|head| head.after()));
        }
        back = back.saturating_mul(2);
    }
}
