//! Ctrl-C while servers of others are observed: what the meter changed is put back first.
//!
//! A signal only sets a flag. Whatever waits ends with an error, and what was changed is put back
//! on the way out, as after any other error. A second signal ends the process at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::error::{IoContext, MeterError, Result};

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Exit code after a second signal, as shells give it for Ctrl-C.
const INTERRUPTED: i32 = 130;

static SIGNALLED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Has signals end what waits.
pub fn watch_signals() -> Result<()> {
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag not set yet.
        flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&SIGNALLED))
            .and_then(|_| flag::register(signal, Arc::clone(&SIGNALLED)))
            .context("wait for", "signals")?;
    }
    Ok(())
}

/// Waits; an error as soon as a signal has come.
pub fn pause(time: Duration) -> Result<()> {
    let begin = Instant::now();
    loop {
        if SIGNALLED.load(Ordering::SeqCst) {
            return Err(MeterError::Interrupted);
        }
        let left = time.saturating_sub(begin.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK_EVERY));
    }
}
