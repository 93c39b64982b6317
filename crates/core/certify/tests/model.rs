//! The certifier against a model that keeps every action and compares each with all others.

use proptest::prelude::*;
use synod_certify::{
    CertLimits, Certifier, Class, KeySet, KeyType, Relation, Request, Source, Verdict, relation,
};

/// An action as the model keeps it.
#[derive(Clone, Debug)]
struct Action {
    source: Source,
    class: Class,
    keys: KeySet,
}

/// All actions, and the bounds of the window.
#[derive(Debug, Default)]
struct Model {
    /// Seqnos 1, 2, ...
    actions: Vec<Action>,
    window_start: i64,
    committed: i64,
}

impl Model {
    fn last(&self) -> i64 {
        self.actions.len() as i64
    }

    fn in_window(&self) -> impl Iterator<Item = (i64, &Action)> {
        let numbered = (1..).zip(&self.actions);
        numbered.filter(|(seqno, _)| *seqno > self.window_start)
    }

    fn certify(&self, new: &Action, last_seen: i64) -> Verdict {
        let Class::WriteSet { pa_unsafe } = new.class else {
            return Verdict::Pass {
                depends_on: self.last(),
            };
        };
        if last_seen < self.window_start {
            return Verdict::TooOld {
                last_seen,
                window_start: self.window_start,
            };
        }
        let (mut depends_on, mut conflict) = (self.window_start, None);
        for (seqno, old) in self.in_window() {
            let relation = strongest_relation(old, new);
            let foreign = old.class == Class::TotalOrder || old.source != new.source;
            if relation == Relation::Conflicts && foreign && seqno > last_seen {
                conflict = Some(seqno);
            }
            let alone = !matches!(old.class, Class::WriteSet { pa_unsafe: false });
            if alone || relation != Relation::Nothing {
                depends_on = seqno;
            }
        }
        match (conflict, pa_unsafe) {
            (Some(with), _) => Verdict::Conflict { with },
            (None, true) => Verdict::Pass {
                depends_on: self.last(),
            },
            (None, false) => Verdict::Pass { depends_on },
        }
    }

    fn key_count(&self) -> usize {
        let actions = self
            .in_window()
            .filter(|(_, action)| action.class != Class::Barrier);
        let keys = actions.flat_map(|(_, action)| action.keys.iter().map(|key| key.fingerprint));
        keys.collect::<std::collections::BTreeSet<_>>().len()
    }
}

fn strongest_relation(old: &Action, new: &Action) -> Relation {
    if old.class == Class::Barrier {
        return Relation::Nothing;
    }
    let pairs = old
        .keys
        .iter()
        .flat_map(|found| new.keys.iter().map(move |key| (found, key)));
    let same = pairs.filter(|(found, key)| found.fingerprint == key.fingerprint);
    same.map(|(found, key)| relation(found.kind, key.kind))
        .max()
        .unwrap_or(Relation::Nothing)
}

#[derive(Clone, Debug)]
enum Step {
    Ingest(Action),
    Certify { action: Action, lag: i64 },
    Rollback { back: i64 },
    Commit { up_to_lag: i64 },
    Advance { lag: i64 },
}

fn any_source() -> impl Strategy<Value = Source> {
    prop_oneof![
        3 => (0..3u64).prop_map(|member| Source { member, epoch: 1 }),
        1 => (0..3u64, 2..100u64).prop_map(|(member, epoch)| Source { member, epoch }),
    ]
}

fn any_keys() -> impl Strategy<Value = KeySet> {
    let kind = (0..4u8).prop_map(|code| KeyType::from_code(code).unwrap());
    let parts = (
        prop_oneof![1 => 0..3usize, 4 => Just(3usize)],
        0..2u8,
        0..2u8,
        0..8u8,
    );
    proptest::collection::vec((parts, kind), 0..5).prop_map(|keys| {
        let mut set = KeySet::new();
        for ((count, db, table, row), kind) in keys {
            let parts = [[db], [table], [row]];
            let parts: Vec<&[u8]> = parts.iter().take(count).map(|part| &part[..]).collect();
            set.append(&parts, kind);
        }
        set
    })
}

fn any_action() -> impl Strategy<Value = Action> {
    let class = prop_oneof![
        20 => Just(Class::WriteSet { pa_unsafe: false }),
        1 => Just(Class::WriteSet { pa_unsafe: true }),
        1 => Just(Class::TotalOrder),
        1 => Just(Class::Barrier),
    ];
    let parts = (any_source(), class, any_keys());
    parts.prop_map(|(source, class, keys)| Action {
        source,
        class,
        keys,
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => any_action().prop_map(Step::Ingest),
        8 => (any_action(), -1..30i64)
            .prop_map(|(action, lag)| Step::Certify { action, lag }),
        2 => (0..6i64).prop_map(|back| Step::Rollback { back }),
        2 => (0..10i64).prop_map(|up_to_lag| Step::Commit { up_to_lag }),
        1 => (-2..30i64).prop_map(|lag| Step::Advance { lag }),
    ]
}

fn request(action: &Action, last_seen: i64) -> Request<'_> {
    Request {
        source: action.source,
        last_seen,
        keys: &action.keys,
        class: action.class,
    }
}

/// Performs a step on both; returns an error where they differ.
fn perform(step: &Step, model: &mut Model, real: &mut Certifier) -> Result<(), TestCaseError> {
    match step {
        Step::Ingest(action) => {
            real.ingest(model.last() + 1, &request(action, model.last()));
            model.actions.push(action.clone());
        }
        Step::Certify { action, lag } => {
            let last_seen = model.last() - lag;
            let verdict = real.certify(model.last() + 1, &request(action, last_seen));
            prop_assert_eq!(verdict, model.certify(action, last_seen));
        }
        Step::Rollback { back } => {
            let from = (model.last() + 1 - back).max(model.committed + 1);
            real.rollback(from);
            model.actions.truncate((from - 1) as usize);
        }
        Step::Commit { up_to_lag } => {
            let up_to = model.last() - up_to_lag;
            real.committed(up_to);
            model.committed = model.committed.max(up_to);
        }
        Step::Advance { lag } => {
            let low_water = model.last() - lag;
            real.advance_window(low_water);
            let reached = low_water.min(model.committed);
            model.window_start = model.window_start.max(reached);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn verdicts_equal_those_of_the_model(steps in proptest::collection::vec(any_step(), 1..300)) {
        let mut model = Model::default();
        let mut real = Certifier::new(0, CertLimits::default());
        for step in &steps {
            perform(step, &mut model, &mut real)?;
            prop_assert_eq!(real.window_start(), model.window_start);
            prop_assert_eq!(real.key_count(), model.key_count());
            prop_assert_eq!(real.last_seqno(), model.last());
        }
    }

    #[test]
    fn limits_move_the_window_and_never_change_a_verdict_otherwise(
        steps in proptest::collection::vec(any_step(), 1..300),
        entries_max in 1..40usize,
        span_max in 1..40i64,
    ) {
        let mut model = Model::default();
        let limits = CertLimits { entries_max, span_max, ..CertLimits::default() };
        let mut real = Certifier::new(0, limits);
        for step in &steps {
            perform(step, &mut model, &mut real)?;
            prop_assert!(real.window_start() >= model.window_start);
            prop_assert!(real.window_start() <= model.committed);
            model.window_start = real.window_start();
            prop_assert_eq!(real.key_count(), model.key_count());
            let span = model.last() - real.window_start();
            let kept = real.key_count() <= entries_max && span <= span_max;
            prop_assert!(kept || real.window_start() == model.committed);
        }
    }

    /// Whether a write set is kept in the index or as a run makes no difference.
    #[test]
    fn runs_change_no_verdict(
        steps in proptest::collection::vec(any_step(), 1..300),
        run_above in 0..8usize,
    ) {
        let mut model = Model::default();
        let limits = CertLimits { run_above, runs_max: usize::MAX, ..CertLimits::default() };
        let mut real = Certifier::new(0, limits);
        for step in &steps {
            perform(step, &mut model, &mut real)?;
            prop_assert_eq!(real.window_start(), model.window_start);
            prop_assert_eq!(real.last_seqno(), model.last());
        }
    }

    #[test]
    fn rollback_restores_exactly(
        before in proptest::collection::vec(any_action(), 0..30),
        gone in proptest::collection::vec(any_action(), 1..30),
        probes in proptest::collection::vec((any_action(), 0..30i64), 1..30),
    ) {
        let mut plain = Certifier::new(0, CertLimits::default());
        let mut rolled = Certifier::new(0, CertLimits::default());
        for (seqno, action) in (1..).zip(&before) {
            plain.ingest(seqno, &request(action, 0));
            rolled.ingest(seqno, &request(action, 0));
        }
        let next = before.len() as i64 + 1;
        for (seqno, action) in (next..).zip(&gone) {
            rolled.ingest(seqno, &request(action, 0));
        }
        rolled.rollback(next);
        prop_assert_eq!(rolled.key_count(), plain.key_count());
        for (action, lag) in &probes {
            let request = request(action, next - 1 - lag);
            prop_assert_eq!(rolled.certify(next, &request), plain.certify(next, &request));
        }
    }

    #[test]
    fn key_sets_survive_their_encoding(set in any_keys()) {
        let bytes = set.encode();
        prop_assert_eq!(bytes.len(), set.encoded_len());
        let mut back = KeySet::decode(&bytes).unwrap();
        prop_assert_eq!(back.encode(), bytes);
        // A decoded set can be added to.
        back.append(&[b"another"], KeyType::Update);
        let mut set = set;
        set.append(&[b"another"], KeyType::Update);
        prop_assert_eq!(back.encode(), set.encode());
    }

    #[test]
    fn garbage_is_no_key_set(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(set) = KeySet::decode(&bytes) {
            prop_assert_eq!(set.encode(), bytes);
        }
    }
}
