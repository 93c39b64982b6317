//! Permits of a dump: held while it prepares a portion for a late reader.

use crate::late_reader_permits::{Permit, Permits};

/// A reader is late until it has first come to the end of the log, and again once it was given so
/// much, in bytes, since it was there. Less is what comes to a reader at the tail while its thread
/// sleeps.
const LATE_BYTES: usize = 4 << 20;
/// Actions of a portion, at most: some give readers nothing.
const PORTION_ACTIONS: u32 = 1024;

/// The pace of one dump.
pub(crate) struct Pace {
    permits: Permits,
    permit: Option<Permit>,
    /// Bytes that the reader was given since it was at the end of the log.
    since_end: usize,
    /// Actions of this portion.
    actions: u32,
}

impl Pace {
    /// The pace of a reader that has not begun.
    pub(crate) fn new(permits: Permits) -> Pace {
        Pace {
            permits,
            permit: None,
            since_end: 0,
            actions: 0,
        }
    }

    /// The reader begins: its place is looked for, and how far behind it is shows only at the end
    /// of the log. Waits for a permit.
    pub(crate) fn begins(&mut self) {
        self.since_end = LATE_BYTES;
        self.begins_portion(0);
    }

    /// The reader is at the end of the log.
    pub(crate) fn is_at_end(&mut self) {
        self.permit = None;
        (self.since_end, self.actions) = (0, 0);
    }

    /// The portion is as large as it may be: it is to be sent.
    pub(crate) fn ends_portion(&mut self) {
        self.permit = None;
    }

    /// So many bytes were sent, and the next portion begins. Waits for a permit, if the reader is
    /// late.
    pub(crate) fn begins_portion(&mut self, sent_bytes: usize) {
        self.since_end = self.since_end.saturating_add(sent_bytes);
        self.actions = 0;
        if self.since_end >= LATE_BYTES {
            self.permit = None;
            self.permit = Some(self.permits.take());
        }
    }

    /// An action was looked at. A portion of many of them ends, whatever its size.
    pub(crate) fn passes_action(&mut self) {
        self.actions += 1;
        if self.actions >= PORTION_ACTIONS {
            self.begins_portion(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_free(permits: &Permits) -> bool {
        permits.try_take().is_some()
    }

    #[test]
    fn reader_is_late_from_its_beginning_to_its_first_end_of_the_log() {
        let permits = Permits::new(1);
        let mut pace = Pace::new(permits.clone());
        assert!(is_free(&permits), "it has not begun");
        pace.begins();
        assert!(!is_free(&permits));
        pace.ends_portion();
        assert!(is_free(&permits), "it sends");
        pace.begins_portion(1);
        assert!(!is_free(&permits), "it has not been at the end yet");
        pace.is_at_end();
        pace.begins_portion(1);
        assert!(is_free(&permits));
    }

    #[test]
    fn reader_at_the_tail_takes_no_permit() {
        let permits = Permits::new(1);
        let mut pace = Pace::new(permits.clone());
        pace.begins();
        pace.is_at_end();
        for _ in 0..100 {
            pace.ends_portion();
            pace.begins_portion(LATE_BYTES - 1);
            (0..PORTION_ACTIONS).for_each(|_| pace.passes_action());
            assert!(is_free(&permits));
            pace.is_at_end();
        }
    }

    #[test]
    fn late_reader_holds_a_permit_but_not_while_it_sends() {
        let permits = Permits::new(1);
        let mut pace = Pace::new(permits.clone());
        pace.begins_portion(LATE_BYTES);
        assert!(!is_free(&permits));
        pace.ends_portion();
        assert!(is_free(&permits), "it sends");
        pace.begins_portion(1);
        assert!(!is_free(&permits), "still late");
        pace.is_at_end();
        assert!(is_free(&permits));
        pace.begins_portion(1);
        assert!(is_free(&permits), "no longer late");
        pace.begins_portion(LATE_BYTES);
        drop(pace);
        assert!(is_free(&permits), "its connection has ended");
    }
}
