//! Words of a group of relays for what happens to its logs: no member has a database, and readers
//! need what is in the logs.

use synod_node::Consequence;

pub(crate) fn for_readers(consequence: Consequence) -> &'static str {
    match consequence {
        Consequence::PurgedEarly => "Readers that lack them are told which GTIDs they have lost",
        Consequence::PurgedAtBound => {
            "may be needed by a relay that lags or a reader that is away. That relay begins its \
             log again after them, and that reader is told which GTIDs it has lost"
        }
        Consequence::KeptFor => "readers and relays that lag, and for at least a minute",
        Consequence::WillReachBound => "it is purged of what such relays need",
        Consequence::HeldAtBound => "readers need it",
        Consequence::KeepsLess => {
            "Readers and relays that are absent for long lose what they lack sooner"
        }
        // Relays say up to where none of their readers needs the log, and hold the newest
        // transaction in the same way: which of them holds the log is not known.
        Consequence::FullAndHeld => {
            "it cannot be purged at once (readers need what is in it, or all of it was written \
             within seconds, or its newest transaction is as large as the log may be): nothing new \
             is taken until it is purged"
        }
        Consequence::FullAndPurged => {
            "it is purged of what connected readers need. They are told which GTIDs they have lost"
        }
        Consequence::SoleVoterDamaged => {
            "Restore the file from a copy made after this relay's last stop. If there is none, \
             what was kept after the damage is at the upstream and at readers only: move the \
             synod-*.log files of all relays away, and begin a new group of relays where the \
             readers are"
        }
        Consequence::TakesHistory => "its log begins again",
        Consequence::LostActionsPlace => "log",
        Consequence::LostActionsRemedy => "move its synod-*.log files away",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_of_relays_are_told_nothing_of_databases() {
        for consequence in Consequence::ALL {
            let text = for_readers(consequence);
            assert!(
                !text.contains("database") && !text.contains("SST"),
                "{text}"
            );
        }
    }
}
