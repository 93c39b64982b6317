//! Rules of `CONTRIBUTING.md` that a program can check, one test a rule.

use std::process::Command;

use synod_tidy::{
    SourceFile, assert_none, banned_in_name, banned_openings, banned_phrase, names_in, repository,
    source_files,
};

/// Columns of a line, comments and documents included.
const COLUMNS_MAX: usize = 100;

/// Length of a commit's title.
const TITLE_MAX: usize = 72;

/// The commit titles up to here are older than the rule.
const TITLES_SINCE: &str = "0c1b3d5";

/// Files that have to write what is banned.
fn may_name_what_is_banned(file: &SourceFile) -> bool {
    file.path.starts_with("testing/tidy/") || file.path == "docs/glossary.md"
}

#[test]
fn lines_fit_in_100_columns() {
    let mut findings = Vec::new();
    for file in source_files() {
        let mut in_code = false;
        for (number, line) in file.lines() {
            if !file.is_rust() && line.trim_start().starts_with("```") {
                in_code = !in_code;
            }
            let columns = line.chars().count();
            if columns > COLUMNS_MAX && !may_be_long(&file, line, in_code) {
                findings.push(file.finding(number, &format!("{columns} columns")));
            }
        }
    }
    assert_none("a line has at most 100 columns", &findings);
}

/// Tables and drawings of documents, texts in code, which may be searched for as they are, and
/// addresses.
fn may_be_long(file: &SourceFile, line: &str, in_code: bool) -> bool {
    let is_comment = line.trim_start().starts_with("//");
    let is_text = file.is_rust() && !is_comment && line.contains('"');
    let is_indented_code = !file.is_rust() && line.starts_with("    ");
    let is_table = !file.is_rust() && line.trim_start().starts_with('|');
    is_text || is_table || is_indented_code || in_code || line.contains("://")
}

#[test]
fn words_are_those_of_the_glossary() {
    let mut findings = Vec::new();
    for file in source_files()
        .iter()
        .filter(|f| !may_name_what_is_banned(f))
    {
        for (number, line) in file.lines() {
            let line = &without_account(line);
            if let Some(phrase) = banned_phrase(line) {
                findings.push(file.finding(number, &format!("'{phrase}'")));
            }
            let mut names = names_in(line).filter(|_| file.is_rust());
            if let Some(word) = names.find_map(banned_in_name) {
                findings.push(file.finding(number, &format!("a name with '{word}'")));
            }
        }
    }
    assert_none("docs/glossary.md bans these words", &findings);
}

/// A line without the name of the system's account that owns nothing.
fn without_account(line: &str) -> String {
    let quoted = ["`nobody`", "'nobody'", "\"nobody\""];
    quoted
        .iter()
        .fold(line.to_owned(), |line, name| line.replace(name, ""))
}

#[test]
fn every_source_file_says_what_it_is() {
    let mut findings = Vec::new();
    for file in source_files().iter().filter(|f| f.is_rust()) {
        let first = file.text.lines().next().unwrap_or_default();
        if !first.starts_with("//!") {
            findings.push(file.finding(1, "no module header"));
        }
        for (number, line) in file.lines() {
            let comment = line.trim_start().strip_prefix("/// ").unwrap_or_default();
            let words = comment.trim_end_matches('.').split_whitespace().count();
            if words == 1 && is_alone(&file.text, number) && VAGUE.contains(&comment) {
                findings.push(file.finding(number, "a comment of one word tells nothing"));
            }
        }
    }
    assert_none("a comment says what the thing is", &findings);
}

/// Doc comments that satisfy the compiler and tell a reader nothing.
const VAGUE: [&str; 4] = ["These.", "How.", "Why.", "When."];

#[test]
fn doc_comments_begin_with_what_they_describe() {
    let mut findings = Vec::new();
    for file in source_files().iter().filter(|f| f.is_rust()) {
        for (line, word) in banned_openings(&file.text) {
            findings.push(file.finding(line, &format!("begins with '{word}'")));
        }
    }
    assert_none("a doc comment begins with a noun or a verb", &findings);
}

/// Whether a doc comment has this line only.
fn is_alone(text: &str, number: usize) -> bool {
    let is_comment = |line: Option<&str>| line.is_some_and(|l| l.trim_start().starts_with("///"));
    let before = number.checked_sub(2).and_then(|at| text.lines().nth(at));
    !is_comment(before) && !is_comment(text.lines().nth(number))
}

/// Libraries that a server or a page calls: `unsafe` code is allowed in their boundary, and denied
/// elsewhere.
const WITH_A_BOUNDARY: [&str; 3] = [
    "crates/server/provider/src/lib.rs",
    "crates/server/mysql-host/src/lib.rs",
    "testing/playground/src/lib.rs",
];

/// Only those with a boundary have `unsafe` code.
#[test]
fn every_library_forbids_unsafe_code() {
    let is_library = |file: &&SourceFile| {
        file.path.ends_with("/src/lib.rs") && !WITH_A_BOUNDARY.contains(&file.path.as_str())
    };
    let forbids = |file: &SourceFile| {
        let mut lines = file.text.lines();
        lines.any(|line| line == "#![forbid(unsafe_code)]")
    };
    let sources = source_files();
    let findings: Vec<_> = sources
        .iter()
        .filter(is_library)
        .filter(|file| !forbids(file))
        .map(|file| file.finding(1, "no #![forbid(unsafe_code)]"))
        .collect();
    assert_none("a library forbids unsafe code", &findings);
}

/// Only the provider knows the server that it runs in.
#[test]
fn lower_crates_name_no_option_of_the_server() {
    const LOWER: [&str; 3] = ["core", "runtime/tls", "runtime/node"];
    const OPTIONS: [&str; 10] = [
        "wsrep_",
        "innodb_",
        "synod.",
        "gmcast.",
        "evs.",
        "pc.",
        "gcs.",
        "gcache.",
        "socket.ssl",
        "base_port",
    ];
    let is_lower = |file: &&SourceFile| {
        let mut lower = LOWER.iter();
        let is_source = file.path.contains("/src/");
        is_source && lower.any(|place| file.path.starts_with(&format!("crates/{place}/")))
    };
    let mut findings = Vec::new();
    for file in source_files().iter().filter(is_lower) {
        for (number, line) in file.lines() {
            let found = OPTIONS
                .into_iter()
                .find(|option| names_option(line, option));
            if let Some(option) = found {
                findings.push(file.finding(number, &format!("'{option}'")));
            }
        }
    }
    assert_none(
        "nothing below the provider names an option of the server",
        &findings,
    );
}

/// Whether an option begins in this line: `synod.voter`, but not `member.synod.invalid`.
fn names_option(line: &str, option: &str) -> bool {
    let starts_word = |at: usize| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '.')
    };
    let is_followed = |at: usize| {
        let after = line[at + option.len()..].chars().next();
        !option.ends_with('.') || after.is_some_and(|c| c.is_ascii_lowercase())
    };
    let mut places = line.match_indices(option);
    places.any(|(at, _)| starts_word(at) && is_followed(at))
}

/// A title can be scanned in `git log --oneline`. Without git, or its history, nothing is checked.
#[test]
fn commit_titles_can_be_scanned() {
    let range = format!("{TITLES_SINCE}..HEAD");
    let log = Command::new("git")
        .args(["log", "--no-merges", "--format=%h %s", &range])
        .current_dir(repository())
        .output();
    let Some(log) = log.ok().filter(|output| output.status.success()) else {
        eprintln!("no git history here: commit titles are not checked");
        return;
    };
    let mut findings = Vec::new();
    for line in String::from_utf8_lossy(&log.stdout).lines() {
        let (hash, title) = line.split_once(' ').unwrap_or((line, ""));
        let length = title.chars().count();
        if length > TITLE_MAX {
            findings.push(format!("{hash}: {length} characters: {title}"));
        }
        if title.starts_with("fixup!") || title.starts_with("squash!") {
            findings.push(format!("{hash}: {title}"));
        }
    }
    assert_none("a commit's title has at most 72 characters", &findings);
}

/// A merge that nobody looked at, or a link to a place on one machine. Without git, only the files
/// of the other rules are looked at.
#[test]
fn no_file_has_the_marks_of_a_conflict_and_none_is_a_link() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(repository())
            .output();
        let output = output.map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&output).into_owned()
    };
    let mut findings = Vec::new();
    for file in source_files() {
        for (number, line) in file.lines() {
            if line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ") {
                findings.push(file.finding(number, "a conflict"));
            }
        }
    }
    let conflicts = git(&["grep", "-nE", "^(<<<<<<<|>>>>>>>) "]);
    findings.extend(conflicts.lines().map(str::to_owned));
    let tracked = git(&["ls-files", "-s"]);
    let is_link = |line: &&str| line.starts_with("120000 ");
    findings.extend(tracked.lines().filter(is_link).map(str::to_owned));
    assert_none("a file is whole, and no link", &findings);
}
