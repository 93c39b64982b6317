//! Write sets whose keys come in parts, against a reference that sees each write set whole.
//!
//! The verdict at the end is that of a certifier to which the whole key set was given at the end,
//! whatever is ordered, truncated and committed between the parts.

use proptest::prelude::*;
use synod_certify::{
    CertLimits, Certifier, Class, KeySet, KeyType, LastPart, OpenId, Request, Source, Verdict,
};

/// A write set whose keys come in parts.
#[derive(Clone, Debug)]
struct Giant {
    source: Source,
    keys: KeySet,
    class: Class,
}

#[derive(Clone, Debug)]
enum Step {
    Begin(Giant, usize),
    /// Another part of one of the giants.
    Continue(usize),
    /// One of the giants ends, and has seen so much.
    End(usize, i64),
    Abandon(usize),
    /// A small action that has seen so much: ordered if it passes.
    Small(Source, KeySet, Class, i64),
    Truncate(usize),
    Commit(usize),
    Advance(i64),
}

/// An entry of the log.
#[derive(Clone, Debug)]
enum Entry {
    Part {
        giant: usize,
    },
    Last {
        giant: usize,
        last_seen: i64,
    },
    Small {
        source: Source,
        keys: KeySet,
        class: Class,
        last_seen: i64,
    },
}

impl Entry {
    fn is_ordered(&self) -> bool {
        !matches!(self, Entry::Part { .. })
    }
}

/// State of one giant in the log.
#[derive(Debug)]
struct Known {
    giant: Giant,
    part_bytes: usize,
    parts: usize,
    has_ended: bool,
    id: OpenId,
}

impl Known {
    fn part(&self, number: usize) -> Vec<u8> {
        let encoded = self.giant.keys.encode();
        let rest = encoded.get(number * self.part_bytes..).unwrap_or(&[]);
        rest[..self.part_bytes.min(rest.len())].to_vec()
    }

    fn rest(&self) -> Vec<u8> {
        let encoded = self.giant.keys.encode();
        encoded
            .get(self.parts * self.part_bytes..)
            .unwrap_or(&[])
            .to_vec()
    }

    fn last(&self, last_seen: i64) -> LastPart {
        LastPart {
            source: self.giant.source,
            last_seen,
            class: self.giant.class,
            keys: self.rest().into(),
        }
    }
}

/// A log that both certifiers follow.
struct Log {
    entries: Vec<Entry>,
    committed: usize,
    giants: Vec<Known>,
    in_parts: Certifier,
    whole: Certifier,
}

impl Log {
    fn new(limits: CertLimits) -> Log {
        Log {
            entries: Vec::new(),
            committed: 0,
            giants: Vec::new(),
            in_parts: Certifier::new(0, limits),
            whole: Certifier::new(0, CertLimits::default()),
        }
    }

    fn seqno_after(&self, entries: usize) -> i64 {
        self.entries[..entries]
            .iter()
            .filter(|entry| entry.is_ordered())
            .count() as i64
    }

    fn last(&self) -> i64 {
        self.seqno_after(self.entries.len())
    }

    fn choose(&self, choice: usize) -> Option<usize> {
        let open: Vec<usize> = (0..self.giants.len())
            .filter(|at| !self.giants[*at].has_ended)
            .collect();
        open.get(choice % open.len().max(1)).copied()
    }

    fn perform(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Begin(giant, part_bytes) => {
                let id = self.in_parts.open(giant.source.member);
                prop_assert!(id.is_some(), "bounded by the number of steps");
                self.giants.push(Known {
                    giant: giant.clone(),
                    part_bytes: *part_bytes,
                    parts: 0,
                    has_ended: false,
                    id: id.unwrap(),
                });
            }
            Step::Continue(choice) => {
                if let Some(at) = self.choose(*choice) {
                    let giant = &mut self.giants[at];
                    let part = giant.part(giant.parts);
                    giant.parts += 1;
                    self.in_parts.extend(giant.id, part.into()).unwrap();
                    self.entries.push(Entry::Part { giant: at });
                }
            }
            Step::End(choice, lag) => {
                if let Some(at) = self.choose(*choice) {
                    return self.end(at, self.last() - lag);
                }
            }
            Step::Abandon(choice) => {
                if let Some(at) = self.choose(*choice) {
                    let ended = &mut self.giants[at];
                    ended.has_ended = true;
                    self.in_parts.abandon(ended.id);
                }
            }
            Step::Small(source, keys, class, lag) => {
                let last_seen = self.last() - lag;
                let (source, class) = (*source, *class);
                let request = Request {
                    source,
                    last_seen,
                    keys,
                    class,
                };
                let seqno = self.last() + 1;
                let verdict = self.in_parts.certify(seqno, &request);
                prop_assert_eq!(verdict, self.whole.certify(seqno, &request));
                if let Verdict::Pass { .. } = verdict {
                    self.in_parts.ingest(seqno, &request);
                    self.whole.ingest(seqno, &request);
                    let keys = keys.clone();
                    self.entries.push(Entry::Small {
                        source,
                        keys,
                        class,
                        last_seen,
                    });
                }
            }
            Step::Truncate(entries) => {
                let kept = self.entries.len().saturating_sub(*entries);
                self.truncate(kept.max(self.committed));
            }
            Step::Commit(entries) => {
                self.committed = (self.committed + entries).min(self.entries.len());
                let seqno = self.seqno_after(self.committed);
                self.in_parts.committed(seqno);
                self.whole.committed(seqno);
            }
            Step::Advance(lag) => {
                self.in_parts.advance_window(self.last() - lag);
                self.whole.advance_window(self.last() - lag);
            }
        }
        Ok(())
    }

    /// The verdict of both about a giant that ends; it is ordered if it passes.
    fn end(&mut self, at: usize, last_seen: i64) -> Result<(), TestCaseError> {
        let seqno = self.last() + 1;
        let known = &self.giants[at];
        let last = known.last(last_seen);
        let request = Request {
            source: known.giant.source,
            last_seen,
            keys: &known.giant.keys,
            class: known.giant.class,
        };
        let verdict = self.in_parts.certify_open(seqno, known.id, &last).unwrap();
        prop_assert_eq!(verdict, self.whole.certify(seqno, &request));
        if let Some(with) = self.in_parts.doomed(known.id, last_seen)
            && matches!(request.class, Class::WriteSet { .. })
        {
            let refused = !matches!(verdict, Verdict::Pass { .. });
            prop_assert!(refused, "doomed by {} but {:?}", with, verdict);
        }
        if let Verdict::Pass { .. } = verdict {
            self.in_parts.ingest_open(seqno, known.id, &last).unwrap();
            self.whole.ingest(seqno, &request);
            self.giants[at].has_ended = true;
            self.entries.push(Entry::Last {
                giant: at,
                last_seen,
            });
        }
        Ok(())
    }

    fn truncate(&mut self, kept: usize) {
        let from = self.seqno_after(kept) + 1;
        if from <= self.last() {
            self.in_parts.rollback(from);
            self.whole.rollback(from);
        }
        for entry in self.entries.split_off(kept).into_iter().rev() {
            match entry {
                Entry::Part { giant } => {
                    let giant = &mut self.giants[giant];
                    giant.parts -= 1;
                    self.in_parts.retract(giant.id, giant.parts);
                }
                Entry::Last { giant, .. } => self.giants[giant].has_ended = false,
                Entry::Small { .. } => {}
            }
        }
    }

    /// The certifier of a member that has never seen what was truncated.
    fn fed_again(&self, limits: CertLimits) -> (Certifier, Vec<OpenId>) {
        let mut second = Certifier::new(0, limits);
        let open = |known: &Known| second.open(known.giant.source.member).unwrap();
        let ids: Vec<OpenId> = self.giants.iter().map(open).collect();
        let mut parts = vec![0; self.giants.len()];
        let mut seqno = 0;
        for entry in &self.entries {
            seqno += i64::from(entry.is_ordered());
            match entry {
                Entry::Part { giant } => {
                    let part = self.giants[*giant].part(parts[*giant]);
                    parts[*giant] += 1;
                    second.extend(ids[*giant], part.into()).unwrap();
                }
                Entry::Last { giant, last_seen } => {
                    let last = self.giants[*giant].last(*last_seen);
                    second.ingest_open(seqno, ids[*giant], &last).unwrap();
                }
                Entry::Small {
                    source,
                    keys,
                    class,
                    last_seen,
                } => {
                    let (source, last_seen, class) = (*source, *last_seen, *class);
                    second.ingest(
                        seqno,
                        &Request {
                            source,
                            last_seen,
                            keys,
                            class,
                        },
                    );
                }
            }
        }
        second.committed(self.seqno_after(self.committed));
        second.advance_window(self.in_parts.window_start());
        (second, ids)
    }
}

fn any_source() -> impl Strategy<Value = Source> {
    (0..3u64, 1..3u64).prop_map(|(member, epoch)| Source { member, epoch })
}

fn keys(count: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = KeySet> {
    let kind = prop_oneof![
        4 => Just(KeyType::Exclusive),
        4 => Just(KeyType::Update),
        1 => Just(KeyType::Reference),
        1 => Just(KeyType::Shared),
    ];
    let parts = (
        prop_oneof![1 => 0..3usize, 30 => Just(3usize)],
        0..2u8,
        0..120u8,
    );
    proptest::collection::vec((parts, kind), count).prop_map(|keys| {
        let mut set = KeySet::new();
        for ((count, table, row), kind) in keys {
            let parts = [[0], [table], [row]];
            let parts: Vec<&[u8]> = parts.iter().take(count).map(|part| &part[..]).collect();
            set.append(&parts, kind);
        }
        set
    })
}

fn any_class() -> impl Strategy<Value = Class> {
    prop_oneof![
        20 => Just(Class::WriteSet { pa_unsafe: false }),
        1 => Just(Class::WriteSet { pa_unsafe: true }),
        1 => Just(Class::TotalOrder),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let giant = (any_source(), keys(1..25), any_class()).prop_map(|(source, keys, class)| Giant {
        source,
        keys,
        class,
    });
    prop_oneof![
        2 => (giant, 1..200usize).prop_map(|(giant, bytes)| Step::Begin(giant, bytes)),
        8 => (0..8usize).prop_map(Step::Continue),
        3 => (0..8usize, -1..12i64).prop_map(|(choice, lag)| Step::End(choice, lag)),
        1 => (0..8usize).prop_map(Step::Abandon),
        8 => (any_source(), keys(0..3), any_class(), -1..8i64)
            .prop_map(|(source, keys, class, lag)| Step::Small(source, keys, class, lag)),
        2 => (0..8usize).prop_map(Step::Truncate),
        2 => (0..8usize).prop_map(Step::Commit),
        1 => (-2..30i64).prop_map(Step::Advance),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn verdicts_equal_those_about_whole_write_sets(
        steps in proptest::collection::vec(any_step(), 1..150),
        run_above in prop_oneof![0..8usize, Just(1000usize)],
    ) {
        let (runs_max, open_max) = (usize::MAX, usize::MAX);
        let limits = CertLimits { run_above, runs_max, open_max, ..CertLimits::default() };
        let mut log = Log::new(limits);
        for step in &steps {
            log.perform(step)?;
            prop_assert_eq!(log.in_parts.window_start(), log.whole.window_start());
        }
        // Truncations have left nothing behind: a member that was never shown what was truncated
        // gives the same verdicts.
        let (second, ids) = log.fed_again(limits);
        for (known, id) in log.giants.iter().zip(&ids).filter(|(known, _)| !known.has_ended) {
            for epoch in 1..3 {
                let source = Source { epoch, ..known.giant.source };
                let last = LastPart { source, ..known.last(log.last()) };
                let next = log.last() + 1;
                let last_seen = log.in_parts.window_start();
                for last_seen in last_seen..=log.last() {
                    let last = LastPart { last_seen, ..last.clone() };
                    prop_assert_eq!(
                        second.certify_open(next, *id, &last),
                        log.in_parts.certify_open(next, known.id, &last)
                    );
                }
            }
        }
    }
}

#[test]
fn giants_that_are_open_at_once_are_bounded() {
    let limits = CertLimits {
        open_max: 2,
        ..CertLimits::default()
    };
    let mut certifier = Certifier::new(0, limits);
    let first = certifier.open(1).unwrap();
    assert!(certifier.open(1).is_some());
    assert!(certifier.open(1).is_none());
    certifier.abandon(first);
    assert!(certifier.open(1).is_some());
}

#[test]
fn malformed_part_is_refused_and_never_ordered() {
    let mut certifier = Certifier::new(0, CertLimits::default());
    let id = certifier.open(1).unwrap();
    let mut keys = KeySet::new();
    keys.append(&[b"db", b"t", b"1"], KeyType::Update);
    let mut part = keys.encode();
    part[20] = 9;
    assert!(certifier.check_part(id, part.clone().into()).is_err());
    assert!(certifier.extend(id, part.into()).is_err());
    let source = Source {
        member: 1,
        epoch: 1,
    };
    let class = Class::WriteSet { pa_unsafe: false };
    let last = LastPart {
        source,
        last_seen: 0,
        class,
        keys: bytes::Bytes::new(),
    };
    assert!(certifier.certify_open(1, id, &last).is_err());
    assert!(certifier.ingest_open(1, id, &last).is_err());
    assert_eq!(certifier.last_seqno(), 0);
}
