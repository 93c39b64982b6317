//! Whether this server shows itself as desynced, so that proxies send clients elsewhere.
//!
//! Only what is shown changes: neither the server nor the group treats it as desynced.

use std::time::Duration;

/// Whether a server whose database lags `own` shows itself as desynced. It does beyond `limit`
/// (zero: never), and only while most databases lag less (`all`, this one among them): clients must
/// have somewhere to go.
pub(crate) fn is_shown_desynced(
    own: Duration,
    limit: Duration,
    all: impl Iterator<Item = Duration>,
) -> bool {
    if limit.is_zero() || own <= limit {
        return false;
    }
    let (mut fresh, mut known) = (0_usize, 0_usize);
    for lag in all {
        known += 1;
        fresh += usize::from(lag <= limit);
    }
    fresh > known / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(own: u64, limit: u64, all: &[u64]) -> bool {
        let all = all.iter().copied().map(Duration::from_millis);
        is_shown_desynced(
            Duration::from_millis(own),
            Duration::from_millis(limit),
            all,
        )
    }

    #[test]
    fn server_that_lags_behind_most_others_is_shown_as_desynced() {
        assert!(shown(5000, 1000, &[3, 5000, 8]));
        assert!(!shown(900, 1000, &[3, 900, 8]), "within the limit");
        assert!(!shown(5000, 0, &[3, 5000, 8]), "no limit");
    }

    #[test]
    fn servers_are_not_all_shown_as_desynced() {
        assert!(!shown(5000, 1000, &[3, 5000, 7000]));
        assert!(!shown(5000, 1000, &[3, 5000]));
        assert!(!shown(5000, 1000, &[]), "nothing is known of the others");
    }
}
