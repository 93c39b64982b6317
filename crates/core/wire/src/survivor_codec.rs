//! Reports of survivors of a lost majority as bytes.

use synod_consensus::{LogIndex, MemberId, Seqno};

use crate::codec::{Reader, Writer};
use crate::consensus_codec::{read_entry_id, write_entry_id};
use crate::error::DecodeError;
use crate::message::SurvivorReport;

pub(crate) fn write_survivor(w: &mut Writer, report: &SurvivorReport) {
    write_entry_id(w, report.last);
    w.u64(report.durable.0);
    w.u64(report.commit.0);
    w.u64(report.stated.0);
    write_option(w, report.incomplete_us);
    w.i64(report.applied.0);
    w.bool(report.is_under_repair);
    write_option(w, report.leader.map(|leader| leader.0));
}

pub(crate) fn read_survivor(r: &mut Reader) -> Result<SurvivorReport, DecodeError> {
    Ok(SurvivorReport {
        last: read_entry_id(r)?,
        durable: LogIndex(r.u64()?),
        commit: LogIndex(r.u64()?),
        stated: LogIndex(r.u64()?),
        incomplete_us: read_option(r)?,
        applied: Seqno(r.i64()?),
        is_under_repair: r.bool()?,
        leader: read_option(r)?.map(MemberId),
    })
}

fn write_option(w: &mut Writer, number: Option<u64>) {
    w.bool(number.is_some());
    if let Some(number) = number {
        w.u64(number);
    }
}

fn read_option(r: &mut Reader) -> Result<Option<u64>, DecodeError> {
    r.bool()?.then(|| r.u64()).transpose()
}
