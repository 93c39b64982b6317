//! A played server, and groups of members with one each.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use synod_binlog::bodies::Query;
use synod_binlog::mysql_gtid::{MysqlGtidSet, parse_mysql_gtid};
use synod_binlog::{EventHeader, EventType, Events};
use synod_node::{DataChunk, Delivery, Level, Origin, Seqno, WaitPolicy};

use crate::clients::Statement;
use crate::deliveries::Delivered;
use crate::events;
use crate::host::{Decision, Member};
use crate::incoming::Part;
use crate::server::{ClientTransaction, Opening, Server, ServerError, ThreadToken};
use crate::settings::{Settings, Variables};
use crate::transaction::{self, HEADER_BYTES};

/// Not a divisor of anything.
const PIECE_BYTES: usize = 1000;

/// A client's transaction.
pub(crate) struct Played {
    events: Vec<u8>,
    hashes: Vec<u64>,
    pub(crate) bytes: u64,
    pub(crate) is_readable: bool,
}

impl Played {
    pub(crate) fn of(events: &[&[u8]], hashes: &[u64]) -> Played {
        let events = events.concat();
        Played {
            bytes: events.len() as u64,
            events,
            hashes: hashes.to_vec(),
            is_readable: true,
        }
    }

    pub(crate) fn statement(text: &'static [u8]) -> Played {
        let query = Query {
            statement: text,
            ..Query::default()
        };
        let header = EventHeader {
            timestamp: 0,
            event_type: EventType::QUERY,
            server_id: 1,
            event_bytes: 0,
            end_position: 0,
            flags: 0,
        };
        let event = header.with_body(&query.body().unwrap()).1;
        Played::of(&[&event], &[])
    }
}

impl ClientTransaction for Played {
    fn read(&self, take: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        self.events.chunks(PIECE_BYTES).all(take) && self.is_readable
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    fn waits_for_others(&self) -> bool {
        false
    }

    fn runs_alone(&self) -> bool {
        false
    }

    fn began(&self) -> Option<Opening> {
        None
    }

    fn thread(&self) -> u32 {
        7
    }
}

/// UUID of the group.
const GROUP: &str = "5e0dc0de-0000-4000-8000-0000000000a1";
const PATIENCE: Duration = Duration::from_secs(30);

/// A server whose applier carries out each transaction as soon as its last event is queued.
#[derive(Default)]
struct PlayedServer {
    queued: Mutex<Queued>,
    /// Further GTIDs that it has executed, as they follow in the text of the set.
    further: Mutex<String>,
}

#[derive(Default)]
struct Queued {
    events: Vec<Vec<u8>>,
    /// The transaction whose end is not queued.
    under_way: Option<u64>,
    executed: u64,
}

impl Server for PlayedServer {
    fn log(&self, _level: Level, text: &str) {
        println!("{text}");
    }
    fn begin_thread(&self) -> Option<ThreadToken> {
        Some(ThreadToken(0))
    }
    fn end_thread(&self, _thread: ThreadToken) {}
    fn create_channel(&self) -> Result<(), ServerError> {
        Ok(())
    }
    fn start_channel(&self) -> Result<(), ServerError> {
        Ok(())
    }
    fn stop_channel(&self) -> Result<(), ServerError> {
        Ok(())
    }
    fn queue(&self, event: &[u8]) -> Result<(), ServerError> {
        let mut queued = self.queued.lock().unwrap();
        let read = Events::of(event).next().unwrap().unwrap();
        let kind = read.header.event_type;
        if let Ok(gtid) = parse_mysql_gtid(kind, read.body) {
            queued.under_way = Some(gtid.number);
        }
        let is_query = kind == EventType::QUERY;
        if is_query && Query::parse(read.body).unwrap().statement == b"COMMIT" {
            queued.executed = queued.under_way.take().unwrap();
        }
        queued.events.push(event.to_vec());
        Ok(())
    }
    fn is_applying(&self) -> bool {
        true
    }
    fn executed(&self) -> Result<MysqlGtidSet, ServerError> {
        let further = self.further.lock().unwrap();
        let set = match self.queued.lock().unwrap().executed {
            0 => String::new(),
            last => format!("{GROUP}:1-{last}{further}"),
        };
        Ok(set.parse().unwrap())
    }
    fn set_read_only(&self, _on: bool) -> Result<(), ServerError> {
        Ok(())
    }
    fn set_offline(&self, _on: bool) -> Result<(), ServerError> {
        Ok(())
    }
    fn set_flush(&self, _on: bool) -> Result<(), ServerError> {
        Ok(())
    }
    fn flushes(&self) -> bool {
        true
    }
}

/// A member that has begun a group of its own. It is stopped when this is dropped.
struct Founder {
    member: Arc<Member>,
    server: Arc<PlayedServer>,
    variables: Variables,
    _dir: tempfile::TempDir,
}

impl Founder {
    fn begin() -> Founder {
        let dir = tempfile::tempdir().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        let address = free.unwrap().to_string();
        let variables = Variables {
            group: GROUP.to_owned(),
            name: "db1".to_owned(),
            options: format!("gmcast.listen_addr=tcp://{address}"),
            address,
            data_dir: dir.path().display().to_string(),
            bootstrap: true,
            ..Variables::default()
        };
        let server = Arc::new(PlayedServer::default());
        let settings = Settings::of(variables.clone()).unwrap();
        let member = Member::start(server.clone(), settings).unwrap();
        Founder {
            member,
            server,
            variables,
            _dir: dir,
        }
    }

    fn start_again(&mut self) {
        self.member.stop();
        let settings = Settings::of(self.variables.clone()).unwrap();
        self.member = Member::start(self.server.clone(), settings).unwrap();
    }

    fn await_writer(&self) {
        let is_writer = || (self.member.status().state == "writer").then_some(());
        assert!(wait_for(PATIENCE, is_writer).is_some());
    }
}

impl Drop for Founder {
    fn drop(&mut self) {
        self.member.stop();
    }
}

fn wait_for<T>(limit: Duration, mut found: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = found() {
            return Some(found);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

struct Unharmed;

impl Statement for Unharmed {
    fn is_killed(&self) -> bool {
        false
    }
}

#[test]
fn steps_of_a_commit_are_measured_until_the_server_has_committed() {
    let founder = Founder::begin();
    founder.await_writer();
    let [begin, commit] = events::nothing(1).unwrap();
    let client = Played::of(&[&begin, &commit], &[1]);
    let decision = founder.member.commit(&client, Arc::new(Unharmed));
    assert!(matches!(decision, Decision::Ordered(_)), "{decision:?}");
    // The second call is that of a transaction that the group did not decide.
    founder.member.committed(client.thread());
    founder.member.committed(client.thread());
    let status = founder.member.full_status();
    let times = |name| status.commit_steps.iter().find(|step| step.step == name);
    for name in ["queue", "order", "wake", "engine"] {
        assert_eq!(times(name).unwrap().samples, 1, "{name}");
    }
    assert_eq!(times("applied").unwrap().samples, 0);
    assert_eq!(status.commits.total(), 1);
}

#[test]
fn server_that_has_more_than_in_its_group_takes_no_part() {
    let other = ",5e0dc0de-0000-4000-8000-0000000000b2:1";
    for (further, state, why) in [
        ("", "writer", ""),
        (other, "failed", "written to outside"),
        (":999999", "failed", "number 999999"),
    ] {
        let mut founder = Founder::begin();
        founder.await_writer();
        *founder.server.further.lock().unwrap() = further.to_owned();
        founder.start_again();
        let is_so = || (founder.member.status().state == state).then_some(());
        assert!(wait_for(PATIENCE, is_so).is_some(), "{further}");
        let problem = founder.member.status().problem;
        assert!(problem.contains(why), "{problem}");
    }
}

#[test]
fn damaged_record_of_others_is_refused_with_the_remedy_and_kept() {
    let mut founder = Founder::begin();
    founder.await_writer();
    let path = founder.member.settings.log_dir().join("synod-others");
    let whole = std::fs::read(&path).unwrap();
    let mut with_more = whole.clone();
    with_more.extend(b"more");
    for damaged in [
        b"".as_slice(),
        b"damaged\n",
        b"\xff\n",
        &whole[..whole.len() - 1],
        &with_more,
    ] {
        std::fs::write(&path, damaged).unwrap();
        founder.start_again();
        let has_failed = || (founder.member.status().state == "failed").then_some(());
        assert!(wait_for(PATIENCE, has_failed).is_some(), "{damaged:?}");
        let problem = founder.member.status().problem;
        for part in [
            path.to_str().unwrap(),
            "written to outside of its group is not known",
            "remove the file",
        ] {
            assert!(problem.contains(part), "{problem}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), damaged);
    }
    // As the person does who knows that it was not written to.
    std::fs::remove_file(&path).unwrap();
    founder.start_again();
    founder.await_writer();
    assert_eq!(std::fs::read(&path).unwrap(), whole);
}

#[test]
fn server_that_cannot_record_others_takes_no_part() {
    let mut founder = Founder::begin();
    founder.await_writer();
    let path = founder.member.settings.log_dir().join("synod-others");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(path.with_extension("new")).unwrap();
    founder.start_again();
    let has_failed = || (founder.member.status().state == "failed").then_some(());
    assert!(wait_for(PATIENCE, has_failed).is_some());
    let problem = founder.member.status().problem;
    assert!(problem.contains("cannot write"), "{problem}");
    assert!(problem.contains(path.to_str().unwrap()), "{problem}");
}

/// The first try is in the order, and its result was lost, as when the leader's term ended.
#[test]
fn founder_repeats_its_first_entry_until_the_group_has_it() {
    let founder = Founder::begin();
    founder.await_writer();
    let has = founder.member.applied();
    // As a try that is given up does: it may conflict with those of this session that follow.
    let given_up = founder.member.node().pending(WaitPolicy::default());
    given_up.give_up();
    founder.member.change(|state| state.founds = true);
    let member = founder.member.clone();
    let repeats = std::thread::spawn(move || member.say_beginning());
    let ended = wait_for(PATIENCE, || repeats.is_finished().then_some(()));
    assert!(ended.is_some(), "it waits for a position that it has");
    assert!(repeats.join().unwrap(), "it conflicts with its first try");
    assert!(founder.member.applied() > has);
    assert!(!founder.member.lock().founds);
}

/// Parts of a transaction go to the channel as they come, and are the same in the end.
#[test]
fn transaction_in_parts_is_queued_as_one_of_its_size() {
    let founder = Founder::begin();
    founder.await_writer();
    let [begin, commit] = events::nothing(1).unwrap();
    let events = [&begin[..], &begin, &begin, &commit].concat();
    let origin = founder.member.origin();
    let client = Played::of(&[&events], &[1]);
    let data = transaction::propose(&client, origin).unwrap().action.data;
    let seqno = founder.member.applied().next();
    let queued = || founder.server.queued.lock().unwrap().events.clone();
    let before = queued().len();
    let mut begun = None;
    let parts: Vec<&[u8]> = data.chunks(HEADER_BYTES + 7).collect();
    let (last, first) = parts.split_last().unwrap();
    for part in first {
        let delivered = Delivered::Chunk(DataChunk {
            seqno,
            depends_on: Seqno(0),
            action_bytes: data.len(),
            data: Bytes::copy_from_slice(part),
        });
        let part = Part::of(delivered, false).continue_value().unwrap();
        founder.member.queue_part(part, &mut begun).unwrap();
        assert!(begun.is_some());
    }
    assert_eq!(queued().len(), before + 4, "all but the last event");
    let delivered = Delivered::Last(Delivery::Action {
        seqno,
        depends_on: Seqno(0),
        origin: Origin::default(),
        data: Some(Bytes::copy_from_slice(last)),
    });
    let part = Part::of(delivered, false).continue_value().unwrap();
    founder.member.queue_part(part, &mut begun).unwrap();
    assert!(begun.is_none());
    let queued = &queued()[before..];
    assert_eq!(queued[1..], [&begin[..], &begin, &begin, &commit]);
    let gtid = Events::of(&queued[0]).next().unwrap().unwrap();
    let total = u64::try_from(queued.concat().len()).unwrap();
    assert_eq!(gtid.body[50..58], total.to_le_bytes());
    let has_it = || (founder.member.applied() >= seqno).then_some(());
    assert!(wait_for(PATIENCE, has_it).is_some());
}
