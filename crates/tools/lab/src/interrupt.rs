//! Ctrl-C and other signals that end the lab: everything is removed first.

use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{IoContext, Result};
use crate::hosts::place::Place;
use crate::systems::agent;

/// Exit code of a command that a signal ended, as shells give it for Ctrl-C.
const INTERRUPTED: i32 = 130;

/// Whether a signal has come, and its thread removes the lab.
static INTERRUPTED_BY_SIGNAL: AtomicBool = AtomicBool::new(false);

/// Has everything that carries the lab's name removed when a signal ends this process. What the
/// main thread waits for meanwhile ends with the processes that are killed.
pub(crate) fn remove_at_signal(place: Place) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("wait for", "signals")?;
    std::thread::spawn(move || {
        if signals.forever().next().is_none() {
            return; // it waits for ever
        }
        INTERRUPTED_BY_SIGNAL.store(true, Ordering::SeqCst);
        eprintln!("interrupted; removing the lab");
        if let Err(error) = agent::end_all().and(place.remove_all()) {
            eprintln!("synod-lab: something is left behind: {error}");
            std::process::exit(1);
        }
        std::process::exit(INTERRUPTED);
    });
    Ok(())
}

/// Waits for the end of the process if a signal has come: then the other thread removes the lab,
/// and what fails meanwhile fails because of that.
pub(crate) fn wait_if_interrupted() {
    while INTERRUPTED_BY_SIGNAL.load(Ordering::SeqCst) {
        std::thread::park();
    }
}
