//! Feed of viewers: a look at the server each second, by server-sent events (WHATWG HTML, section
//! 9.2).
//!
//! The server is asked once for all viewers. Each viewer takes the latest look when its connection
//! has room: one that does not read keeps no look waiting, and costs a place until its connection
//! has lasted for the longest time. Each look is also the sign that agent and connection are alive:
//! one is sent about each second, also if the server does not answer.
//!
//! | event | data |
//! |---|---|
//! | `past` | the points of the last minutes; first of all, and after looks that were passed over |
//! | `look` | a point, and the status of the server, or why there is none |
//! | `happened` | events as of `synod why`, when they have changed |

use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::channel::{Channel, Sender};
use hyper::body::Bytes;
use serde::Serialize;
use synod_admin::event::Event;
use synod_admin::status::Status;
use synod_admin::unix_ms;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::MissedTickBehavior;

use super::history::{History, Point};
use crate::{Asker, Seen};

/// Viewers at a time. Fewer than connections, so that checks have room.
const VIEWERS_MAX: usize = 16;
/// Time between two looks.
const RHYTHM: Duration = Duration::from_secs(1);

/// Feed of all viewers. Ends with its runtime.
pub(crate) struct Feed {
    latest: watch::Sender<Latest>,
    places: Arc<Semaphore>,
}

#[derive(Clone, Debug, Default)]
struct Latest {
    /// Number of the look; zero: there was none yet.
    number: u64,
    look: Bytes,
    happened: Happened,
    history: History,
}

/// Events, written once for all viewers.
#[derive(Clone, Debug, Default)]
struct Happened {
    number: u64,
    known: Option<Arc<Vec<Event>>>,
    message: Bytes,
}

#[derive(Serialize)]
struct Look<'a> {
    point: &'a Point,
    status: Option<&'a Status>,
    /// Why there is no status, in a sentence.
    trouble: Option<&'a str>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyViewers;

impl Feed {
    /// Begins to look. In a runtime.
    pub(crate) fn start(asker: Asker) -> Arc<Feed> {
        let feed = Arc::new(Feed {
            latest: watch::Sender::new(Latest::default()),
            places: Arc::new(Semaphore::new(VIEWERS_MAX)),
        });
        tokio::spawn(look_on(feed.clone(), asker));
        feed
    }

    pub(crate) fn watch(&self) -> Result<Channel<Bytes>, TooManyViewers> {
        let place = self.places.clone().try_acquire_owned();
        let place = place.map_err(|_| TooManyViewers)?;
        let (sender, body) = Channel::new(1);
        tokio::spawn(send_all(self.latest.subscribe(), sender, place));
        Ok(body)
    }
}

async fn look_on(feed: Arc<Feed>, asker: Asker) {
    let mut rhythm = tokio::time::interval(RHYTHM);
    rhythm.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rhythm.tick().await;
        let seen = asker.status().await;
        // Without a viewer no events are asked for.
        let events = match &seen {
            Ok(_) if feed.latest.receiver_count() > 0 => asker.events().await.ok(),
            _ => None,
        };
        feed.latest.send_modify(|latest| {
            latest.note(Instant::now(), unix_ms(), &seen);
            if let Some(events) = events {
                latest.happened.note(events);
            }
        });
    }
}

impl Latest {
    fn note(&mut self, at: Instant, unix_ms: u64, seen: &Seen) {
        let status = seen.as_deref().ok();
        let point = self.history.note(at, unix_ms, status);
        let look = Look {
            point: &point,
            status,
            trouble: seen.as_ref().err().map(|why| &**why),
        };
        self.look = message("look", &look);
        self.number += 1;
    }
}

impl Happened {
    fn note(&mut self, events: Arc<Vec<Event>>) {
        if self.known.as_ref() != Some(&events) {
            self.message = message("happened", &*events);
            self.number += 1;
            self.known = Some(events);
        }
    }
}

/// An event of the stream. JSON has its line ends escaped, so the data is one line.
fn message(event: &str, data: &impl Serialize) -> Bytes {
    // Maps with keys that are no text would be refused; there are none.
    let data = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
    Bytes::from(format!("event: {event}\ndata: {data}\n\n"))
}

/// Sends until the viewer has gone.
async fn send_all(
    mut latest: watch::Receiver<Latest>,
    mut viewer: Sender<Bytes>,
    _place: OwnedSemaphorePermit,
) {
    let (mut look, mut happened) = (0, 0);
    loop {
        let mut messages = Vec::new();
        {
            let latest = latest.borrow_and_update();
            if latest.number > look {
                if look == 0 || latest.number > look + 1 {
                    messages.push(message("past", latest.history.points()));
                }
                messages.push(latest.look.clone());
                look = latest.number;
            }
            if latest.happened.number > happened {
                messages.push(latest.happened.message.clone());
                happened = latest.happened.number;
            }
        }
        for message in messages {
            if viewer.send_data(message).await.is_err() {
                return;
            }
        }
        if latest.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn feed() -> Arc<Feed> {
        let asker = Asker::start(Box::new(|| Err("it is <gone>\nfor good".into()))).unwrap();
        Feed::start(asker)
    }

    async fn next(body: &mut Channel<Bytes>) -> String {
        let frame = body.frame().await.unwrap().unwrap();
        String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
    }

    fn run(test: impl Future<Output = ()>) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().unwrap().block_on(test);
    }

    #[test]
    fn viewer_gets_the_past_first_and_then_looks_that_say_why_there_is_no_status() {
        run(async {
            let feed = feed();
            let mut viewer = feed.watch().unwrap();
            let past = next(&mut viewer).await;
            assert!(past.starts_with("event: past\ndata: [{"), "{past}");
            for _ in 0..2 {
                let look = next(&mut viewer).await;
                assert!(look.starts_with("event: look\ndata: {"), "{look}");
                let text = r#""status":null,"trouble":"it is <gone>\nfor good""#;
                assert!(look.contains(text) && look.ends_with("\n\n"), "{look}");
                assert_eq!(look.lines().count(), 3, "{look}");
            }
        });
    }

    #[test]
    fn number_of_viewers_is_bounded_and_those_that_go_leave_their_place() {
        run(async {
            let feed = feed();
            let mut viewers: Vec<_> = (0..VIEWERS_MAX).map(|_| feed.watch().unwrap()).collect();
            assert_eq!(feed.watch().err(), Some(TooManyViewers));
            viewers.pop();
            // The place is free when the viewer's task sees at a look that its viewer has gone.
            let freed = tokio::time::timeout(Duration::from_secs(60), feed.places.acquire());
            drop(freed.await.unwrap());
            assert!(feed.watch().is_ok());
        });
    }

    /// The viewer gets the latest look when it reads again, and the points that it has missed.
    #[test]
    fn viewer_that_does_not_read_is_not_waited_for() {
        run(async {
            let feed = feed();
            let mut sleeper = feed.watch().unwrap();
            let mut viewer = feed.watch().unwrap();
            for _ in 0..6 {
                next(&mut viewer).await;
            }
            let looks = feed.latest.borrow().number;
            assert!(looks >= 5, "{looks}");
            // One message was on its way, and one in the hand of the task.
            let mut seen = Vec::new();
            while seen.iter().filter(|kind| *kind == "event: past").count() < 2 {
                let message = next(&mut sleeper).await;
                seen.push(message.lines().next().unwrap().to_owned());
                assert!(seen.len() <= 4, "{seen:?}");
            }
        });
    }
}
