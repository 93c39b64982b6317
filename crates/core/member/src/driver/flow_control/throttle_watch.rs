//! Watches for episodes in which writes are slowed down. An episode lasts from the first wait until
//! there was none for a while, so that operators read two lines of it, and not one for each wait.

use std::time::Duration;

use synod_consensus::Time;

/// An episode is over when writes have not waited for so long.
const QUIET: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct ThrottleWatch {
    /// How often writes had begun to wait, and for how long in all, when last looked.
    seen: Option<(u64, Duration)>,
    episode: Option<Episode>,
}

struct Episode {
    /// How long writes had waited in all before it.
    paused_before: Duration,
    last_wait: Time,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ThrottleNews {
    Begins,
    Ends(Duration),
}

impl ThrottleWatch {
    /// Writes have begun to wait so often by now, and have waited for so long in all.
    pub(super) fn look(
        &mut self,
        now: Time,
        pauses: u64,
        paused: Duration,
    ) -> Option<ThrottleNews> {
        let (seen, before) = self.seen.replace((pauses, paused))?;
        let waits = pauses > seen || paused > before;
        match &mut self.episode {
            None if waits => {
                self.episode = Some(Episode {
                    paused_before: before,
                    last_wait: now,
                });
                Some(ThrottleNews::Begins)
            }
            Some(episode) if waits => {
                episode.last_wait = now;
                None
            }
            Some(episode) if now.since(episode.last_wait) >= QUIET => {
                let took = paused.saturating_sub(episode.paused_before);
                self.episode = None;
                Some(ThrottleNews::Ends(took))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn episode_has_a_beginning_and_an_end() {
        let mut watch = ThrottleWatch::default();
        let mut look = |secs: u64, pauses, ms| {
            watch.look(Time(secs * 1_000_000), pauses, Duration::from_millis(ms))
        };
        assert_eq!(look(0, 7, 700), None, "before this member looked");
        assert_eq!(look(1, 7, 700), None);
        assert_eq!(look(2, 8, 700), Some(ThrottleNews::Begins));
        assert_eq!(look(3, 8, 900), None);
        assert_eq!(
            look(12, 9, 950),
            None,
            "a wait after a pause of nine seconds"
        );
        assert_eq!(look(21, 9, 950), None);
        let took = Duration::from_millis(250);
        assert_eq!(look(22, 9, 950), Some(ThrottleNews::Ends(took)));
        assert_eq!(look(60, 9, 950), None);
    }
}
