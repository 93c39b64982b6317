//! Asks the server for its status, its events and its work as a relay, one question at a time, for
//! all clients.
//!
//! ```text
//! client ──┐                    ┌ a thread of its own
//! client ──┼─ waiting ─► worker ┴─ status ─► server
//! client ──┘    each gets the answer to a question that began after it came,
//!               or one that is at most 100 ms old
//! ```
//! However many clients ask, the server is asked each question ten times a second at most. A client
//! waits for a bounded time: a server that hangs is not healthy, and a check must say so.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use synod_admin::Client;
use synod_admin::event::Event;
use synod_admin::protocol::{Answer, Request};
use synod_admin::relay::RelayStatus;
use synod_admin::status::Status;
use tokio::sync::{mpsc, oneshot};

/// Clients that may wait at a time.
const WAITING_MAX: usize = 128;
/// Longest wait of a client. Less than checks usually wait (Kubernetes: 1 s; HAProxy: 2 s).
const PATIENCE: Duration = Duration::from_millis(800);
/// Time limit for the server's answer. Until then no other question is asked.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Greatest age of an answer that a client gets.
const FRESH: Duration = Duration::from_millis(100);

/// Connects to the server; if that fails, says why, in a sentence.
pub type Connect = Box<dyn FnMut() -> Result<Client, String> + Send>;

/// Answer of the server, or the reason for none, in a sentence.
pub(crate) type Known<T> = Result<Arc<T>, Arc<str>>;

/// Status of the server, or the reason for none, in a sentence.
pub type Seen = Known<Status>;

pub type SeenRelay = Known<RelayStatus>;

#[derive(Debug)]
enum Waiting {
    Status(oneshot::Sender<Seen>),
    Events(oneshot::Sender<Known<Vec<Event>>>),
    Relay(oneshot::Sender<Known<RelayStatus>>),
}

/// A handle of the thread that asks. The thread ends with the last handle.
#[derive(Clone, Debug)]
pub struct Asker {
    waiting: mpsc::Sender<Waiting>,
}

impl Asker {
    pub fn start(connect: Connect) -> io::Result<Asker> {
        let (waiting, clients) = mpsc::channel(WAITING_MAX);
        std::thread::Builder::new()
            .name("asker".into())
            .spawn(move || answer_all(clients, connect))?;
        Ok(Asker { waiting })
    }

    pub async fn status(&self) -> Seen {
        self.ask(Waiting::Status).await
    }

    /// Recent events of the server, oldest first.
    pub(crate) async fn events(&self) -> Known<Vec<Event>> {
        self.ask(Waiting::Events).await
    }

    /// The work of the server as a relay; an error if the server is none.
    pub(crate) async fn relay(&self) -> Known<RelayStatus> {
        self.ask(Waiting::Relay).await
    }

    async fn ask<T>(&self, waiting: impl FnOnce(oneshot::Sender<Known<T>>) -> Waiting) -> Known<T> {
        let (reply, answer) = oneshot::channel();
        if self.waiting.try_send(waiting(reply)).is_err() {
            return Err("too many clients ask this agent at a time".into());
        }
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(seen)) => seen,
            Ok(Err(_)) => Err("the agent could not ask its server: restart the agent".into()),
            Err(_) => Err(format!(
                "the server has not answered for {} ms. If that lasts, look into its error log",
                PATIENCE.as_millis()
            )
            .into()),
        }
    }
}

fn answer_all(mut clients: mpsc::Receiver<Waiting>, mut connect: Connect) {
    let mut status = Answered::default();
    let mut events = Answered::default();
    let mut relay = Answered::default();
    while let Some(first) = clients.blocking_recv() {
        let (mut for_status, mut for_events, mut for_relay) = (Vec::new(), Vec::new(), Vec::new());
        let mut next = Some(first);
        while let Some(client) = next {
            match client {
                Waiting::Status(client) => for_status.push(client),
                Waiting::Events(client) => for_events.push(client),
                Waiting::Relay(client) => for_relay.push(client),
            }
            next = clients.try_recv().ok();
        }
        status.tell(for_status, || ask(&mut connect, Request::Status, status_of));
        events.tell(for_events, || ask(&mut connect, Request::Events, events_of));
        relay.tell(for_relay, || {
            ask(&mut connect, Request::RelayStatus, relay_of)
        });
    }
}

/// The last answer to a kind of question.
struct Answered<T>(Option<(Instant, Known<T>)>);

impl<T> Default for Answered<T> {
    fn default() -> Answered<T> {
        Answered(None)
    }
}

impl<T> Answered<T> {
    /// Tells all of them the last answer if it is fresh, and another one otherwise.
    fn tell(
        &mut self,
        mut clients: Vec<oneshot::Sender<Known<T>>>,
        ask: impl FnOnce() -> Known<T>,
    ) {
        // Those that wait no longer need no question.
        clients.retain(|client| !client.is_closed());
        if clients.is_empty() {
            return;
        }
        let kept = self.0.take().filter(|(at, _)| at.elapsed() < FRESH);
        let (at, known) = kept.unwrap_or_else(|| (Instant::now(), ask()));
        for client in clients {
            // It may have gone meanwhile.
            let _ = client.send(known.clone());
        }
        self.0 = Some((at, known));
    }
}

/// A connection for each question: a server that was restarted needs no care.
fn ask<T>(connect: &mut Connect, request: Request, wanted: fn(Answer) -> Option<T>) -> Known<T> {
    let mut client = connect()?;
    match client.ask(request, ANSWER_LIMIT).map(wanted) {
        Ok(Some(answer)) => Ok(Arc::new(answer)),
        Ok(None) => Err(client.unexpected().to_string().into()),
        Err(error) => Err(error.to_string().into()),
    }
}

fn status_of(answer: Answer) -> Option<Status> {
    match answer {
        Answer::Status(status) => Some(*status),
        _ => None,
    }
}

fn events_of(answer: Answer) -> Option<Vec<Event>> {
    match answer {
        Answer::Events(events) => Some(events),
        _ => None,
    }
}

fn relay_of(answer: Answer) -> Option<RelayStatus> {
    match answer {
        Answer::Relay(status) => Some(*status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Begins to wait, and gives the answer if there is one at once.
    fn begin(asker: &Asker) -> (Pin<Box<dyn Future<Output = Seen>>>, Option<Seen>) {
        let asker = asker.clone();
        let mut client: Pin<Box<dyn Future<Output = Seen>>> =
            Box::pin(async move { asker.status().await });
        let mut context = Context::from_waker(Waker::noop());
        let seen = match client.as_mut().poll(&mut context) {
            Poll::Ready(seen) => Some(seen),
            Poll::Pending => None,
        };
        (client, seen)
    }

    /// Without such a bound, clients of a hanging server would pile up.
    #[test]
    fn clients_of_a_server_that_hangs_are_told_so_and_bounded_in_number() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let (enter, entered) = std::sync::mpsc::channel();
        let connect: Connect = Box::new(move || {
            enter.send(()).unwrap();
            let _ = held.recv();
            Err("gone".into())
        });
        let asker = Asker::start(connect).unwrap();
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (first, seen) = begin(&asker);
            assert!(seen.is_none());
            entered.recv().unwrap();
            let late = first.await.unwrap_err();
            assert!(late.contains("has not answered"), "{late}");
            let clients: Vec<_> = (0..=WAITING_MAX).map(|_| begin(&asker)).collect();
            let answers = clients.iter().filter_map(|(_, seen)| seen.as_ref());
            let answers: Vec<_> = answers.collect();
            assert_eq!(answers.len(), 1);
            let text = answers[0].as_ref().unwrap_err();
            assert!(text.contains("too many clients"), "{text}");
        });
        drop(release);
    }

    #[test]
    fn reason_of_a_failed_connection_is_told_and_many_clients_cost_one_question() {
        static QUESTIONS: AtomicUsize = AtomicUsize::new(0);
        let connect: Connect = Box::new(|| {
            QUESTIONS.fetch_add(1, Ordering::Relaxed);
            Err("tried /var/lib/mysql".into())
        });
        let asker = Asker::start(connect).unwrap();
        let begin = Instant::now();
        let mut asked = 0;
        while begin.elapsed() < 2 * FRESH {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_time().build().unwrap();
            let seen = runtime.block_on(asker.status());
            assert_eq!(&*seen.unwrap_err(), "tried /var/lib/mysql");
            asked += 1;
        }
        let bound = begin.elapsed().as_millis() / FRESH.as_millis() + 1;
        let questions = QUESTIONS.load(Ordering::Relaxed);
        assert!(
            questions as u128 <= bound,
            "{questions} for {asked} clients"
        );
    }
}
