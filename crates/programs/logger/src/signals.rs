//! SIGTERM and SIGINT end a logger, SIGHUP makes it read its credentials again.
//!
//! The signals are blocked in all threads, and one thread waits for them: nothing runs in a signal
//! handler.

use std::sync::mpsc::Sender;

use nix::sys::signal::{SigSet, Signal};

use crate::run::News;

pub(crate) struct Signals(SigSet);

impl Signals {
    pub(crate) fn block() -> std::io::Result<Signals> {
        let set = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
        set.thread_block()?;
        Ok(Signals(set))
    }

    /// Starts the thread that waits for the signals. It ends with the process.
    pub(crate) fn report_to(self, news: Sender<News>) -> std::io::Result<()> {
        let wait = move || {
            while let Ok(signal) = self.0.wait() {
                let event = match signal {
                    Signal::SIGHUP => News::Reload,
                    _ => News::Stop,
                };
                if news.send(event).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("synod-signals".to_owned())
            .spawn(wait)?;
        Ok(())
    }
}
