//! News of the repair of a damaged log, for an operator: that it is done, or why it cannot be.

use std::time::Duration;

use synod_consensus::{EntryId, Time};

/// A member that cannot be repaired says so this often.
const REMINDER: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) enum RepairNews {
    Repaired,
    /// No leader is known that could repair it up to this entry.
    Waiting(EntryId),
}

pub(in crate::driver) struct RepairWatch {
    is_under_repair: bool,
    reminded: Option<Time>,
}

impl RepairWatch {
    pub(in crate::driver) fn new(is_under_repair: bool) -> RepairWatch {
        RepairWatch {
            is_under_repair,
            reminded: None,
        }
    }

    /// News to announce now. The log is under repair up to `until`; `is_alone`: no leader has been
    /// heard for the suspect timeout.
    pub(in crate::driver) fn news(
        &mut self,
        now: Time,
        until: Option<EntryId>,
        is_alone: bool,
    ) -> Option<RepairNews> {
        if !self.is_under_repair {
            return None;
        }
        let Some(until) = until else {
            self.is_under_repair = false;
            return Some(RepairNews::Repaired);
        };
        let is_due = self.reminded.is_none_or(|at| now.since(at) >= REMINDER);
        if !is_alone || !is_due {
            return None;
        }
        self.reminded = Some(now);
        Some(RepairNews::Waiting(until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_without_a_leader_is_reminded_of_and_its_repair_announced_once() {
        let mut watch = RepairWatch::new(true);
        let at = |seconds| Time(5).plus(Duration::from_secs(seconds));
        let until = Some(EntryId::default());
        let waiting = Some(RepairNews::Waiting(EntryId::default()));
        assert_eq!(watch.news(at(0), until, false), None);
        assert_eq!(watch.news(at(1), until, true), waiting);
        assert_eq!(watch.news(at(2), until, true), None);
        assert_eq!(watch.news(at(61), until, true), waiting);
        assert_eq!(watch.news(at(62), None, false), Some(RepairNews::Repaired));
        assert_eq!(watch.news(at(63), None, false), None);
    }
}
