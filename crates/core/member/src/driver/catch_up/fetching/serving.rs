//! Members that fetch entries from this one: the reads for them, and what the log keeps.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use synod_consensus::{LogIndex, MemberId, Time};

/// For so long after its last question, the log is kept for a member that fetches.
const KEPT_FOR: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Served {
    /// The member needs no entry before this one.
    from: LogIndex,
    at: Time,
    /// The read for it, while that is outstanding.
    read: Weak<()>,
}

/// The members that fetch entries from this one. Bounded by the group's size: only configured
/// members may ask.
#[derive(Debug, Default)]
pub(in crate::driver) struct Serving(BTreeMap<MemberId, Served>);

impl Serving {
    /// A member asks, and needs this entry and later ones. Whether it has not asked lately.
    pub(in crate::driver) fn asked(&mut self, now: Time, member: MemberId, from: LogIndex) -> bool {
        self.forget_late(now);
        let is_new = !self.0.contains_key(&member);
        let served = self.0.entry(member).or_insert(Served {
            from,
            at: now,
            read: Weak::new(),
        });
        (served.from, served.at) = (from, now);
        is_new
    }

    /// Takes the place for a read for this member; none if one is outstanding.
    pub(super) fn begin_read(&mut self, member: MemberId) -> Option<Arc<()>> {
        let served = self.0.get_mut(&member)?;
        if served.read.strong_count() > 0 {
            return None;
        }
        let outstanding = Arc::new(());
        served.read = Arc::downgrade(&outstanding);
        Some(outstanding)
    }

    /// The first entry that is kept for members that fetch.
    pub(in crate::driver) fn needed_from(&mut self, now: Time) -> Option<LogIndex> {
        self.forget_late(now);
        self.0.values().map(|served| served.from).min()
    }

    fn forget_late(&mut self, now: Time) {
        self.0
            .retain(|_, served| now.since(served.at) < KEPT_FOR || served.read.strong_count() > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_is_kept_from_what_the_slowest_member_needs_and_not_for_ever() {
        let mut serving = Serving::default();
        assert_eq!(serving.needed_from(Time(0)), None);
        assert!(serving.asked(Time(0), MemberId(1), LogIndex(7)));
        assert!(serving.asked(Time(5), MemberId(2), LogIndex(3)));
        assert_eq!(serving.needed_from(Time(5)), Some(LogIndex(3)));
        assert!(!serving.asked(Time(5), MemberId(2), LogIndex(9)));
        assert_eq!(serving.needed_from(Time(5)), Some(LogIndex(7)));
        let late = Time(0).plus(KEPT_FOR);
        assert_eq!(serving.needed_from(late), Some(LogIndex(9)));
        assert_eq!(serving.needed_from(late.plus(KEPT_FOR)), None);
        assert!(serving.asked(late, MemberId(1), LogIndex(8)), "again");
    }

    #[test]
    fn one_read_for_a_member_is_outstanding() {
        let mut serving = Serving::default();
        assert!(serving.begin_read(MemberId(1)).is_none(), "it did not ask");
        serving.asked(Time(0), MemberId(1), LogIndex(7));
        serving.asked(Time(0), MemberId(2), LogIndex(7));
        let read = serving.begin_read(MemberId(1)).unwrap();
        assert!(serving.begin_read(MemberId(1)).is_none());
        assert!(serving.begin_read(MemberId(2)).is_some());
        drop(read);
        assert!(serving.begin_read(MemberId(1)).is_some());
    }
}
