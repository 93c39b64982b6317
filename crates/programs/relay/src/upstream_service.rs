//! Service of a relay with an upstream: follows the end of its log, pulls while it leads, answers
//! `synod`, and says what keeps transactions away, and for how long.
//!
//! The time is that of one relay. Relays that cannot pull take turns of 16 minutes at most, so no
//! hour passes for any of them: there the line of each hand-over repeats the error, and the alert
//! looks at all relays of the upstream.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use synod_admin::protocol::{Answer, Done, Reason, Reply, Request};
use synod_admin::relay::{RegisteredReader, RelayReader, RelayStatus};
use synod_commands::unix_ms;
use synod_logger::output::Output;
use synod_node::{FullLogPolicy, Level, Node, Seqno, WritePermission};

use crate::config::UpstreamSettings;
use crate::lock;
use crate::one_reader_per_server_id::Place;
use crate::pull::control::{Control, Order, OrderRefusal};
use crate::pull::puller::Puller;
use crate::pull::session::Room;
use crate::registered_readers::{self, Places, ReadersOrder, carry_out, now_s};
use crate::upstream_log::entry_after;
use crate::upstream_log::tail::{End, Tail};

/// The threads about an upstream, and what others share with them.
pub(crate) struct UpstreamService {
    settings: UpstreamSettings,
    log_full: FullLogPolicy,
    /// Size of the log's files, in bytes.
    segment_bytes: u64,
    tail: Arc<Tail>,
    control: Arc<Control>,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    watch: Option<Arc<Watch>>,
    threads: Vec<JoinHandle<()>>,
    /// The thread that looks at readers ends when it is dropped.
    looking: Option<Sender<()>>,
}

impl UpstreamService {
    pub(crate) fn new(
        settings: UpstreamSettings,
        log_full: FullLogPolicy,
        segment_bytes: u64,
    ) -> UpstreamService {
        UpstreamService {
            settings,
            log_full,
            segment_bytes,
            tail: Arc::default(),
            control: Arc::default(),
            running: Mutex::default(),
        }
    }

    pub(crate) fn tail(&self) -> Arc<Tail> {
        self.tail.clone()
    }

    /// Starts the threads. `places`: where the connected readers are.
    pub(crate) fn begin(
        &self,
        node: &Arc<Node>,
        output: &Output,
        places: Places,
    ) -> Result<(), String> {
        let puller = Puller {
            node: node.clone(),
            tail: self.tail.clone(),
            control: self.control.clone(),
            settings: self.settings.clone(),
            room: Room {
                log: node.committed_log(),
                policy: self.log_full,
                segment_bytes: self.segment_bytes,
            },
            output: output.clone(),
        };
        let (tail, log) = (self.tail.clone(), node.committed_log());
        let mut running = lock(&self.running);
        running
            .threads
            .push(spawn("synod-tail", move || tail.run(&log))?);
        running
            .threads
            .push(spawn("synod-pull", move || puller.run())?);
        let (looking, stop) = channel();
        running.looking = Some(looking);
        let watch = Arc::new(Watch {
            node: node.clone(),
            tail: self.tail.clone(),
            control: self.control.clone(),
            output: output.clone(),
            trouble: Mutex::default(),
        });
        running.watch = Some(watch.clone());
        let look = move || registered_readers::run(&watch, &places, &stop);
        running.threads.push(spawn("synod-sightings", look)?);
        Ok(())
    }

    pub(crate) fn end(&self) {
        self.control.stop();
        let mut running = lock(&self.running);
        let running = std::mem::take(&mut *running);
        drop(running.looking);
        for thread in running.threads {
            // Its panic was printed.
            let _ = thread.join();
        }
    }

    pub(crate) fn may_write(&self, permission: WritePermission) {
        self.control.may_write(permission);
    }

    /// Answers what is about the upstream; none: the request is not.
    pub(crate) fn answer(
        &self,
        request: &Request,
        readers: impl FnOnce() -> Vec<Place>,
    ) -> Option<Reply> {
        if let Some(order) = readers_order(request) {
            return Some(self.answer_about_readers(&order, &readers()));
        }
        let order = match request {
            Request::PauseUpstream => Order::Pause,
            Request::ResumeUpstream => Order::Resume,
            Request::SwitchUpstream { to } => Order::Switch(to.clone()),
            Request::SkipTransaction { gtid } => Order::Skip(gtid.clone()),
            _ => return None,
        };
        Some(self.reply(self.control.order(order), || self.elsewhere()))
    }

    fn answer_about_readers(&self, order: &ReadersOrder, readers: &[Place]) -> Reply {
        let done = match self.node() {
            Some(node) => carry_out(order, &node, &self.tail, readers),
            None => Err(OrderRefusal::NotLeader),
        };
        self.reply(done, || NONE_LEADS.to_owned())
    }

    /// The reply to an order; `elsewhere` says where to give it, if that is not here.
    fn reply(
        &self,
        done: Result<String, OrderRefusal>,
        elsewhere: impl FnOnce() -> String,
    ) -> Reply {
        match done {
            Ok(text) => Reply::Answer(Answer::Done(Done {
                text,
                log_index: None,
            })),
            Err(OrderRefusal::Refused(text)) => Reply::refused(Reason::Refused, text),
            Err(OrderRefusal::Needed(text)) => Reply::refused(Reason::NeedsForce, text),
            Err(OrderRefusal::Unknown) => Reply::refused(
                Reason::Unknown,
                "the group has not taken the order in time, and may still do so: look at 'synod \
                 relay status' before you repeat it",
            ),
            Err(OrderRefusal::NotLeader) => Reply::refused(Reason::NoLeader, elsewhere()),
        }
    }

    fn elsewhere(&self) -> String {
        match self.leader() {
            name if name.is_empty() => NONE_LEADS.to_owned(),
            name => format!("{name} leads, and so it pulls: give the order there"),
        }
    }

    fn leader(&self) -> String {
        let node = self.node();
        node.map_or_else(String::new, |node| node.status().leader_name)
    }

    fn node(&self) -> Option<Arc<Node>> {
        self.watch().map(|watch| watch.node.clone())
    }

    pub(crate) fn status(&self, readers: &[Place]) -> RelayStatus {
        let (end, shown) = (self.tail.end(), self.control.shown());
        let registered = self.registered(&end, readers);
        let committed = self.node().map(|node| node.commit_seqno());
        let ms = |passed: Duration| u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        let delay = end.arrival.and_then(|arrival| arrival.delay());
        let quiet = end.arrival.map(|arrival| arrival.quiet());
        let trouble = self.watch().and_then(|watch| watch.look(Instant::now()));
        let (error, stuck) = trouble.unzip();
        let ordered = end.orders.address.clone();
        RelayStatus {
            at_unix_ms: unix_ms(),
            is_switched: ordered.is_some(),
            upstream: ordered.unwrap_or_else(|| self.settings.config.address.to_string()),
            is_paused: end.orders.is_paused,
            puller: self.leader(),
            pull: shown.state,
            error,
            stuck_ms: stuck.map(ms),
            warning: self.control.warning(),
            gtids: end.state.unwrap_or_default().to_string(),
            mysql_gtids: end
                .mysql
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            place: match end.place.file.as_str() {
                "" => String::new(),
                _ => end.place.to_string(),
            },
            delay_ms: delay.map(ms),
            quiet_ms: quiet.map(ms),
            readers: shown_readers(readers, committed),
            registered,
            certificate_until_unix: None,
        }
    }

    fn watch(&self) -> Option<Arc<Watch>> {
        let running = lock(&self.running);
        running.watch.clone()
    }

    fn registered(&self, end: &End, readers: &[Place]) -> Vec<RegisteredReader> {
        let log = self.node().map(|node| node.committed_log());
        let last = log
            .as_ref()
            .map(|log| log.commit_seqno())
            .unwrap_or_default();
        let gtids_at = |passed| match entry_after(log.as_ref()?, passed).ok()? {
            Some((_, next)) => Some(next.before.to_string()),
            None => end.state.as_ref().map(ToString::to_string),
        };
        let shown = end.registry.readers.iter().map(|(server_id, reader)| {
            let seen = Some(reader.seen_s).filter(|seen| *seen > 0);
            RegisteredReader {
                server_id: *server_id,
                is_here: readers.iter().any(|place| place.server_id == *server_id),
                unseen_ms: seen.map(|seen| now_s().saturating_sub(seen) * 1000),
                holds: last.0.abs_diff(reader.passed.0.min(last.0)),
                gtids: gtids_at(reader.passed),
            }
        });
        shown.collect()
    }
}

/// The places of readers, as operators are shown them; `committed`: the last action of the group.
pub(crate) fn shown_readers(readers: &[Place], committed: Option<Seqno>) -> Vec<RelayReader> {
    let shown = readers.iter().map(|place| RelayReader {
        from: place.from.to_string(),
        server_id: place.server_id,
        gtids: place.at.as_ref().map(|at| at.gtids.to_string()),
        behind: place
            .at
            .as_ref()
            .zip(committed)
            .map(|(at, last)| last.0.abs_diff(at.seqno.0.min(last.0))),
    });
    shown.collect()
}

/// The order of a request about readers; none: it is about something else.
fn readers_order(request: &Request) -> Option<ReadersOrder> {
    match request {
        Request::RegisterReader { server_id } => Some(ReadersOrder::Register(*server_id)),
        Request::RemoveReader { server_id } => Some(ReadersOrder::Remove(*server_id)),
        Request::PurgeRelays { to, force } => Some(ReadersOrder::Purge {
            to: to.clone(),
            is_forced: *force,
        }),
        _ => None,
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, String> {
    let spawned = Builder::new().name(name.to_owned()).spawn(body);
    spawned.map_err(|error| format!("cannot start the thread {name}: {error}"))
}

const NONE_LEADS: &str = "no relay leads the group: a majority of the relays must run and reach \
                          each other";
/// Time between two lines about the same trouble.
const AGAIN: Duration = Duration::from_secs(3600);
/// The error while the log is full.
const FULL: &str = "the log is full, so nothing new is taken. It keeps what readers have not got \
                    yet, and the newest transaction; what is older than a minute or two is purged \
                    by itself. If this lasts: end readers that stay behind, or raise \
                    synod.log_retain_size on all relays and restart them, the one that leads at \
                    the end";

pub(crate) struct Watch {
    pub(crate) node: Arc<Node>,
    pub(crate) tail: Arc<Tail>,
    control: Arc<Control>,
    output: Output,
    trouble: Mutex<Trouble>,
}

impl Watch {
    /// Why nothing new comes, and what to do; none: nothing is wrong, or this relay does not pull.
    fn error(&self) -> Option<String> {
        let is_full = || self.node.committed_log().is_full();
        let shown = self.control.shown().error;
        let broken = || self.tail.end().broken.map(|broken| broken.why);
        shown
            .or_else(broken)
            .or_else(|| is_full().then(|| FULL.to_owned()))
    }

    /// The error, and for how long there has been one.
    pub(crate) fn look(&self, now: Instant) -> Option<(String, Duration)> {
        let error = self.error();
        let mut trouble = lock(&self.trouble);
        let (lasts, is_due) = trouble.look(error.is_some(), now)?;
        let error = error?;
        if is_due {
            let line = format!(
                "nothing new has come from the upstream for {} minutes: {error}. Readers get what \
                 is in the log. 'synod relay status' shows the error; this line is repeated every \
                 hour while it lasts",
                lasts.as_secs() / 60
            );
            self.output.log(Level::Warning, &line);
        }
        Some((error, lasts))
    }
}

#[derive(Debug, Default)]
struct Trouble {
    since: Option<Instant>,
    said: u32,
}

impl Trouble {
    /// Time since the trouble began, and whether it is to be said again.
    fn look(&mut self, is_there: bool, now: Instant) -> Option<(Duration, bool)> {
        if !is_there {
            *self = Trouble::default();
            return None;
        }
        let lasts = now.saturating_duration_since(*self.since.get_or_insert(now));
        // It was said when it began.
        let is_due = lasts >= AGAIN * (self.said + 1);
        if is_due {
            self.said = u32::try_from(lasts.as_secs() / AGAIN.as_secs()).unwrap_or(u32::MAX - 1);
        }
        Some((lasts, is_due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_said_again_every_hour_while_it_lasts() {
        let (mut trouble, start) = (Trouble::default(), Instant::now());
        let mut look = |is_there, minutes: u64| {
            let now = start + Duration::from_secs(minutes * 60);
            let (lasts, is_due) = trouble.look(is_there, now)?;
            Some((lasts.as_secs() / 60, is_due))
        };
        assert_eq!(look(false, 0), None);
        assert_eq!(
            look(true, 10),
            Some((0, false)),
            "it was said when it began"
        );
        assert_eq!(look(true, 69), Some((59, false)));
        assert_eq!(look(true, 70), Some((60, true)));
        assert_eq!(look(true, 71), Some((61, false)));
        assert_eq!(
            look(true, 260),
            Some((250, true)),
            "it has not looked for long"
        );
        assert_eq!(look(true, 261), Some((251, false)));
        assert_eq!(look(true, 310), Some((300, true)));
        assert_eq!(look(false, 311), None);
        assert_eq!(look(true, 312), Some((0, false)));
    }
}
