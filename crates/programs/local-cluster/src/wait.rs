//! Waiting for a condition, with a limit. A server's state shows only from outside (processes,
//! status variables), so conditions are polled.

use std::time::{Duration, Instant};

/// The time between two looks at the condition.
const INTERVAL: Duration = Duration::from_millis(50);

/// Looks until `probe` gives something, for at most `timeout`; at least once.
pub fn wait_for<T>(timeout: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(found) = probe() {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_is_looked_at_once_even_without_time() {
        assert_eq!(wait_for(Duration::ZERO, || Some(1)), Some(1));
        assert_eq!(wait_for(Duration::ZERO, || None::<u8>), None);
    }

    #[test]
    fn condition_that_comes_true_later_is_seen() {
        let mut looks = 0;
        let third = || {
            looks += 1;
            (looks == 3).then_some(looks)
        };
        assert_eq!(wait_for(Duration::from_secs(10), third), Some(3));
    }
}
