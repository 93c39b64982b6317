//! Warns before the disk of the log is full.

use synod_log::Space;

/// Percentage of the disk in use at which a warning is due.
const WARN_AT: u64 = 90;
/// Percentage below which a later warning may be due again.
const WELL_BELOW: u64 = 85;
/// With more room than this no warning is due: by default a log takes that much at most. Bytes.
const AMPLE: u64 = 8 << 30;

/// Says once that the disk is nearly full, and again only if it had room in between.
#[derive(Debug, Default)]
pub(crate) struct DiskSpaceWatch {
    is_warned: bool,
}

impl DiskSpaceWatch {
    /// The warning that is due with this space, if any. `None` if the space is not known.
    pub(crate) fn warning(&mut self, space: Option<Space>) -> Option<String> {
        let Space { total, free } = space.filter(|space| space.total > 0)?;
        let used = 100 - free.min(total).saturating_mul(100) / total;
        if used < WELL_BELOW {
            self.is_warned = false;
        }
        if used < WARN_AT || free > AMPLE || std::mem::replace(&mut self.is_warned, true) {
            return None;
        }
        Some(format!(
            "the disk of the log is {used} percent full, {free} bytes are left: when it is full, \
             the log is purged early, and in the end this member stops. Free some space or move \
             the log to a larger file system"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_comes_once_and_again_after_there_was_room() {
        let mut watch = DiskSpaceWatch::default();
        let mut is_warned = |free| {
            let space = Space { total: 1000, free };
            watch.warning(Some(space)).is_some()
        };
        let seen: Vec<bool> = [500, 110, 100, 50, 140, 90, 200, 99]
            .into_iter()
            .map(&mut is_warned)
            .collect();
        let expected = [false, false, true, false, false, false, false, true];
        assert_eq!(seen, expected);
        assert_eq!(watch.warning(None), None);
        let large = Space {
            total: 1000 * AMPLE,
            free: 2 * AMPLE,
        };
        assert_eq!(DiskSpaceWatch::default().warning(Some(large)), None);
        let none = Space { total: 0, free: 0 };
        assert_eq!(watch.warning(Some(none)), None);
    }
}
