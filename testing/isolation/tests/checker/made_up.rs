//! Short ways to write a history.

use synod_isolation::checker::anomaly::{Anomaly, Kind};
use synod_isolation::checker::check;
use synod_isolation::checker::history::{Key, Operation, Outcome, Transaction, Value};

/// A committed transaction in a session of its own, at the same time as all others.
pub(crate) fn tx() -> Made {
    Made(Transaction {
        node: 1,
        session: 0,
        begin_us: 0,
        end_us: 100,
        outcome: Outcome::Committed,
        is_final: false,
        operations: Vec::new(),
    })
}

#[derive(Clone)]
pub(crate) struct Made(pub(crate) Transaction);

impl Made {
    fn with(mut self, operation: Operation) -> Made {
        self.0.operations.push(operation);
        self
    }

    pub(crate) fn append(self, key: Key, value: Value) -> Made {
        self.with(Operation::Append(key, value))
    }

    pub(crate) fn read(self, key: Key, values: &[Value]) -> Made {
        self.with(Operation::Read(key, values.to_vec()))
    }

    pub(crate) fn insert(self, row: Value) -> Made {
        self.with(Operation::Insert(1, row))
    }

    pub(crate) fn delete(self, row: Value) -> Made {
        self.with(Operation::Delete(1, row))
    }

    pub(crate) fn scan(self, rows: &[Value]) -> Made {
        self.with(Operation::Scan(1, rows.to_vec()))
    }

    pub(crate) fn balances(self, balances: &[i64], booked: &[i64]) -> Made {
        self.with(Operation::Balances {
            balances: balances.to_vec(),
            total: 100,
            booked: booked.to_vec(),
        })
    }

    pub(crate) fn session(mut self, session: u32) -> Made {
        self.0.session = session;
        self
    }

    pub(crate) fn at(mut self, begin_us: u64, end_us: u64) -> Made {
        (self.0.begin_us, self.0.end_us) = (begin_us, end_us);
        self
    }

    pub(crate) fn refused(mut self) -> Made {
        self.0.outcome = Outcome::Refused;
        self
    }

    pub(crate) fn unknown(mut self) -> Made {
        self.0.outcome = Outcome::Unknown;
        self
    }

    pub(crate) fn last(mut self) -> Made {
        self.0.is_final = true;
        self
    }
}

/// The anomalies of these; those without a session get one each.
pub(crate) fn found_in(made: &[Made]) -> Vec<Anomaly> {
    found_within(made, 0)
}

/// The same, where reads may lack what was acknowledged up to `allowed_us` before.
pub(crate) fn found_within(made: &[Made], allowed_us: u64) -> Vec<Anomaly> {
    let history: Vec<Transaction> = made
        .iter()
        .zip(1000..)
        .map(|(made, number)| {
            let mut transaction = made.0.clone();
            if transaction.session == 0 {
                transaction.session = number;
            }
            transaction
        })
        .collect();
    check(&history, allowed_us)
}

/// Checks that exactly these kinds are found, each once.
pub(crate) fn expect(made: &[Made], kinds: &[Kind]) {
    let found = found_in(made);
    let names: Vec<Kind> = found.iter().map(|anomaly| anomaly.kind).collect();
    assert_eq!(names, kinds, "{found:#?}");
}
