//! Opening the log at start, and what to do if it is damaged.

use std::sync::Arc;

use synod_log::{Files, Log, Opened, RepairPlan};

use crate::config::{NodeConfig, NodeError};
use synod_member::{Host, Level};

/// Opens the log; a damaged one is repaired from the other members, if there can be any.
pub(crate) fn open(
    files: Arc<dyn Files>,
    config: &NodeConfig,
    host: &Arc<dyn Host>,
) -> Result<Opened, NodeError> {
    let mut is_alone = false;
    let opened = Log::open_or_repair(files, &config.log_dir, config.log.clone(), &mut |plan| {
        is_alone = nobody_else(plan, config);
        !is_alone
    });
    let opened = match opened {
        Err(damage) if is_alone => {
            let log_dir = config.log_dir.clone();
            return Err(NodeError::NobodyToRepairFrom { log_dir, damage });
        }
        other => other?,
    };
    let dir = config.log_dir.display();
    host.log(Level::Info, &format!("log in {dir}: {}", opened.report));
    tell_of_repair(&opened, host);
    Ok(opened)
}

/// Whether no other member can have what is lost. The configuration may be outdated, because newer ones
/// may be among what is lost; so this is believed only if no other address is known either.
fn nobody_else(plan: &RepairPlan, config: &NodeConfig) -> bool {
    let own = [&config.address, &config.listen];
    let others = config.seeds.iter().any(|seed| !own.contains(&seed));
    plan.config.is_sole_voter(plan.member) && !others
}

fn tell_of_repair(opened: &Opened, host: &Arc<dyn Host>) {
    if let Some(repair) = &opened.report.repair {
        let promises = match repair.known {
            true => String::new(),
            false => {
                ", and it is not known what this member has promised, so that the group has to \
                      elect a leader once more"
                    .to_owned()
            }
        };
        let text = format!(
            "this member's log is damaged: {}. Entries up to {} are kept, the rest comes from the other \
             members{promises}",
            repair.damage, repair.kept.index
        );
        host.log(Level::Error, &text);
    }
    if let Some(until) = opened.recovered.repair {
        let text = format!(
            "this member's log is under repair until it has reached entry {until} again: it does not lead \
             meanwhile, and votes only for members that have all that"
        );
        host.log(Level::Warning, &text);
    }
}
