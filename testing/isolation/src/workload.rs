//! The transactions of clients, their tables, and what is read at the end.

use std::sync::atomic::{AtomicU64, Ordering};

use mysql::prelude::Queryable;
use mysql::{Conn, Error};
use synod_e2e::dice::Dice;

use crate::checker::anomaly::Level;
use crate::checker::history::{Key, Operation, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// Lists of hot keys, read and appended to at random.
    Append,
    /// Rows that come and go, read by predicates.
    Predicate,
    /// Groups of lists that change together, read at READ COMMITTED.
    Mav,
    /// The same at REPEATABLE READ.
    Repeatable,
    /// Single appends, and readers of several keys.
    LongFork,
    /// Transfers with fees, and readers of all balances.
    Bank,
    /// Inserts of a unique key that several clients try.
    Unique,
    /// Single statements of clients that change servers.
    Session,
}

/// Lists that are in use at a time, and values that each gets until another takes its place.
const HOT_KEYS: u64 = 10;
const LIST_LENGTH: u64 = 40;
/// Lists that exist from the beginning: more than a long run uses.
const LISTS: u64 = 50_000;
/// Lists that change together.
const GROUP: u64 = 3;
/// Classes of rows, and rows of a class from which on clients only delete.
const CLASSES: u64 = 4;
const ROWS_MAX: usize = 12;
/// Accounts; the last one gets the fees.
const ACCOUNTS: u64 = 8;
const BALANCE: i64 = 1000;
/// Attempts to insert the same key, about; keys of a range that is read.
const RIVALS: u64 = 3;
const CLAIMS_OF_RANGE: u64 = 50;

/// Numbers of values and rows that no client has used.
#[derive(Debug, Default)]
pub struct Ids(AtomicU64);

impl Ids {
    fn next(&self) -> Value {
        1 + self.0.fetch_add(1, Ordering::Relaxed)
    }

    fn used(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn hot_key(&self, dice: &mut Dice) -> Key {
        let generation = self.used() / (HOT_KEYS * LIST_LENGTH);
        (1 + generation * HOT_KEYS + dice.below(HOT_KEYS)).min(LISTS) as Key
    }

    /// The lists of a hot group.
    fn hot_group(&self, dice: &mut Dice) -> Vec<Key> {
        let groups = HOT_KEYS / GROUP;
        let generation = self.used() / (HOT_KEYS * LIST_LENGTH);
        let group = generation * groups + dice.below(groups);
        let first = (1 + group * GROUP).min(LISTS - GROUP) as Key;
        (first..first + GROUP as Key).collect()
    }

    /// The last list that was in use.
    fn last_key(&self) -> Key {
        ((2 + self.used() / (HOT_KEYS * LIST_LENGTH)) * HOT_KEYS).min(LISTS) as Key
    }
}

impl Workload {
    pub const ALL: [Workload; 8] = [
        Workload::Append,
        Workload::Predicate,
        Workload::Mav,
        Workload::Repeatable,
        Workload::LongFork,
        Workload::Bank,
        Workload::Unique,
        Workload::Session,
    ];

    pub fn level(self) -> Level {
        match self {
            Workload::Mav => Level::ReadCommitted,
            Workload::Append
            | Workload::Predicate
            | Workload::Repeatable
            | Workload::LongFork
            | Workload::Bank
            | Workload::Unique
            | Workload::Session => Level::Snapshot,
        }
    }

    /// Whether each statement commits by itself.
    pub fn is_single(self) -> bool {
        self == Workload::Session
    }

    /// Whether clients change servers from one transaction to the next.
    pub fn hops(self) -> bool {
        self == Workload::Session
    }

    /// Statements that make its tables. `upserts`: lists begin with their first value.
    pub fn tables(self, upserts: bool) -> Vec<String> {
        let texts: &[&str] = match self {
            Workload::Append
            | Workload::Mav
            | Workload::Repeatable
            | Workload::LongFork
            | Workload::Session => {
                &["CREATE OR REPLACE TABLE lists (id INT PRIMARY KEY, value TEXT NOT NULL)"]
            }
            Workload::Predicate => {
                &["CREATE OR REPLACE TABLE items (id BIGINT PRIMARY KEY, class INT, KEY (class))"]
            }
            Workload::Bank => &[
                "CREATE OR REPLACE TABLE accounts (id INT PRIMARY KEY, balance BIGINT NOT NULL)",
                "CREATE OR REPLACE TABLE ledger
                   (id BIGINT, account INT, delta BIGINT, PRIMARY KEY (id, account))",
            ],
            Workload::Unique => &[
                "CREATE OR REPLACE TABLE claims (claim BIGINT UNIQUE, attempt BIGINT PRIMARY KEY)",
            ],
        };
        let mut statements: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        if self == Workload::Bank {
            let fill = "INSERT INTO accounts SELECT seq";
            statements.push(format!("{fill}, {BALANCE} FROM seq_1_to_{ACCOUNTS}"));
        } else if statements[0].contains("lists") && !upserts {
            statements.push(format!(
                "INSERT INTO lists SELECT seq, '' FROM seq_1_to_{LISTS}"
            ));
        }
        statements
    }

    /// Runs the statements of a transaction at random, without its begin and end.
    ///
    /// # Errors
    /// The first one's that failed; its write is recorded.
    pub fn run(self, client: &mut Client<'_>) -> Result<(), Error> {
        match self {
            Workload::Append => client.mixed(),
            Workload::Predicate => client.come_and_go(),
            Workload::Mav | Workload::Repeatable => client.group(),
            Workload::LongFork => client.fork(),
            Workload::Bank => client.transfer(),
            Workload::Unique => client.claim(),
            Workload::Session => {
                let key = client.ids.hot_key(client.dice);
                if client.dice.below(3) == 0 {
                    client.append(key)
                } else {
                    client.read(key)
                }
            }
        }
    }

    /// Reads everything.
    ///
    /// # Errors
    /// Those of the statements.
    pub fn read_all(self, client: &mut Client<'_>) -> Result<(), Error> {
        match self {
            Workload::Append
            | Workload::Mav
            | Workload::Repeatable
            | Workload::LongFork
            | Workload::Session => (1..=client.ids.last_key()).try_for_each(|key| client.read(key)),
            Workload::Predicate => (1..=CLASSES as Key).try_for_each(|c| client.scan(c).map(drop)),
            Workload::Bank => {
                client.balances(true)?;
                client.select(1, "SELECT DISTINCT id FROM ledger").map(drop)
            }
            Workload::Unique => {
                let ranges = client.ids.used() / RIVALS / CLAIMS_OF_RANGE;
                (0..=ranges as Key).try_for_each(|range| client.range(range))
            }
        }
    }
}

/// A client in a transaction.
pub struct Client<'c> {
    pub connection: &'c mut Conn,
    pub dice: &'c mut Dice,
    pub ids: &'c Ids,
    /// Whether lists begin with their first value.
    pub upserts: bool,
    /// Operations so far.
    pub operations: Vec<Operation>,
}

impl Client<'_> {
    fn append(&mut self, key: Key) -> Result<(), Error> {
        let value = self.ids.next();
        self.operations.push(Operation::Append(key, value));
        let changed = "value = CONCAT(value, ',', ";
        self.connection.query_drop(if self.upserts {
            format!(
                "INSERT INTO lists VALUES ({key}, ',{value}')
                 ON DUPLICATE KEY UPDATE {changed}{value})"
            )
        } else {
            format!("UPDATE lists SET {changed}{value}) WHERE id = {key}")
        })?;
        // There was no such list here, which its readers would take for an empty one.
        if self.connection.affected_rows() == 0 {
            self.operations.pop();
        }
        Ok(())
    }

    fn read(&mut self, key: Key) -> Result<(), Error> {
        let select = format!("SELECT value FROM lists WHERE id = {key}");
        let text: Option<String> = self.connection.query_first(select)?;
        let values = text.unwrap_or_default();
        let values = values.split(',').filter_map(|value| value.parse().ok());
        self.operations.push(Operation::Read(key, values.collect()));
        Ok(())
    }

    fn mixed(&mut self) -> Result<(), Error> {
        let only_reads = self.dice.below(4) == 0;
        for _ in 0..1 + self.dice.below(4) {
            let key = self.ids.hot_key(self.dice);
            if only_reads || self.dice.below(2) == 0 {
                self.read(key)?;
            } else {
                self.append(key)?;
            }
        }
        Ok(())
    }

    fn group(&mut self) -> Result<(), Error> {
        let keys = self.ids.hot_group(self.dice);
        if self.dice.below(3) == 0 {
            return keys.into_iter().try_for_each(|key| self.append(key));
        }
        let first = self.dice.below(GROUP) as usize;
        let twice = keys.iter().cycle().skip(first).take(2 * keys.len());
        twice.copied().try_for_each(|key| self.read(key))
    }

    fn fork(&mut self) -> Result<(), Error> {
        if self.dice.below(3) == 0 {
            let key = self.ids.hot_key(self.dice);
            return self.append(key);
        }
        for _ in 0..4 {
            let key = self.ids.hot_key(self.dice);
            self.read(key)?;
        }
        Ok(())
    }

    fn select(&mut self, class: Key, sql: &str) -> Result<Vec<Value>, Error> {
        let rows: Vec<Value> = self.connection.query(sql)?;
        self.operations.push(Operation::Scan(class, rows.clone()));
        Ok(rows)
    }

    fn scan(&mut self, class: Key) -> Result<Vec<Value>, Error> {
        self.select(
            class,
            &format!("SELECT id FROM items WHERE class = {class}"),
        )
    }

    fn insert_item(&mut self, class: Key) -> Result<(), Error> {
        let row = self.ids.next();
        self.operations.push(Operation::Insert(class, row));
        let insert = format!("INSERT INTO items VALUES ({row}, {class})");
        self.connection.query_drop(insert)
    }

    fn delete_item(&mut self, class: Key, row: Value) -> Result<(), Error> {
        self.operations.push(Operation::Delete(class, row));
        let delete = format!("DELETE FROM items WHERE id = {row}");
        self.connection.query_drop(delete)?;
        if self.connection.affected_rows() == 0 {
            self.operations.pop();
        }
        Ok(())
    }

    fn come_and_go(&mut self) -> Result<(), Error> {
        let class = 1 + self.dice.below(CLASSES) as Key;
        let other = 1 + self.dice.below(CLASSES) as Key;
        match self.dice.below(5) {
            0 => {
                self.insert_item(class)?;
                self.insert_item(other)
            }
            1 | 2 => {
                let rows = self.scan(class)?;
                if rows.len() < ROWS_MAX && self.dice.below(2) == 0 {
                    return self.insert_item(class);
                }
                if !rows.is_empty() {
                    let row = self.dice.one_of(&rows);
                    self.delete_item(class, row)?;
                }
                if rows.len() < ROWS_MAX {
                    self.insert_item(other)?;
                }
                Ok(())
            }
            _ => {
                self.scan(class)?;
                self.scan(other)?;
                self.scan(class).map(drop)
            }
        }
    }

    fn balances(&mut self, with_bookings: bool) -> Result<(), Error> {
        let select = "SELECT balance FROM accounts ORDER BY id";
        let balances: Vec<i64> = self.connection.query(select)?;
        let booked = if with_bookings {
            let sums = "SELECT CAST(COALESCE(SUM(delta), 0) AS SIGNED) FROM accounts
                        LEFT JOIN ledger ON account = accounts.id GROUP BY accounts.id
                        ORDER BY accounts.id";
            let sums: Vec<i64> = self.connection.query(sums)?;
            sums.into_iter().map(|sum| BALANCE + sum).collect()
        } else {
            Vec::new()
        };
        self.operations.push(Operation::Balances {
            balances,
            total: BALANCE * ACCOUNTS as i64,
            booked,
        });
        Ok(())
    }

    /// Moves money by what the client has read: lost updates lose some.
    fn transfer(&mut self) -> Result<(), Error> {
        if self.dice.below(2) == 0 {
            let with_bookings = self.dice.below(40) == 0;
            return self.balances(with_bookings);
        }
        let from = 1 + self.dice.below(ACCOUNTS - 1);
        let to = 1 + (from + self.dice.below(ACCOUNTS - 2)) % (ACCOUNTS - 1);
        let amount = 1 + self.dice.below(50) as i64;
        let fee = 1;
        let balance = |of| format!("SELECT balance FROM accounts WHERE id = {of}");
        let has: i64 = self
            .connection
            .query_first(balance(from))?
            .unwrap_or_default();
        let had: i64 = self
            .connection
            .query_first(balance(to))?
            .unwrap_or_default();
        if has < amount + fee {
            return Ok(());
        }
        let id = self.ids.next();
        self.operations.push(Operation::Insert(1, id));
        let set = |of, balance| format!("UPDATE accounts SET balance = {balance} WHERE id = {of}");
        let (out, back) = (-amount - fee, amount);
        for sql in [
            set(from, (has + out).to_string()),
            set(to, (had + back).to_string()),
            set(ACCOUNTS, format!("balance + {fee}")),
            format!(
                "INSERT INTO ledger VALUES
                 ({id}, {from}, {out}), ({id}, {to}, {back}), ({id}, {ACCOUNTS}, {fee})"
            ),
        ] {
            self.connection.query_drop(sql)?;
        }
        Ok(())
    }

    fn claim(&mut self) -> Result<(), Error> {
        let attempt = self.ids.next();
        // A key of the last ones.
        let claim = (attempt / RIVALS).saturating_sub(self.dice.below(2));
        let range = (claim / CLAIMS_OF_RANGE) as Key;
        if self.dice.below(8) == 0 {
            return self.range(range);
        }
        self.operations.push(Operation::Insert(range, attempt));
        let insert = format!("INSERT INTO claims VALUES ({claim}, {attempt})");
        self.connection.query_drop(insert)
    }

    fn range(&mut self, range: Key) -> Result<(), Error> {
        let first = u64::from(range) * CLAIMS_OF_RANGE;
        let last = first + CLAIMS_OF_RANGE - 1;
        let sql = format!("SELECT attempt FROM claims WHERE claim BETWEEN {first} AND {last}");
        self.select(range, &sql).map(drop)
    }
}
