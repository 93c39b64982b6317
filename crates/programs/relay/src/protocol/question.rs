//! The statements that replicas and tools send before they ask for a dump, and the variables in
//! them: those of the relay, which no statement changes, and those that a reader has set for its
//! connection. Nothing here is a parser of SQL.

use std::collections::BTreeMap;
use synod_binlog::words::{excerpt, is_like};

use synod_binlog::GtidList;
use synod_node::Seqno;

use crate::protocol::greeting::SERVER_VERSION;
use crate::protocol::packet::{Answer, Refusal};
use crate::request::{Identity, file_name, seqno_of};

/// The answer to a replica with `replicate_events_marked_for_skip = FILTER_ON_MASTER`: it does not
/// look at the mark itself.
const FILTER: &str = "This relay leaves out no events that are marked by skip_replication. Let the \
                      replica do it: replicate_events_marked_for_skip = FILTER_ON_SLAVE";

pub(crate) fn answer(statement: &str, facts: &Facts, own: &mut ReaderVariables) -> Answer {
    let statement = statement.trim().trim_end_matches(';').trim_end();
    let answered = if let Some(list) = after_word(statement, "SET") {
        set(list, facts, own)
    } else if let Some(list) = after_word(statement, "SELECT") {
        select(list, facts, own)
    } else if let Some(what) = after_word(statement, "SHOW") {
        show(what, facts)
    } else {
        None
    };
    answered.unwrap_or_else(|| Answer::Refused(unknown(statement)))
}

fn unknown(statement: &str) -> Refusal {
    Refusal::unsupported(format!(
        "This is a synod relay: it serves a binlog and has no tables. It does not answer: {}",
        excerpt(statement.as_bytes())
    ))
}

fn set(list: &str, facts: &Facts, own: &mut ReaderVariables) -> Option<Answer> {
    for part in parts(list) {
        let Some((name, value)) = part.split_once('=') else {
            // Character sets of a connection: all texts here are plain.
            after_word(part, "NAMES").or_else(|| after_words(part, &["CHARACTER", "SET"]))?;
            continue;
        };
        let name = name.trim().trim_end_matches(':').trim_end();
        if after_word(name, "GLOBAL").is_some() || name.to_lowercase().starts_with("@@global.") {
            let text = format!("{name} is set in the relay's file, not by statements");
            return Some(Answer::Refused(Refusal::unsupported(text)));
        }
        let Some(variable) = name.strip_prefix('@').filter(|name| !name.starts_with('@')) else {
            if asks_for_filter(name, value) {
                return Some(Answer::Refused(Refusal::unsupported(FILTER)));
            }
            // Other modes of a session mean nothing here: nothing is executed.
            continue;
        };
        if asks_for_unknown(variable) {
            return Some(Answer::Refused(Refusal::unsupported(format!(
                "This relay does not know @{variable}, by which a reader asks a server for \
                 something: the reader would not get that"
            ))));
        }
        let value = match value_of(value.trim(), facts, own) {
            Ok(value) => value,
            Err(refusal) => return Some(Answer::Refused(refusal)),
        };
        if !own.set(variable, value) {
            let text = format!("@{variable} is too long, or one variable too many");
            return Some(Answer::Refused(Refusal::unsupported(text)));
        }
    }
    Some(Answer::Done)
}

/// Whether a reader asks by a variable of its session that marked events be left out.
pub(crate) fn asks_for_filter(name: &str, value: &str) -> bool {
    let name = name.to_lowercase();
    let name = name.trim_start_matches('@');
    let scoped = ["session", "local"].iter().find_map(|scope| {
        let rest = name.strip_prefix(scope)?;
        Some(rest.trim_start_matches('.').trim_start())
    });
    let is_off = ["0", "off", "false"].contains(&value.trim().to_lowercase().as_str());
    scoped.unwrap_or(name) == "skip_replication" && !is_off
}

fn select(list: &str, facts: &Facts, own: &ReaderVariables) -> Option<Answer> {
    let upper = list.to_uppercase();
    let list = match upper.rfind(" LIMIT ") {
        Some(at) => list.get(..at)?,
        None => list,
    };
    let (mut columns, mut row) = (Vec::new(), Vec::new());
    for part in parts(list) {
        let (expression, name) = named(part);
        let value = match value_of(expression, facts, own) {
            Ok(value) => value,
            Err(refusal) => return Some(Answer::Refused(refusal)),
        };
        columns.push(name.to_owned());
        row.push(value);
    }
    Some(Answer::Rows {
        columns,
        rows: vec![row],
    })
}

fn named(part: &str) -> (&str, &str) {
    let words = part.rsplit_once(char::is_whitespace);
    let Some((before, name)) = words else {
        return (part, part);
    };
    let before = before.trim_end();
    match before.rsplit_once(char::is_whitespace) {
        Some((expression, word)) if word.eq_ignore_ascii_case("AS") => (expression.trim(), name),
        Some(_) | None => (part, part),
    }
}

/// The value of an expression; none: NULL.
fn value_of(
    expression: &str,
    facts: &Facts,
    own: &ReaderVariables,
) -> Result<Option<String>, Refusal> {
    if let Some(name) = expression.strip_prefix("@@") {
        let name = name.to_lowercase();
        let scope = name.split_once('.');
        let name = match scope {
            Some(("global" | "session" | "local", name)) => name,
            Some(_) | None => &name,
        };
        let value = facts.variable(name);
        return value
            .map(Some)
            .ok_or_else(|| Refusal::unknown_variable(name));
    }
    if let Some(name) = expression.strip_prefix('@') {
        return Ok(own.get(name).map(str::to_owned));
    }
    if let Some(text) = unquoted(expression) {
        return Ok(Some(text.to_owned()));
    }
    if let Some(place) = after_word(expression, "BINLOG_GTID_POS") {
        return Ok(facts.gtid_at(place));
    }
    let is_number = !expression.is_empty() && expression.bytes().all(|b| b.is_ascii_digit());
    match expression.to_uppercase().as_str() {
        _ if is_number => Ok(Some(expression.to_owned())),
        "UNIX_TIMESTAMP()" => Ok(Some(facts.now.to_string())),
        "VERSION()" => Ok(facts.variable("version")),
        "NULL" | "DATABASE()" => Ok(None),
        _ => Err(unknown(&format!("SELECT {expression}"))),
    }
}

fn show(what: &str, facts: &Facts) -> Option<Answer> {
    let what = ["GLOBAL", "SESSION"]
        .iter()
        .find_map(|scope| after_word(what, scope))
        .unwrap_or(what);
    if let Some(rest) = after_word(what, "VARIABLES") {
        return variables(rest, facts);
    }
    if let Some(rest) = after_word(what, "STATUS") {
        return snapshot(rest, facts);
    }
    let is = |words: &[&str]| after_words(what, words) == Some("");
    if after_binlog_status(what) == Some("") {
        let columns = ["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB"];
        let row = [
            file_name(facts.last),
            "4".to_owned(),
            String::new(),
            String::new(),
        ];
        return Some(rows(&columns, vec![row.to_vec()]));
    }
    if is(&["BINARY", "LOGS"]) || is(&["MASTER", "LOGS"]) {
        let first = Seqno(facts.first.0 - 1);
        let row = vec![file_name(first), "4".to_owned()];
        return Some(rows(&["Log_name", "File_size"], vec![row]));
    }
    None
}

/// Rest of a text after the words by which `SHOW` is asked for the end of the binlog.
pub(crate) fn after_binlog_status(what: &str) -> Option<&str> {
    let names: [&[&str]; 3] = [&["MASTER"], &["BINLOG"], &["BINARY", "LOG"]];
    let named = names.iter().find_map(|name| after_words(what, name))?;
    after_word(named, "STATUS")
}

/// The place of a snapshot in the binlog, as dumps of databases ask for it.
fn snapshot(rest: &str, facts: &Facts) -> Option<Answer> {
    let pattern = unquoted(after_word(rest, "LIKE")?)?.to_lowercase();
    let rows = [
        vec!["Binlog_snapshot_file".to_owned(), file_name(facts.last)],
        vec!["Binlog_snapshot_position".to_owned(), "4".to_owned()],
    ];
    (pattern == "binlog_snapshot_%").then(|| self::rows(&["Variable_name", "Value"], rows.into()))
}

fn variables(rest: &str, facts: &Facts) -> Option<Answer> {
    let pattern = match after_word(rest, "LIKE") {
        Some(text) => unquoted(text)?,
        None if rest.is_empty() => "%",
        None => return None,
    };
    let found = facts.variables().into_iter();
    // `_` stands for itself: names have it.
    let pattern = pattern.to_lowercase();
    let is_asked = |name: &str| is_like(name.as_bytes(), pattern.as_bytes(), b'%');
    let found = found.filter(|(name, _)| is_asked(name));
    let found = found.map(|(name, value)| vec![name.to_owned(), value]);
    Some(rows(&["Variable_name", "Value"], found.collect()))
}

fn rows(columns: &[&str], rows: Vec<Vec<String>>) -> Answer {
    let some = |row: Vec<String>| row.into_iter().map(Some).collect();
    Answer::Rows {
        columns: columns.iter().map(|name| (*name).to_owned()).collect(),
        rows: rows.into_iter().map(some).collect(),
    }
}

/// Limits for the variables of a reader: their number, and the size of a value in bytes.
const SET_MAX: usize = 64;
const VALUE_MAX: usize = 64 << 10;

/// Variables by which a reader says what it is to get, and how.
const OBEYED: [&str; 6] = [
    "mariadb_slave_capability",
    "master_binlog_checksum",
    "master_heartbeat_period",
    "rpl_semi_sync_slave",
    "slave_connect_state",
    "slave_until_gtid",
];
/// Variables that change nothing. Whatever a reader says, a relay refuses what it cannot continue,
/// has a reader wait that is ahead, and knows a reader by its `server_id`.
const HARMLESS: [&str; 3] = [
    "slave_gtid_ignore_duplicates",
    "slave_gtid_strict_mode",
    "slave_uuid",
];
/// Names of MySQL 8 for some of them.
const OTHER_NAMES: [(&str, &str); 4] = [
    ("replica_uuid", "slave_uuid"),
    ("rpl_semi_sync_replica", "rpl_semi_sync_slave"),
    ("source_binlog_checksum", "master_binlog_checksum"),
    ("source_heartbeat_period", "master_heartbeat_period"),
];
/// The names of variables by which readers ask a server for something begin with these.
const ASKING: [&str; 6] = [
    "mariadb_", "master_", "replica_", "rpl_", "slave_", "source_",
];

/// Whether a reader asks by this variable for something that relays do not know. It would expect
/// to get that.
fn asks_for_unknown(name: &str) -> bool {
    let name = one_name(name);
    let is_known = OBEYED.contains(&&*name) || HARMLESS.contains(&&*name);
    !is_known && is_for_relays(&name)
}

/// Whether a variable of a session is for what serves a binlog.
pub(crate) fn is_for_relays(name: &str) -> bool {
    let name = one_name(name);
    ASKING.iter().any(|begin| name.starts_with(begin))
}

/// The name of a variable in lower case, and in MariaDB's words.
fn one_name(name: &str) -> String {
    let name = name.to_lowercase();
    match OTHER_NAMES.iter().find(|(other, _)| *other == name) {
        Some((_, known)) => (*known).to_owned(),
        None => name,
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) identity: Identity,
    pub(crate) first: Seqno,
    pub(crate) last: Seqno,
    pub(crate) gtids: GtidList,
    pub(crate) now: u64,
}

impl Facts {
    /// The GTID at a place, written as arguments in parentheses; none: NULL, as on a server.
    fn gtid_at(&self, arguments: &str) -> Option<String> {
        let inner = arguments.strip_prefix('(')?.strip_suffix(')')?;
        let (file, _) = inner.split_once(',')?;
        let has_own = self.gtids.0 == [self.identity.gtid(self.last)];
        let seqno = seqno_of(unquoted(file)?).filter(|_| has_own)?;
        Some(self.identity.gtid(seqno).to_string())
    }

    /// The value of a variable, by its name in lower case.
    fn variable(&self, name: &str) -> Option<String> {
        let all = self.variables();
        let found = all.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value)
    }

    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let version = SERVER_VERSION.trim_start_matches("5.5.5-");
        let newest = self.gtids.to_string();
        let texts = |text: &str| text.to_owned();
        vec![
            ("binlog_checksum", texts("CRC32")),
            ("binlog_format", texts("ROW")),
            ("collation_server", texts("utf8mb4_general_ci")),
            ("gtid_binlog_pos", newest.clone()),
            ("gtid_binlog_state", newest.clone()),
            ("gtid_current_pos", newest),
            ("gtid_domain_id", self.identity.domain.to_string()),
            ("gtid_strict_mode", texts("1")),
            ("log_bin", texts("ON")),
            ("max_allowed_packet", texts("1073741824")),
            ("rpl_semi_sync_master_enabled", texts("ON")),
            ("server_id", self.identity.server_id.to_string()),
            ("system_time_zone", texts("UTC")),
            ("time_zone", texts("SYSTEM")),
            ("version", version.to_owned()),
            ("version_comment", texts("synod relay")),
        ]
    }
}

/// Variables that a reader has set for its connection, by names as [`one_name`] gives them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReaderVariables(BTreeMap<String, Option<String>>);

impl ReaderVariables {
    /// Sets a variable. Returns whether there was room.
    fn set(&mut self, name: &str, value: Option<String>) -> bool {
        let name = one_name(name);
        let is_new = !self.0.contains_key(&name);
        let bytes = name.len() + value.as_ref().map_or(0, String::len);
        if bytes > VALUE_MAX || (is_new && self.0.len() >= SET_MAX) {
            return false;
        }
        self.0.insert(name, value);
        true
    }

    /// The value; none if it is NULL or was not set.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(&one_name(name))?.as_deref()
    }
}

/// Parts of a list, divided at commas that are neither in quotes nor in parentheses.
pub(crate) fn parts(list: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut begin, mut depth, mut quote) = (0, 0_usize, None);
    for (at, character) in list.char_indices() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quote = Some(character),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                found.push(list.get(begin..at).unwrap_or_default().trim());
                begin = at + 1;
            }
            (None, _) => {}
        }
    }
    found.push(list.get(begin..).unwrap_or_default().trim());
    found
}

/// Rest of a text after its first word, compared without case.
pub(crate) fn after_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let text = text.trim_start();
    let begin = text.get(..word.len())?;
    let rest = text.get(word.len()..)?;
    let ends = rest.is_empty() || rest.starts_with(|c: char| !c.is_alphanumeric() && c != '_');
    (begin.eq_ignore_ascii_case(word) && ends).then(|| rest.trim_start())
}

pub(crate) fn after_words<'a>(text: &'a str, words: &[&str]) -> Option<&'a str> {
    words
        .iter()
        .try_fold(text, |rest, word| after_word(rest, word))
}

pub(crate) fn unquoted(text: &str) -> Option<&str> {
    let text = text.trim();
    ['\'', '"'].into_iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.contains(quote)).then_some(inner)
    })
}

#[cfg(test)]
mod tests {
    use synod_binlog::GtidList;

    use super::*;
    use crate::request::Identity;

    fn facts() -> Facts {
        Facts {
            identity: Identity {
                domain: 3,
                server_id: 7,
            },
            first: Seqno(10),
            last: Seqno(20),
            gtids: GtidList::default(),
            now: 1_000,
        }
    }

    fn one(statement: &str, own: &mut ReaderVariables) -> Vec<Option<String>> {
        match answer(statement, &facts(), own) {
            Answer::Rows { mut rows, .. } => rows.pop().unwrap_or_default(),
            other => panic!("{statement}: {other:?}"),
        }
    }

    fn text(value: &str) -> Option<String> {
        Some(value.to_owned())
    }

    /// In the order in which a replica of MariaDB 10.11 sends them.
    #[test]
    fn questions_of_a_replica_are_answered() {
        let mut own = ReaderVariables::default();
        let ask = |statement: &str, own: &mut ReaderVariables| {
            assert_eq!(
                answer(statement, &facts(), own),
                Answer::Done,
                "{statement}"
            );
        };
        assert_eq!(one("SELECT UNIX_TIMESTAMP()", &mut own), [text("1000")]);
        assert_eq!(
            one("SHOW VARIABLES LIKE 'SERVER_ID'", &mut own),
            [text("server_id"), text("7")]
        );
        ask("SET @master_heartbeat_period= 30000001024", &mut own);
        ask(
            "SET @master_binlog_checksum= @@global.binlog_checksum",
            &mut own,
        );
        assert_eq!(
            one("SELECT @master_binlog_checksum", &mut own),
            [text("CRC32")]
        );
        ask("SET @mariadb_slave_capability=4", &mut own);
        assert_eq!(one("SELECT @@GLOBAL.gtid_domain_id", &mut own), [text("3")]);
        ask("SET @slave_connect_state='3-7-15,4-1-1'", &mut own);
        ask("SET @slave_gtid_strict_mode=1", &mut own);
        ask("SET @slave_gtid_ignore_duplicates=0", &mut own);
        assert_eq!(own.get("slave_connect_state"), Some("3-7-15,4-1-1"));
        assert_eq!(own.get("master_heartbeat_period"), Some("30000001024"));
    }

    #[test]
    fn questions_of_tools_are_answered() {
        let mut own = ReaderVariables::default();
        let version = one("SELECT VERSION()", &mut own);
        assert!(
            version[0].as_ref().unwrap().starts_with("10.11."),
            "{version:?}"
        );
        let found = one("select @@version_comment limit 1", &mut own);
        assert_eq!(found, [text("synod relay")]);
        let found = one("SELECT @x AS y, 1, DATABASE()", &mut own);
        assert_eq!(found, [None, text("1"), None]);
        let status = one("SHOW MASTER STATUS", &mut own);
        assert_eq!(status[0], text(&file_name(Seqno(20))));
        assert_eq!(
            one("SHOW BINARY LOGS;", &mut own)[0],
            text(&file_name(Seqno(9)))
        );
        for harmless in [
            "SET NAMES utf8",
            "SET skip_replication=0",
            "SET @slave_uuid='x'",
        ] {
            assert_eq!(answer(harmless, &facts(), &mut own), Answer::Done);
        }
        assert_eq!(one("SHOW BINARY LOG STATUS", &mut own), status);
        let none = answer("SHOW VARIABLES LIKE 'nothing'", &facts(), &mut own);
        assert!(matches!(none, Answer::Rows { rows, .. } if rows.is_empty()));
        assert_eq!(
            one("SHOW VARIABLES LIKE 'RPL%master%'", &mut own)[1],
            text("ON")
        );
    }

    #[test]
    fn what_is_not_there_is_refused_in_words() {
        let mut own = ReaderVariables::default();
        for statement in [
            "INSERT INTO t VALUES (1)",
            "SELECT * FROM t",
            "SET GLOBAL binlog_checksum=NONE",
            "SET @@global.server_id=1",
            "SELECT @@nothing",
            "SET skip_replication=1",
            "SET @@session.skip_replication = ON",
            "SET SESSION skip_replication = 1",
            "SET @slave_unheard_of = 1",
            "SET autocommit = 1, @rpl_semi_sync_anything = 1",
            "SHOW TABLES",
            "",
        ] {
            let answered = answer(statement, &facts(), &mut own);
            assert!(
                matches!(answered, Answer::Refused(_)),
                "{statement}: {answered:?}"
            );
        }
    }

    #[test]
    fn what_a_reader_asks_for_is_known_or_not() {
        for known in [
            "slave_until_gtid",
            "Source_Binlog_Checksum",
            "replica_uuid",
            "mine",
        ] {
            assert!(!asks_for_unknown(known), "{known}");
        }
        for unknown in [
            "slave_until_log",
            "rpl_semi_sync_other",
            "MASTER_x",
            "replica_",
        ] {
            assert!(asks_for_unknown(unknown), "{unknown}");
        }
        let mut variables = ReaderVariables::default();
        variables.set("source_binlog_checksum", Some("NONE".to_owned()));
        assert_eq!(variables.get("master_binlog_checksum"), Some("NONE"));
    }

    #[test]
    fn variables_of_a_reader_are_bounded() {
        let mut variables = ReaderVariables::default();
        assert!(variables.set("A", Some("1".to_owned())));
        assert_eq!(variables.get("a"), Some("1"));
        assert!(!variables.set("long", Some("x".repeat(VALUE_MAX))));
        for number in 1..SET_MAX {
            assert!(variables.set(&number.to_string(), None));
        }
        assert!(!variables.set("one more", None));
        assert!(variables.set("a", None));
        assert_eq!(variables.get("a"), None);
    }

    #[test]
    fn lists_are_divided_outside_quotes_and_parentheses() {
        assert_eq!(parts("a, 'b,c' ,f(d, e)"), ["a", "'b,c'", "f(d, e)"]);
        assert_eq!(parts(""), [""]);
        assert_eq!(parts("a,"), ["a", ""]);
        assert_eq!(parts(")),'"), ["))", "'"]);
    }

    #[test]
    fn words_end_where_names_do() {
        assert_eq!(after_word(" select  1", "SELECT"), Some("1"));
        assert_eq!(after_word("SELECT@@x", "SELECT"), Some("@@x"));
        assert_eq!(after_word("SELECTED", "SELECT"), None);
        assert_eq!(
            after_words("show  Master status", &["SHOW", "MASTER"]),
            Some("status")
        );
        assert_eq!(after_word("é", "S"), None);
    }

    #[test]
    fn quotes_are_taken_off_in_pairs() {
        assert_eq!(unquoted(" '1-2-3' "), Some("1-2-3"));
        assert_eq!(unquoted("\"\""), Some(""));
        assert_eq!(unquoted("1"), None);
        assert_eq!(unquoted("'"), None);
        assert_eq!(unquoted("'a' 'b'"), None);
    }
}
