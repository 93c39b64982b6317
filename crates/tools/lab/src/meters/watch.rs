//! Polls the status of servers in the background.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::error::{MeterError, Result};
use super::group::{Group, Status};

const EVERY: Duration = Duration::from_millis(100);

/// The status of all servers at one moment, by their places. None: one that did not answer.
pub type Moment = Vec<Option<Status>>;

#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Moment>>>,
}

impl Watch {
    pub fn start(group: &Group) -> Result<Watch> {
        let mut connections = Vec::new();
        for server in &group.servers {
            connections.push((server.clone(), server.connect()?));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut moments = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let look = connections.iter_mut();
                let moment = look.map(|(server, by)| server.status_by(by).ok());
                moments.push(moment.collect());
                std::thread::sleep(EVERY);
            }
            moments
        });
        Ok(Watch {
            stop,
            thread: Some(thread),
        })
    }

    pub fn finish(mut self) -> Result<Vec<Moment>> {
        self.stop.store(true, Ordering::Relaxed);
        let joined = self.thread.take().map(JoinHandle::join);
        joined
            .unwrap_or(Ok(Vec::new()))
            .map_err(|_| MeterError::Panicked)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic has been printed
        }
    }
}

/// Greatest lag of a server behind another one, in actions.
pub fn most_behind(moments: &[Moment], server: usize, origin: usize) -> i64 {
    let position = |moment: &Moment, place: usize| {
        let status = moment.get(place)?.as_ref()?;
        super::group::number(status, "wsrep_last_committed")
    };
    let behind = |moment| Some(position(moment, origin)? - position(moment, server)?);
    moments.iter().filter_map(behind).fold(0, i64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greatest_distance_is_found_whatever_did_not_answer() {
        let at = |seqno: i64| {
            let pair = ("wsrep_last_committed".to_owned(), seqno.to_string());
            Some(Status::from([pair]))
        };
        let moments = [
            vec![at(10), at(9)],
            vec![at(90), None],
            vec![at(50), at(20)],
            vec![at(60), at(60)],
        ];
        assert_eq!(most_behind(&moments, 1, 0), 30);
        assert_eq!(most_behind(&moments, 0, 1), 0);
    }
}
