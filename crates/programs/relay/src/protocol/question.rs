//! The statements that replicas and tools send before they ask for a dump.

use synod_node::Seqno;

use super::answer::{Answer, Refusal};
use super::expression::{after_word, after_words, is_like, parts, unquoted};
use super::variable::{Facts, ReaderVariables, asks_for_unknown};
use crate::excerpt::excerpt;
use crate::request::file_name;

/// The answer to a replica with `replicate_events_marked_for_skip = FILTER_ON_MASTER`: it does not
/// look at the mark itself.
const FILTER: &str = "This relay leaves out no events that are marked by skip_replication. Let the \
                      replica do it: replicate_events_marked_for_skip = FILTER_ON_SLAVE";

/// Answers a statement; what it sets is kept in `own`.
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
        excerpt(statement)
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
                return Some(Answer::Refused(Refusal::unsupported(FILTER.to_owned())));
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
fn asks_for_filter(name: &str, value: &str) -> bool {
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

/// An expression, and the name that its column gets.
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
    let is = |words: &[&str]| after_words(what, words) == Some("");
    if is(&["MASTER", "STATUS"]) || is(&["BINLOG", "STATUS"]) || is(&["BINARY", "LOG", "STATUS"]) {
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

fn variables(rest: &str, facts: &Facts) -> Option<Answer> {
    let pattern = match after_word(rest, "LIKE") {
        Some(text) => unquoted(text)?,
        None if rest.is_empty() => "%",
        None => return None,
    };
    let found = facts.variables().into_iter();
    let found = found.filter(|(name, _)| is_like(name, pattern));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use proptest::prelude::*;
    use synod_binlog::GtidList;

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

    proptest! {
        #[test]
        fn made_up_statements_never_panic(
            begin in prop_oneof![Just("SELECT "), Just("SET @"), Just("SHOW "), Just("")],
            rest in "\\PC{0,40}",
        ) {
            let mut own = ReaderVariables::default();
            let _ = answer(&format!("{begin}{rest}"), &facts(), &mut own);
        }
    }
}
