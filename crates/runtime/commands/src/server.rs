//! The threads that wait for clients and serve them.

use std::io::Read;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use synod_admin::command_rights::{CommandRights, rights_of};
use synod_admin::protocol::{Reply, Request};
use synod_admin::socket::{GroupAccess, ListenError, Listening, STATUS_GROUP};
use synod_admin::{Accepted, ServeLimits, refuse_busy, serve};
use synod_node::Level;

use crate::surroundings::Surroundings;

const CLIENTS_MAX: usize = 8;
/// Clients among them that may only ask for the status: others can still give orders.
const STATUS_CLIENTS_MAX: usize = 4;
/// Interval of checks of the socket while no client comes.
const LOOK_PERIOD: Duration = Duration::from_secs(2);
/// Pause after the system has refused a client, for instance for want of files.
const REFUSED_PAUSE: Duration = Duration::from_millis(200);

pub(crate) const PROGRAM_VERSION: &str = env!("CARGO_PKG_VERSION");

pub type Answerer = Arc<dyn Fn(Request) -> Reply + Send + Sync>;

/// Serves commands from [`CommandServer::begin`] until [`CommandServer::stop`].
#[derive(Default)]
pub struct CommandServer {
    running: Mutex<Option<Running>>,
}

struct Running {
    /// Dropped to end the thread.
    order: UnixStream,
    thread: JoinHandle<()>,
}

impl CommandServer {
    /// Listens in the log directory, which this process has locked. Without effect while it does.
    /// After an error the server works without commands.
    pub fn begin(
        &self,
        log_dir: &Path,
        answer: Answerer,
        surroundings: &Arc<dyn Surroundings>,
    ) -> Result<(), String> {
        let mut running = lock(&self.running);
        if running.as_ref().is_some_and(|r| !r.thread.is_finished()) {
            return Ok(());
        }
        let listening = Listening::begin(log_dir).map_err(|e| e.to_string())?;
        if listening.access() == GroupAccess::NotInGroup {
            surroundings.log(Level::Warning, &closed_to_group());
        }
        let no_thread = |e: std::io::Error| format!("cannot start thread synod-admin: {e}");
        let (wake, order) = UnixStream::pair().map_err(no_thread)?;
        let reception = Reception {
            log_dir: log_dir.to_owned(),
            clients: Clients::new(answer, surroundings.clone()),
            surroundings: surroundings.clone(),
        };
        let body = Box::new(move || reception.run(listening, &wake));
        let thread = surroundings.spawn("synod-admin", body).map_err(no_thread)?;
        *running = Some(Running { order, thread });
        Ok(())
    }

    pub fn stop(&self) {
        let Some(Running { order, thread }) = lock(&self.running).take() else {
            return;
        };
        drop(order);
        // A thread that panicked has said so.
        let _ = thread.join();
    }
}

fn closed_to_group() -> String {
    format!(
        "this machine has the group {STATUS_GROUP}, and the user that this server runs as is not \
         in it: an agent with a user of its own cannot ask how this server is. Add the user \
         (usermod --append --groups {STATUS_GROUP} USER) and restart the server"
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Reception {
    log_dir: PathBuf,
    clients: Clients,
    surroundings: Arc<dyn Surroundings>,
}

impl Reception {
    fn run(mut self, listening: Listening, wake: &UnixStream) {
        let mut listening = Some(listening);
        loop {
            let Some(socket) = &listening else {
                if is_ended_within(wake, LOOK_PERIOD) {
                    break;
                }
                listening = Listening::begin(&self.log_dir).ok();
                continue;
            };
            match socket.accept(wake, LOOK_PERIOD) {
                Ok(Accepted::Client(stream)) => self.clients.take(stream),
                Ok(Accepted::Nothing) => {}
                Ok(Accepted::Woken) => break,
                Err(_) => std::thread::sleep(REFUSED_PAUSE),
            }
            if !socket.is_in_place() {
                drop(listening.take());
                listening = self.listen_again();
            }
        }
        self.clients.end();
    }

    /// Makes the socket again. No other process has the directory, whose log is locked.
    fn listen_again(&self) -> Option<Listening> {
        let error: ListenError = match Listening::begin(&self.log_dir) {
            Ok(listening) => return Some(listening),
            Err(error) => error,
        };
        let text = format!(
            "{error}. The program synod cannot reach this server until that is possible again"
        );
        self.surroundings.log(Level::Warning, &text);
        None
    }
}

/// Whether the other end of `wake` is closed, now or within the limit.
fn is_ended_within(mut wake: &UnixStream, limit: Duration) -> bool {
    // A socket of this process without a limit would only wait for its end.
    let _ = wake.set_read_timeout(Some(limit));
    matches!(wake.read(&mut [0]), Ok(0))
}

struct Clients {
    answer: Answerer,
    surroundings: Arc<dyn Surroundings>,
    served: Vec<Served>,
}

struct Served {
    stream: UnixStream,
    rights: CommandRights,
    thread: JoinHandle<()>,
}

impl Clients {
    fn new(answer: Answerer, surroundings: Arc<dyn Surroundings>) -> Clients {
        Clients {
            answer,
            surroundings,
            served: Vec::new(),
        }
    }

    /// Serves a client on a thread of its own, if there are not too many.
    fn take(&mut self, stream: UnixStream) {
        self.served.retain(|served| !served.thread.is_finished());
        // A process that the system says nothing of has gone.
        let Ok(rights) = rights_of(&stream) else {
            return;
        };
        if self.is_full_for(rights) {
            return refuse_busy(&stream);
        }
        let Ok(ours) = stream.try_clone() else {
            return refuse_busy(&stream);
        };
        let (answer, surroundings) = (self.answer.clone(), self.surroundings.clone());
        let body = move || {
            let client = Closing(stream);
            let (limits, mut connection) = (ServeLimits::default(), &client.0);
            let served = serve(&mut connection, rights, PROGRAM_VERSION, limits, &*answer);
            if let Err(error) = served {
                surroundings.log(Level::Debug, &error.to_string());
            }
        };
        match self.surroundings.spawn("synod-command", Box::new(body)) {
            Ok(thread) => self.served.push(Served {
                stream: ours,
                rights,
                thread,
            }),
            Err(_) => refuse_busy(&ours),
        }
    }

    fn is_full_for(&self, rights: CommandRights) -> bool {
        let asking = self
            .served
            .iter()
            .filter(|s| s.rights == CommandRights::Status);
        self.served.len() >= CLIENTS_MAX
            || rights == CommandRights::Status && asking.count() >= STATUS_CLIENTS_MAX
    }

    /// Breaks all connections, and waits for their threads.
    fn end(&mut self) {
        for served in &self.served {
            // It may be closed already.
            let _ = served.stream.shutdown(Shutdown::Both);
        }
        for served in self.served.drain(..) {
            // A thread that panicked has said so.
            let _ = served.thread.join();
        }
    }
}

/// A connection that ends with its thread, even by a panic, although another thread has a copy.
struct Closing(UnixStream);

impl Drop for Closing {
    fn drop(&mut self) {
        // It may be closed already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Instant;

    use synod_admin::protocol::{Answer, Done, Reason};
    use synod_admin::{Client, ClientError, socket};

    use super::*;

    /// A process that logs nothing.
    struct Quiet;

    impl Surroundings for Quiet {
        fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(body)
        }

        fn log(&self, _level: Level, _text: &str) {}
    }

    fn quiet() -> Arc<dyn Surroundings> {
        Arc::new(Quiet)
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    fn begin(server: &CommandServer, dir: &Path) {
        let answer: Answerer = Arc::new(|_| Reply::Answer(Answer::Done(Done::default())));
        server.begin(dir, answer, &quiet()).unwrap();
    }

    fn ask(dir: &Path) -> Result<Answer, ClientError> {
        Client::connect(dir)?.ask(Request::Status, PATIENCE)
    }

    /// A directory of its own; removed at the end.
    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Dir {
            let dir = std::env::temp_dir().join(format!("synod-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            Dir(dir)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn commands_are_served_until_the_end_and_again_after_it() {
        let (dir, server) = (Dir::new("served"), CommandServer::default());
        for _ in 0..2 {
            begin(&server, &dir.0);
            begin(&server, &dir.0);
            ask(&dir.0).unwrap();
            server.stop();
            let error = ask(&dir.0).unwrap_err();
            assert!(matches!(error, ClientError::NoSocket { .. }), "{error}");
        }
    }

    #[test]
    fn clients_that_hang_keep_neither_others_out_for_ever_nor_the_server_from_its_end() {
        let (dir, server) = (Dir::new("hanging"), CommandServer::default());
        begin(&server, &dir.0);
        let connect = || socket::connect(&socket::path(&dir.0)).unwrap();
        let mut hanging: Vec<UnixStream> = (0..CLIENTS_MAX).map(|_| connect()).collect();
        let refused = ask(&dir.0).unwrap_err();
        let ClientError::Refused(refusal) = refused else {
            panic!("{refused}");
        };
        assert_eq!(refusal.reason, Reason::Busy);
        // As soon as one goes there is room.
        hanging.pop();
        let deadline = Instant::now() + PATIENCE;
        while ask(&dir.0).is_err() {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
        // Returns although the others are connected.
        server.stop();
    }

    #[test]
    fn client_of_a_thread_that_panics_is_let_go() {
        let (dir, server) = (Dir::new("panics"), CommandServer::default());
        let answer: Answerer = Arc::new(|_| panic!("as planned"));
        server.begin(&dir.0, answer, &quiet()).unwrap();
        let error = ask(&dir.0).unwrap_err();
        assert!(matches!(error, ClientError::NoAnswer { .. }), "{error}");
        server.stop();
    }

    #[test]
    fn socket_that_a_full_copy_removed_is_put_back() {
        let (dir, server) = (Dir::new("removed"), CommandServer::default());
        begin(&server, &dir.0);
        std::fs::remove_file(socket::path(&dir.0)).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while ask(&dir.0).is_err() {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
        server.stop();
    }
}
