//! Control of a dump from other threads: acknowledge and stop.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::UpstreamError;
use crate::position::FilePosition;
use crate::protocol::command::acknowledgement;
use crate::protocol::link::Link;
use crate::protocol::packet;

/// Reaches a dump from any thread, also while one waits in
/// [`Upstream::next`](crate::Upstream::next).
#[derive(Clone, Debug)]
pub struct UpstreamHandle {
    link: Link,
    wanted: Arc<Mutex<Wanted>>,
}

/// The places that the upstream wants an acknowledgement of, in their order.
#[derive(Debug, Default)]
struct Wanted(VecDeque<FilePosition>);

impl Wanted {
    /// Takes what is safe with everything up to `end`. Returns the newest of them: the upstream
    /// takes its acknowledgement for those before it, too.
    fn take(&mut self, end: &FilePosition) -> Option<FilePosition> {
        let safe = self.0.partition_point(|place| place <= end);
        self.0.drain(..safe).next_back()
    }
}

impl UpstreamHandle {
    pub(crate) fn new(link: Link) -> UpstreamHandle {
        UpstreamHandle {
            link,
            wanted: Arc::default(),
        }
    }

    /// Notes that the upstream waits for this place.
    pub(crate) fn want(&self, place: FilePosition) {
        lock(&self.wanted).0.push_back(place);
    }

    /// Everything up to `end` (of a [`Part`](crate::Part)) is safe here. If the upstream waits for
    /// that, it is told, and its clients get their answers; otherwise nothing is sent.
    pub fn acknowledge(&self, end: &FilePosition) -> Result<(), UpstreamError> {
        // Sent with the lock, so that acknowledgements leave in their order.
        let mut wanted = lock(&self.wanted);
        match wanted.take(end) {
            Some(newest) => self.send(&newest),
            None => Ok(()),
        }
    }

    /// [`UpstreamHandle::acknowledge`] for a transaction received over an earlier connection.
    pub(crate) fn acknowledge_held(&self, end: &FilePosition) -> Result<(), UpstreamError> {
        let _ordered = lock(&self.wanted);
        self.send(end)
    }

    fn send(&self, end: &FilePosition) -> Result<(), UpstreamError> {
        let packet = packet::small(0, &acknowledgement(end));
        self.link.send(&packet).map_err(|error| {
            if self.link.is_stopped() {
                return UpstreamError::Stopped;
            }
            UpstreamError::Lost(error)
        })
    }

    /// Ends the connection: a waiting [`Upstream::next`](crate::Upstream::next) gives
    /// [`UpstreamError::Stopped`] at once.
    pub fn stop(&self) {
        self.link.stop();
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }
}

/// Locks even if a thread panicked while holding it: the list is valid at every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_safe_place_is_acknowledged_once() {
        let at = |file: &str, offset| FilePosition {
            file: file.to_owned(),
            offset,
        };
        let places = [at("log.9", 5), at("log.9", 8), at("log.10", 4)];
        let mut wanted = Wanted(places.into());
        assert_eq!(wanted.take(&at("log.9", 4)), None);
        assert_eq!(wanted.take(&at("log.9", 9)), Some(at("log.9", 8)));
        assert_eq!(wanted.take(&at("log.9", 9)), None);
        assert_eq!(wanted.take(&at("log.11", 4)), Some(at("log.10", 4)));
    }
}
