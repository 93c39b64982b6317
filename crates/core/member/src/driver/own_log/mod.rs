//! This member's own log, as far as memory holds it: between the consensus core, which knows
//! headers, and the disk. [`OwnLog`] finds the payload of an entry that the core wants written,
//! serves replication from the newest entries, and has older ones read. It knows the commit index
//! up to which the driver has followed the core's effects, and the era: how often entries written
//! before became void. [`RepairWatch`] says how a damaged log is doing.

mod repair_watch;

use std::collections::BTreeMap;

use bytes::Bytes;
use synod_consensus::{
    Body, Config, Core, EntryHeader, EntryKind, LogIndex, MemberId, Message, SendEntries, Time,
};
use synod_log::{Entry, PAYLOAD_BYTES_MAX};
use synod_wire::PeerMessage;

use super::log_times::LogTimes;
use super::{EntrySender, append_message};
use crate::entry_cache::EntryCache;
use crate::old_entries_for_followers::{OldEntries, OutstandingReads};
use crate::tuning::Tuning;

pub(super) use repair_watch::{RepairNews, RepairWatch};

pub(super) enum Replication {
    Send(PeerMessage),
    Read(OldEntries),
    /// The range is being read already, or too much is: the core repeats the request.
    UnderWay,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arrived {
    pub(super) configs: Vec<(LogIndex, Config)>,
    /// The append was cut before this entry.
    pub(super) missing: Option<Missing>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) index: LogIndex,
    /// When the append was sent, by the leader's clock.
    pub(super) sent_at: Time,
}

/// The component that holds the newest entries. Invariant: every entry after `committed`, and every
/// one that is not durable, is in the cache.
pub(super) struct OwnLog {
    cache: EntryCache,
    /// Ranges that are being read for members that lag far behind.
    reading: OutstandingReads,
    catch_up_bytes: usize,
    /// More payload bytes than this are too many while the own disk lags.
    undurable_bytes_max: usize,
    /// Entries of the append being handled. Each is known by its whole header: another entry of
    /// the same term and index is none of the core's.
    arriving: BTreeMap<LogIndex, Entry>,
    /// See `Shared::log_truncated`.
    era: u64,
    committed: LogIndex,
    pub(super) repair: RepairWatch,
    pub(super) times: LogTimes,
}

impl OwnLog {
    /// At the start. `uncommitted_max` bounds what the core accepts beyond the commit index, in
    /// bytes.
    pub(super) fn new(
        tuning: &Tuning,
        uncommitted_max: u64,
        committed: LogIndex,
        repair: RepairWatch,
    ) -> OwnLog {
        let uncommitted_max = usize::try_from(uncommitted_max).unwrap_or(usize::MAX);
        OwnLog {
            cache: EntryCache::new(tuning.entry_cache_bytes),
            reading: OutstandingReads::default(),
            catch_up_bytes: tuning.catch_up_bytes,
            undurable_bytes_max: uncommitted_max.saturating_add(tuning.entry_cache_bytes),
            arriving: BTreeMap::new(),
            era: 0,
            committed,
            repair,
            times: LogTimes::default(),
        }
    }

    pub(super) fn cached_bytes(&self) -> usize {
        self.cache.bytes()
    }

    pub(super) fn committed(&self) -> LogIndex {
        self.committed
    }

    /// Whether the own disk lags so far behind the group's that memory fills up.
    pub(super) fn is_disk_behind(&self, durable: LogIndex) -> bool {
        self.cache.bytes() > self.undurable_bytes_max && durable < self.committed
    }

    /// Keeps the payloads of an append at hand, and decodes the configurations among them.
    /// `proposed` answers the payload of an entry that this member has proposed, if it has it. The
    /// append is cut before an entry whose payload is nowhere, unless the core has that entry.
    /// Fails if the message is not whole: the cause, for the log of this member.
    pub(super) fn arrived(
        &mut self,
        core: &Core,
        message: &mut Message,
        payloads: Vec<Option<Bytes>>,
        proposed: impl Fn(&EntryHeader) -> Option<Bytes>,
    ) -> Result<Arrived, String> {
        let mut configs = Vec::new();
        let mut missing = None;
        let Body::Append(append) = &mut message.body else {
            return Ok(Arrived { configs, missing });
        };
        let (from, entries) = (message.from, &append.entries);
        if entries.len() != payloads.len() {
            let (entries, payloads) = (entries.len(), payloads.len());
            return Err(format!(
                "member {from} sent {entries} entries with {payloads} payloads"
            ));
        }
        // The core asks for the payloads of what follows the entries that it has.
        let mut is_held = true;
        for (header, payload) in entries.iter().zip(payloads) {
            is_held &= holds(core, header);
            let payload = match payload {
                Some(payload) => checked(header, payload, from)?,
                None => match self.cached(header).or_else(|| proposed(header)) {
                    Some(payload) => payload,
                    None if is_held => continue,
                    None => {
                        missing = Some(Missing {
                            index: header.index,
                            sent_at: append.sent_at,
                        });
                        break;
                    }
                },
            };
            if payload.len() > PAYLOAD_BYTES_MAX as usize {
                let (id, bytes) = (header.id(), payload.len());
                return Err(format!(
                    "entry {id} of member {from} has {bytes} bytes, the log takes \
                     {PAYLOAD_BYTES_MAX}"
                ));
            }
            if header.kind == EntryKind::Config {
                let config = Config::decode(&payload);
                let config = config.map_err(|error| format!("entry {}: {error}", header.id()))?;
                configs.push((header.index, config));
            }
            let header = *header;
            self.arriving
                .insert(header.index, Entry { header, payload });
        }
        if let Some(missing) = &missing {
            append.entries.retain(|entry| entry.index < missing.index);
        }
        Ok(Arrived { configs, missing })
    }

    pub(super) fn forget_arrived(&mut self) {
        self.arriving.clear();
    }

    pub(super) fn put(&mut self, header: EntryHeader, payload: &Bytes) {
        self.cache.put(header, payload.clone());
    }

    /// The entry with this header, to be written. `config` answers the payload of a configuration,
    /// which the core makes itself.
    ///
    /// # Panics
    /// If the payload neither arrived nor is known: the core asks for no such entry.
    pub(super) fn entry(&mut self, header: &EntryHeader, config: impl FnOnce() -> Bytes) -> Entry {
        let payload = self.payload_of(header, config);
        let cached = self.cache.get(header.index);
        if cached.is_none_or(|entry| entry.header != *header) {
            self.cache.put(*header, payload.clone());
        }
        Entry {
            header: *header,
            payload,
        }
    }

    fn cached(&self, header: &EntryHeader) -> Option<Bytes> {
        let entry = self.cache.get(header.index)?;
        (entry.header == *header).then(|| entry.payload.clone())
    }

    fn payload_of(&mut self, header: &EntryHeader, config: impl FnOnce() -> Bytes) -> Bytes {
        let arrived = self.arriving.get(&header.index);
        if let Some(entry) = arrived.filter(|entry| entry.header == *header) {
            return entry.payload.clone();
        }
        if let Some(payload) = self.cached(header) {
            return payload;
        }
        match header.kind {
            EntryKind::NoOp => Bytes::new(),
            EntryKind::Config => config(),
            EntryKind::View
            | EntryKind::Action
            | EntryKind::Chunk
            | EntryKind::Discard
            | EntryKind::Decision => panic!("entry {} has no payload at hand", header.id()),
        }
    }

    pub(super) fn header(&self, index: LogIndex) -> Option<EntryHeader> {
        self.cache.get(index).map(|entry| entry.header)
    }

    /// Upper bound on the payload bytes that are read at once for a member that lags.
    pub(super) fn catch_up_bytes(&self) -> usize {
        self.catch_up_bytes
    }

    /// How these entries get to a member; at most `inflight_max` messages are under way to it.
    pub(super) fn replicate(
        &mut self,
        sender: EntrySender,
        range: SendEntries,
        inflight_max: usize,
    ) -> Replication {
        let bytes_max = if range.may_shorten {
            self.catch_up_bytes
        } else {
            usize::MAX
        };
        if let Some(entries) = self.cache.range(range.first, range.last, bytes_max) {
            return Replication::Send(append_message(sender, &range, &entries));
        }
        // A window of them, and a probe and a long range beside it.
        let most = inflight_max.saturating_add(2);
        let request = self.reading.ask(sender, range, bytes_max, most);
        request.map_or(Replication::UnderWay, Replication::Read)
    }

    pub(super) fn commit(&mut self, index: LogIndex) {
        self.committed = index;
    }

    pub(super) fn trim(&mut self, durable: LogIndex) {
        self.cache.trim(self.committed.min(durable).next());
    }

    pub(super) fn era(&self) -> u64 {
        self.era
    }

    pub(super) fn truncated(&mut self, from: LogIndex, era: u64) {
        self.cache.truncate(from);
        self.era = era;
    }

    pub(super) fn reset(&mut self, base: LogIndex, era: u64) {
        self.cache.clear();
        self.era = era;
        self.committed = base;
    }
}

fn checked(header: &EntryHeader, payload: Bytes, from: MemberId) -> Result<Bytes, String> {
    let is_whole = payload.len() == header.payload_len as usize
        && crc32c::crc32c(&payload) == header.payload_crc;
    if is_whole {
        Ok(payload)
    } else {
        Err(format!("entry {} arrived damaged from {from}", header.id()))
    }
}

/// Whether this entry is in the core's log, or lies before it, where all is committed.
fn holds(core: &Core, header: &EntryHeader) -> bool {
    header.index <= core.base().last.index || core.term_at(header.index) == Some(header.term)
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_consensus::{
        Append, CoreParams, HardState, Limits, Origin, Recovered, Seqno, Timing,
    };

    use synod_consensus::Term;

    const ME: MemberId = MemberId(1);
    const LEADER: MemberId = MemberId(2);

    fn own_log() -> OwnLog {
        let tuning = Tuning {
            entry_cache_bytes: 10,
            ..Tuning::default()
        };
        OwnLog::new(&tuning, 5, LogIndex(0), RepairWatch::new(false))
    }

    fn header(index: u64, payload: &[u8]) -> EntryHeader {
        EntryHeader {
            term: Term(1),
            index: LogIndex(index),
            seqno: Seqno(index as i64),
            kind: EntryKind::Action,
            origin: Origin::default(),
            depends_on: Seqno(0),
            payload_len: payload.len() as u32,
            payload_crc: crc32c::crc32c(payload),
        }
    }

    fn append(entries: Vec<EntryHeader>) -> Message {
        Message::new(
            LEADER,
            ME,
            Term(1),
            Body::Append(Append {
                prev: Default::default(),
                entries,
                commit: LogIndex(0),
                sent_at: Time(0),
            }),
        )
    }

    fn no_config() -> Bytes {
        panic!("no configuration was asked for")
    }

    /// A core whose log ends with these entries.
    fn core(tail: Vec<EntryHeader>) -> Core {
        let params = CoreParams {
            id: ME,
            timing: Timing::default(),
            limits: Limits::default(),
            seed: 1,
        };
        let term_starts = tail.first().map(|entry| (entry.term, entry.index));
        let recovered = Recovered {
            vote: HardState::new(Term(1), None),
            term_starts: term_starts.into_iter().collect(),
            tail,
            ..Recovered::default()
        };
        Core::new(params, recovered, Time(0))
    }

    /// Result of an append with these payloads, where `proposed` is a proposal of this member.
    fn arrive(
        log: &mut OwnLog,
        core: &Core,
        message: &mut Message,
        payloads: Vec<Option<Bytes>>,
        proposed: Option<&Bytes>,
    ) -> Result<Arrived, String> {
        log.arrived(core, message, payloads, |header| {
            proposed
                .filter(|payload| crc32c::crc32c(payload) == header.payload_crc)
                .cloned()
        })
    }

    const WHOLE: Arrived = Arrived {
        configs: Vec::new(),
        missing: None,
    };

    #[test]
    fn payload_that_arrived_is_found_for_its_entry() {
        let (mut log, payload) = (own_log(), Bytes::from_static(b"abc"));
        let header = header(1, &payload);
        let (core, mut message) = (core(Vec::new()), append(vec![header]));
        let arrived = arrive(
            &mut log,
            &core,
            &mut message,
            vec![Some(payload.clone())],
            None,
        );
        assert_eq!(arrived, Ok(WHOLE));
        assert_eq!(log.entry(&header, no_config).payload, payload);
        log.forget_arrived();
        assert_eq!(log.entry(&header, no_config).payload, payload, "cached");
        assert_eq!(log.header(LogIndex(1)), Some(header));
    }

    /// The append is one of a member that sends entries in the name of the leader, which this
    /// member is.
    #[test]
    fn payload_of_another_entry_of_the_same_index_is_not_taken() {
        let (mut log, own) = (own_log(), Bytes::from_static(b"abc"));
        let own_header = header(1, &own);
        log.put(own_header, &own);
        let forged = Bytes::from_static(b"forged");
        let (core, mut message) = (core(Vec::new()), append(vec![header(1, &forged)]));
        let payloads = vec![Some(forged)];
        assert_eq!(
            arrive(&mut log, &core, &mut message, payloads, None),
            Ok(WHOLE)
        );
        assert_eq!(log.entry(&own_header, no_config).payload, own);
    }

    #[test]
    fn payload_that_was_left_out_is_that_of_the_proposal() {
        let (mut log, payload) = (own_log(), Bytes::from_static(b"abc"));
        let header = header(1, &payload);
        let (core, mut message) = (core(Vec::new()), append(vec![header]));
        let arrived = arrive(&mut log, &core, &mut message, vec![None], Some(&payload));
        assert_eq!(arrived, Ok(WHOLE));
        assert_eq!(log.entry(&header, no_config).payload, payload);
    }

    #[test]
    fn append_ends_before_a_payload_that_is_nowhere() {
        let (mut log, payload) = (own_log(), Bytes::from_static(b"abc"));
        let entries = vec![header(1, &payload), header(2, b"withdrawn"), header(3, b"")];
        let (core, mut message) = (core(Vec::new()), append(entries.clone()));
        let payloads = vec![Some(payload.clone()), None, Some(Bytes::new())];
        let arrived = arrive(&mut log, &core, &mut message, payloads, Some(&payload));
        let missing = Missing {
            index: LogIndex(2),
            sent_at: Time(0),
        };
        assert_eq!(arrived.unwrap().missing, Some(missing));
        assert_eq!(message, append(entries[..1].to_vec()));
    }

    #[test]
    fn payload_of_an_entry_that_the_core_has_is_not_needed() {
        let mut log = own_log();
        let entries = vec![header(1, b"abc"), header(2, b"abc")];
        let mut message = append(entries.clone());
        let core = core(entries);
        let payloads = vec![None, None];
        let arrived = arrive(&mut log, &core, &mut message, payloads, None);
        assert_eq!(arrived, Ok(WHOLE));
    }

    #[test]
    fn damaged_or_missing_payload_is_refused() {
        let mut log = own_log();
        let (core, mut message) = (core(Vec::new()), append(vec![header(1, b"abc")]));
        assert!(arrive(&mut log, &core, &mut message, Vec::new(), None).is_err());
        let damaged = Some(Bytes::from_static(b"abd"));
        assert!(arrive(&mut log, &core, &mut message, vec![damaged], None).is_err());
    }

    #[test]
    fn entry_that_the_log_would_refuse_is_not_taken() {
        let mut log = own_log();
        let payload = Bytes::from(vec![0; PAYLOAD_BYTES_MAX as usize + 1]);
        let (core, mut message) = (core(Vec::new()), append(vec![header(1, &payload)]));
        let error = arrive(&mut log, &core, &mut message, vec![Some(payload)], None).unwrap_err();
        assert!(error.contains("the log takes 67108864"), "{error}");
    }

    #[test]
    fn newest_entries_are_sent_and_older_ones_read_once() {
        let (mut log, payload) = (own_log(), Bytes::from_static(b"abc"));
        log.put(header(7, &payload), &payload);
        let range = |index| SendEntries {
            to: LEADER,
            term: Term(1),
            prev: Default::default(),
            first: LogIndex(index),
            last: LogIndex(index),
            commit: LogIndex(0),
            sent_at: Time(0),
            is_first_time: false,
            may_shorten: true,
        };
        assert!(matches!(
            log.replicate(EntrySender::Leader(ME), range(7), 4),
            Replication::Send(_)
        ));
        let reading = log.replicate(EntrySender::Leader(ME), range(2), 4);
        assert!(matches!(reading, Replication::Read(_)));
        assert!(matches!(
            log.replicate(EntrySender::Leader(ME), range(2), 4),
            Replication::UnderWay
        ));
        log.truncated(LogIndex(7), 3);
        assert_eq!((log.header(LogIndex(7)), log.era()), (None, 3));
    }

    #[test]
    fn lagging_disk_is_noticed_and_cached_entries_wait_for_it() {
        let (mut log, payload) = (own_log(), Bytes::from_static(b"0123456789"));
        for index in [1, 2] {
            log.put(header(index, &payload), &payload);
        }
        assert!(!log.is_disk_behind(LogIndex(0)), "nothing is committed");
        log.commit(LogIndex(2));
        assert!(log.is_disk_behind(LogIndex(1)));
        assert!(!log.is_disk_behind(LogIndex(2)));
        log.trim(LogIndex(0));
        assert_eq!(log.cached_bytes(), 20);
        log.trim(LogIndex(2));
        assert_eq!(log.cached_bytes(), 10);
    }
}
