//! Service of a relay with an upstream: follows the end of its log, pulls while it leads, and
//! answers `synod`.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use synod_admin::protocol::{Answer, Done, Reason, Reply, Request};
use synod_admin::relay::{RegisteredReader, RelayReader, RelayStatus};
use synod_commands::unix_ms;
use synod_logger::output::Output;
use synod_node::{FullLogPolicy, Node, Seqno, WritePermission};

use crate::pull::control::{Control, Order, OrderRefusal};
use crate::pull::log_room::Room;
use crate::pull::puller::Puller;
use crate::reader_place::Place;
use crate::reader_positions::{self, Places, now_s};
use crate::readers_order::{NotDone, ReadersOrder, carry_out};
use crate::trouble::Watch;
use crate::upstream_log::entry_after;
use crate::upstream_log::tail::{End, Tail};
use crate::upstream_settings::UpstreamSettings;

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
    node: Option<Arc<Node>>,
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

    /// The end of the log, as it is known.
    pub(crate) fn tail(&self) -> Arc<Tail> {
        self.tail.clone()
    }

    /// Starts the threads. `places`: where the connected readers are.
    ///
    /// # Errors
    /// The system refuses one.
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
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.node = Some(node.clone());
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
        let look = move || reader_positions::run(&watch, &places, &stop);
        running.threads.push(spawn("synod-sightings", look)?);
        Ok(())
    }

    /// Ends the threads. The node has stopped.
    pub(crate) fn end(&self) {
        self.control.stop();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let running = std::mem::take(&mut *running);
        drop(running.looking);
        for thread in running.threads {
            // Its panic was printed.
            let _ = thread.join();
        }
    }

    /// Whether this member may write has changed.
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
        Some(match self.control.order(order) {
            Ok(text) => Reply::Answer(Answer::Done(Done {
                text,
                log_index: None,
            })),
            Err(refusal) => self.refusal(refusal),
        })
    }

    fn answer_about_readers(&self, order: &ReadersOrder, readers: &[Place]) -> Reply {
        let none_leads = "no relay leads the group: a majority of the relays must run and reach \
                          each other";
        let Some(node) = self.node() else {
            return Reply::refused(Reason::NoLeader, none_leads);
        };
        match carry_out(order, &node, &self.tail, readers) {
            Ok(text) => Reply::Answer(Answer::Done(Done {
                text,
                log_index: None,
            })),
            Err(NotDone::Needed(needed)) => Reply::refused(Reason::NeedsForce, needed.to_string()),
            Err(NotDone::Refusal(OrderRefusal::NotLeader)) => {
                Reply::refused(Reason::NoLeader, none_leads)
            }
            Err(NotDone::Refusal(refusal)) => self.refusal(refusal),
        }
    }

    fn refusal(&self, refusal: OrderRefusal) -> Reply {
        match refusal {
            OrderRefusal::Refused(text) => Reply::refused(Reason::Refused, text),
            OrderRefusal::Unknown => Reply::refused(
                Reason::Unknown,
                "the group has not taken the order in time, and may still do so: look at 'synod \
                 relay status' before you repeat it",
            ),
            OrderRefusal::NotLeader => Reply::refused(Reason::NoLeader, self.elsewhere()),
        }
    }

    fn elsewhere(&self) -> String {
        match self.leader() {
            name if name.is_empty() => "no relay leads the group: a majority of the relays must \
                                        run and reach each other"
                .to_owned(),
            name => format!("{name} leads, and so it pulls: give the order there"),
        }
    }

    fn leader(&self) -> String {
        let node = self.node();
        node.map_or_else(String::new, |node| node.status().leader_name)
    }

    fn node(&self) -> Option<Arc<Node>> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.node.clone()
    }

    /// The work of this relay, and who reads from it.
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
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
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
