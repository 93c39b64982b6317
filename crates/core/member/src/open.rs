//! Opening a member's log at start, and the decision to repair it if it is damaged. A damaged log
//! is repaired from the other members: the damaged part is removed and comes back by replication. A
//! group's only voter has no such members; its log is left as it is, with an error that says what
//! an operator can do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use synod_log::{Files, Log, LogError, LogOptions, Opened, RepairPlan};

use crate::consequence::Consequence;
use crate::host::{Host, Level};
use crate::setting::Setting;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{0}")]
    Log(#[from] LogError),
    #[error(
        "{} is damaged ({}), and this member is the group's only voter: no other member surely \
         has what is lost, so nothing is changed. {remedy}",
        log_dir.display(), damage.damage().unwrap_or_default()
    )]
    SoleVoterDamaged {
        log_dir: PathBuf,
        damage: Box<LogError>,
        remedy: &'static str,
    },
}

/// Opens the log in `dir`. If it is damaged, prepares its repair from the other members, provided
/// that there can be any. `knows_others` says whether the address of some other member is known.
pub fn open_log(
    files: Arc<dyn Files>,
    dir: &Path,
    options: LogOptions,
    knows_others: bool,
    host: &Arc<dyn Host>,
) -> Result<Opened, OpenError> {
    let mut is_alone = false;
    let retain_bytes = options.retain_bytes;
    let opened = Log::open_or_repair(files, dir, options, &mut |plan| {
        is_alone = has_no_other_member(plan, knows_others);
        !is_alone
    });
    let opened = match opened {
        Err(damage) if is_alone => {
            let log_dir = dir.to_owned();
            return Err(OpenError::SoleVoterDamaged {
                log_dir,
                damage: Box::new(damage),
                remedy: host.consequence(Consequence::SoleVoterDamaged),
            });
        }
        other => other?,
    };
    let text = format!("log in {}: {}", dir.display(), opened.report);
    host.log(Level::Info, &text);
    if let Some(reduced) = opened.report.retain_reduced_to {
        let setting = host.setting_name(Setting::LogRetainSize);
        let absent = host.consequence(Consequence::KeepsLess);
        let text = format!(
            "{setting} is {retain_bytes} bytes, and the log may take twice as much, which is more \
             than a quarter of the file system of {}: {reduced} bytes are used instead. {absent}; \
             a larger file system for the log avoids that",
            dir.display()
        );
        host.log(Level::Warning, &text);
    }
    report_repair(&opened, host);
    Ok(opened)
}

/// Whether no other member can have what is lost. The configuration in the log may be outdated,
/// because newer ones may be among what is lost. So it counts only if no other address is known.
fn has_no_other_member(plan: &RepairPlan, knows_others: bool) -> bool {
    plan.config.is_sole_voter(plan.member) && !knows_others
}

fn report_repair(opened: &Opened, host: &Arc<dyn Host>) {
    if let Some(repair) = &opened.report.repair {
        let promises = if repair.known {
            ""
        } else {
            ". What this member has promised to leaders is lost, too: the group has to elect a \
             leader once more"
        };
        let text = format!(
            "this member's log is damaged: {}. Entries up to {} are kept, the rest comes from the \
             other members{promises}",
            repair.damage, repair.kept.index
        );
        host.log(Level::Error, &text);
    }
    if let Some(until) = opened.recovered.repair {
        let text = format!(
            "this member's log is under repair until it has reached entry {until} again: until \
             then it does not lead, and votes only for members that have all entries up to there"
        );
        host.log(Level::Warning, &text);
    }
}
