//! The history that a member starts with: the one of its log, or one that it begins.
//!
//! Called once per start, by [`crate::Start::new`], before the consensus core exists.
//!
//! A group that begins with a new database has an empty log, and its first entry is the first
//! configuration (`Core::bootstrap`). So has one that begins with a database of another group: its
//! own history begins with it. A group that is taken over has a log that begins *after* the
//! position of the database, as if entries up to it had been purged: its base is entry 1
//! of term 1, with the first configuration and the database's seqno. The leader therefore sends the
//! base to every member that joins with an empty log, as to all members that lack purged entries.
//! (An empty log with another seqno would contradict a joiner's empty log, whose seqno is zero.)

use std::sync::Arc;

use synod_consensus::{
    Config, ConfigAt, EntryId, GroupId, HardState, LogBase, LogIndex, Recovered, Seqno, Term,
};
use synod_log::Opened;

use crate::config::{DatabasePosition, MemberConfig, StartMode};
use crate::host::{Host, Level};
use crate::start::StartError;

/// The entry that the database of a beginning group stands for.
const FIRST: EntryId = EntryId::new(Term(1), LogIndex(1));

/// Decides which history this member starts with; a bootstrap begins one. `new_group` names it,
/// unless the group of the database is taken over. Fails if the log cannot be written, or if this
/// is a bootstrap and log and database belong to different groups, or this member's description is
/// not valid.
pub(crate) fn begin_history(
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
    let (none, known) = (GroupId::NONE, group != GroupId::NONE);
    let has_history = has_history(opened);
    let is_taken_over = mode == StartMode::TakeOver;
    let is_other = known && database.group != none && database.group != group;
    if is_other && (has_history || is_taken_over) {
        return Err(StartError::OtherHistory {
            log: group,
            database: database.group,
        });
    }
    if has_history {
        let text = format!(
            "bootstrap was asked for, but this member belongs to group {group} already: it rejoins \
             that group instead"
        );
        host.log(Level::Info, &text);
        return Ok(group);
    }
    let taken_over = if is_taken_over { database.group } else { none };
    let group = [group, taken_over, new_group]
        .into_iter()
        .find(|group| *group != none)
        .unwrap_or(new_group);
    opened.writer.set_group(group)?;
    // The history of the group begins with what this database holds.
    let seqno = match is_taken_over {
        true => database.seqno.max(Seqno(0)),
        false => Seqno(0),
    };
    if database.group == group && seqno > Seqno(0) {
        begin_after(config, seqno, opened)?;
    }
    config.database = DatabasePosition { group, seqno };
    let is_of_former = database.group != none && database.group != group;
    let with = match (config.has_data, is_of_former) {
        (true, true) => format!(
            "with what this database holds of group {}, up to {}. That group is over for this \
             server: databases and logs of it do not belong to the new group, whatever their \
             position",
            database.group, database.seqno
        ),
        (true, false) => format!("with what this database holds, up to {seqno}"),
        (false, _) => "without a database".to_owned(),
    };
    host.log(Level::Info, &format!("beginning group {group} {with}"));
    Ok(group)
}

/// Whether a member with this log belongs to a group, so that a bootstrap begins none. One that a
/// crash interrupted has left the group's name and an empty log.
pub fn has_history(opened: &Opened) -> bool {
    opened.identity.group != GroupId::NONE && !is_blank(&opened.recovered)
}

fn is_blank(recovered: &Recovered) -> bool {
    recovered.base == LogBase::default() && recovered.tail.is_empty() && recovered.repair.is_none()
}

/// Has the log begin after the database's position, with this member as the only voter. The vote
/// comes first: a log has no entry of a term that its vote record does not know.
fn begin_after(config: &MemberConfig, seqno: Seqno, opened: &mut Opened) -> Result<(), StartError> {
    let me = opened.identity.member;
    if opened.recovered.vote.term < FIRST.term {
        let vote = HardState::new(FIRST.term, Some(me));
        opened.writer.save_vote(vote)?;
        opened.recovered.vote = vote;
    }
    let base = LogBase {
        last: FIRST,
        seqno,
        config: ConfigAt {
            index: FIRST.index,
            config: Config::first(me, config.first_voter())?,
        },
    };
    opened.writer.reset(base.clone())?;
    opened.writer.sync()?;
    opened.recovered.base = base;
    Ok(())
}
