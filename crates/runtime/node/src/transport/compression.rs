//! Decides whether a lane compresses: only while the link is the bottleneck.
//!
//! The sending thread measures, per window of [`WINDOW`], for how long it wrote, for how long it
//! compressed, and how many bytes it sent. A link that is short keeps it writing nearly all the
//! time. So does a receiver that is short of processor, and bytes that no compressor makes shorter
//! help neither. Therefore compression has to prove itself: it stays on only if more bytes get
//! through than did without. If they do not, it is not tried again for a while, which doubles with
//! each failure. It ends, too, when the link would carry the load without it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use synod_consensus::MemberId;
use synod_member::lock;
use synod_wire::Compression;

use super::Transport;

/// Over which time is judged.
const WINDOW: Duration = Duration::from_secs(1);
/// A lane that writes for this share of a window waits for the link. Percent.
const SHORT_PERCENT: u128 = 70;
/// With compression more bytes must get through by this much, in percent of those without.
const GAIN_PERCENT: u64 = 115;
/// A load below this share of what the link took without compression needs none. Percent.
const EASY_PERCENT: u64 = 60;
/// Windows of an easy load before compression ends.
const EASY_WINDOWS: u32 = 10;
/// Windows before compression is judged: what was queued without it has left by then.
const TRIAL_WINDOWS: u32 = 2;
/// How long compression is not tried after it has failed, at first and at most.
const RETRY_MIN: Duration = Duration::from_secs(10);
const RETRY_MAX: Duration = Duration::from_secs(600);

/// When a lane compresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompressionChoice {
    /// While its link is slower than its load, and compression lets more through.
    #[default]
    Auto,
    /// Whenever a message gets shorter by it.
    Always,
    Never,
}

/// Bytes that one flush of a lane sent, and the time it took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// Bytes without compression, and as sent.
    pub(super) bytes: Compression,
    pub(super) compressing: Duration,
    pub(super) writing: Duration,
}

/// The measurements of one lane's connection, and what follows from them.
#[derive(Debug)]
pub(super) struct LinkSpeed {
    choice: CompressionChoice,
    mode: Mode,
    window: Window,
    retry_at: Instant,
    retry_after: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Plain,
    /// Compresses; `before` bytes a second got through without.
    Compressing {
        before: u64,
        windows: u32,
        easy: u32,
    },
}

#[derive(Clone, Copy, Debug)]
struct Window {
    begun: Instant,
    plain: u64,
    writing: Duration,
    compressing: Duration,
}

impl Window {
    fn new(begun: Instant) -> Window {
        Window {
            begun,
            plain: 0,
            writing: Duration::ZERO,
            compressing: Duration::ZERO,
        }
    }

    fn add(&mut self, sent: &Sent) {
        self.plain += sent.bytes.plain as u64;
        self.writing += sent.writing;
        self.compressing += sent.compressing;
    }

    /// Bytes a second that got through, before compression.
    fn rate(&self, now: Instant) -> u64 {
        let took = (now - self.begun).as_micros().max(1);
        let rate = u128::from(self.plain) * 1_000_000 / took;
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// Whether the lane was busy sending nearly all the time.
    fn is_busy(&self, now: Instant) -> bool {
        let busy = (self.writing + self.compressing).as_micros();
        busy * 100 >= (now - self.begun).as_micros() * SHORT_PERCENT
    }
}

impl LinkSpeed {
    /// A new connection's, which knows nothing of its link.
    pub(super) fn new(choice: CompressionChoice, now: Instant) -> LinkSpeed {
        LinkSpeed {
            choice,
            mode: Mode::Plain,
            window: Window::new(now),
            retry_at: now,
            retry_after: RETRY_MIN,
        }
    }

    pub(super) fn compresses(&self) -> bool {
        match self.choice {
            CompressionChoice::Auto => self.mode != Mode::Plain,
            CompressionChoice::Always => true,
            CompressionChoice::Never => false,
        }
    }

    pub(super) fn note(&mut self, now: Instant, sent: &Sent) {
        self.window.add(sent);
        if now - self.window.begun >= WINDOW {
            let window = std::mem::replace(&mut self.window, Window::new(now));
            self.judge(now, &window);
        }
    }

    fn judge(&mut self, now: Instant, window: &Window) {
        let rate = window.rate(now);
        self.mode = match self.mode {
            Mode::Plain if window.is_busy(now) && now >= self.retry_at => Mode::Compressing {
                before: rate,
                windows: 0,
                easy: 0,
            },
            Mode::Plain => Mode::Plain,
            Mode::Compressing {
                before,
                windows,
                easy,
            } => {
                let windows = windows.saturating_add(1);
                let is_useless = window.is_busy(now) && rate < before / 100 * GAIN_PERCENT;
                let easy = if rate < before / 100 * EASY_PERCENT {
                    easy + 1
                } else {
                    0
                };
                if is_useless && windows > TRIAL_WINDOWS {
                    self.retry_at = now + self.retry_after;
                    self.retry_after = (self.retry_after * 2).min(RETRY_MAX);
                    Mode::Plain
                } else if easy >= EASY_WINDOWS {
                    self.retry_after = RETRY_MIN;
                    Mode::Plain
                } else {
                    Mode::Compressing {
                        before,
                        windows,
                        easy,
                    }
                }
            }
        };
    }
}

/// Bytes sent over the bulk lanes, with and without compression, for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompressionStatus {
    /// Bytes of the messages, without compression.
    pub plain_bytes: u64,
    /// Bytes that were sent in their place.
    pub sent_bytes: u64,
    /// Members to which messages are compressed at the moment, ascending.
    pub members: Vec<MemberId>,
}

/// Bytes that compression has saved since the start of the node.
#[derive(Debug, Default)]
pub(super) struct CompressionTotals {
    plain: AtomicU64,
    sent: AtomicU64,
}

impl CompressionTotals {
    pub(super) fn add(&self, bytes: Compression) {
        self.plain.fetch_add(bytes.plain as u64, Ordering::Relaxed);
        self.sent.fetch_add(bytes.sent as u64, Ordering::Relaxed);
    }
}

impl Transport {
    /// Bytes sent over the bulk lanes so far.
    pub(crate) fn compression_status(&self) -> CompressionStatus {
        let links = lock(&self.links);
        let compressing = links.values().filter(|link| link.compresses());
        let mut members: Vec<_> = compressing.map(|link| link.member()).collect();
        members.sort_unstable();
        CompressionStatus {
            plain_bytes: self.compression_totals.plain.load(Ordering::Relaxed),
            sent_bytes: self.compression_totals.sent.load(Ordering::Relaxed),
            members,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;
    const STEP: Duration = Duration::from_millis(100);

    /// A lane that sends over a link: bytes a second that each part manages.
    struct Lane {
        load: u64,
        link: u64,
        compressor: u64,
        /// Bytes that a compressed hundred leaves.
        left_percent: u64,
    }

    /// A lane whose link carries less than half of its load, and whose bytes become much shorter.
    const SLOW_LINK: Lane = Lane {
        load: 30 * MB,
        link: 12 * MB,
        compressor: 400 * MB,
        left_percent: 30,
    };

    impl Lane {
        /// Sends for `seconds`; how often the choice changed, and whether it compresses at the end.
        fn run(&self, speed: &mut LinkSpeed, now: &mut Instant, seconds: u64) -> (u32, bool) {
            let mut changes = 0;
            let mut was = speed.compresses();
            let mut owed = 0_u64;
            for _ in 0..seconds * 10 {
                *now += STEP;
                owed = (owed + self.load / 10).min(self.load);
                let sent = self.step(speed.compresses(), owed);
                owed -= sent.bytes.plain as u64;
                speed.note(*now, &sent);
                changes += u32::from(was != speed.compresses());
                was = speed.compresses();
            }
            (changes, was)
        }

        /// The part of `owed` bytes that fits into one step.
        fn step(&self, compresses: bool, owed: u64) -> Sent {
            let step = STEP.as_micros() as u64;
            let per_byte = |rate: u64, bytes: u64| bytes * 1_000_000 / rate;
            let (left, compressor) = if compresses {
                (self.left_percent, self.compressor)
            } else {
                (100, u64::MAX)
            };
            let fits = |plain: u64| {
                let (c, w) = (
                    per_byte(compressor, plain),
                    per_byte(self.link, plain * left / 100),
                );
                (c + w <= step).then_some((c, w))
            };
            let mut plain = owed;
            while fits(plain).is_none() {
                plain = plain * 99 / 100;
            }
            let (c, w) = fits(plain).unwrap();
            Sent {
                bytes: Compression {
                    plain: plain as usize,
                    sent: (plain * left / 100) as usize,
                },
                compressing: Duration::from_micros(c),
                writing: Duration::from_micros(w),
            }
        }
    }

    fn begin() -> (LinkSpeed, Instant) {
        let now = Instant::now();
        (LinkSpeed::new(CompressionChoice::Auto, now), now)
    }

    #[test]
    fn slow_link_is_spared_and_stays_so() {
        let (mut speed, mut now) = begin();
        assert_eq!(SLOW_LINK.run(&mut speed, &mut now, 120), (1, true));
    }

    #[test]
    fn fast_link_costs_no_processor() {
        let (mut speed, mut now) = begin();
        let lane = Lane {
            load: 80 * MB,
            link: 1_200 * MB,
            ..SLOW_LINK
        };
        assert_eq!(lane.run(&mut speed, &mut now, 60), (0, false));
    }

    #[test]
    fn bytes_that_do_not_get_shorter_are_tried_ever_more_seldom() {
        let (mut speed, mut now) = begin();
        let lane = Lane {
            left_percent: 100,
            ..SLOW_LINK
        };
        let (changes, compresses) = lane.run(&mut speed, &mut now, 600);
        assert!(!compresses);
        // On and off after 10, 20, 40, ... seconds.
        assert!((6..=14).contains(&changes), "{changes} changes");
    }

    #[test]
    fn compressor_that_is_slower_than_the_link_is_given_up() {
        let (mut speed, mut now) = begin();
        let lane = Lane {
            load: 900 * MB,
            link: 600 * MB,
            ..SLOW_LINK
        };
        assert!(!lane.run(&mut speed, &mut now, 60).1);
    }

    #[test]
    fn compression_ends_when_the_link_would_carry_the_load() {
        let (mut speed, mut now) = begin();
        let mut lane = SLOW_LINK;
        assert!(lane.run(&mut speed, &mut now, 30).1);
        // A load that the link carries only just: no change for a while yet.
        lane.load = 9 * MB;
        assert_eq!(lane.run(&mut speed, &mut now, 60), (0, true));
        lane.load = 2 * MB;
        assert_eq!(lane.run(&mut speed, &mut now, 60), (1, false));
    }

    #[test]
    fn choice_of_the_operator_is_obeyed() {
        let now = Instant::now();
        assert!(LinkSpeed::new(CompressionChoice::Always, now).compresses());
        let (mut speed, mut now) = begin();
        speed.choice = CompressionChoice::Never;
        assert_eq!(SLOW_LINK.run(&mut speed, &mut now, 30), (0, false));
    }
}
