//! The protocol's named situations, one text file each in `tests/scripts`: commands, and below each
//! command what followed. `docs/simulation.md` says how to read and write them.
//! `SYNOD_WRITE_SCRIPTS=1` writes what followed into the files.

mod harness;
mod stepwise;

use std::path::Path;

use stepwise::script::{Script, rewrite};

/// Fewer files than this: some are lost.
const SCRIPTS_MIN: usize = 55;

#[test]
fn every_script_does_what_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder of scripts")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "txt"))
        .collect();
    paths.sort();
    assert!(paths.len() >= SCRIPTS_MIN, "only {} scripts", paths.len());
    let write = std::env::var_os("SYNOD_WRITE_SCRIPTS").is_some();
    let mut problems = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a readable script");
        let name = path.strip_prefix(env!("CARGO_MANIFEST_DIR"));
        let name = name.unwrap_or(&path).display().to_string();
        let result = if write {
            rewrite(&name, &text).map(|new| std::fs::write(&path, new).expect("a writable script"))
        } else {
            Script::parse(&name, &text).and_then(|script| script.check())
        };
        problems.extend(result.err());
    }
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// Error of the runner for a script of this text, with a comment line before it.
fn problem(text: &str) -> String {
    let text = format!("# shows nothing\n{text}");
    Script::parse("some.txt", &text)
        .and_then(|script| script.check())
        .expect_err("no sense in it")
}

#[test]
fn commands_without_sense_are_named_by_file_and_line() {
    let table = [
        (
            "group 3\nfrobnicate n1\n",
            "3: unknown command 'frobnicate'",
        ),
        ("group\n", "2: 'group' needs: group <members> [down]"),
        ("group many\n", "2: 'many' is no number"),
        ("group 0\n", "2: a group has 1 to 9 members"),
        ("group 3\ngroup 3\n", "3: there is a group already"),
        ("campaign n1\n", "2: no member n1"),
        ("group 3\ncampaign n4\n", "3: no member n4"),
        (
            "group 3\ncampaign bob\n",
            "3: 'bob' is no member: n1, n2...",
        ),
        ("group 3\ncrash n1\ncampaign n1\n", "4: n1 is down"),
        ("group 3\nstart n1\n", "3: n1 is up already"),
        ("group 3\nnew n3\n", "3: n3 is there already"),
        ("group 3\nwait 3\n", "3: '3' is no time: 300ms, 5s"),
        (
            "group 3\ndeliver n1-n2\n",
            "3: 'n1-n2' is no link: n1->n2, *->n2, n1->*, *",
        ),
        (
            "group 3\ndeliver * letter\n",
            "3: 'letter' is no kind of message",
        ),
        (
            "group 3\ndeliver n1->n2\n",
            "3: no such message is on its way",
        ),
        (
            "group 3\ndisk n1 burn\n",
            "3: 'disk' needs: disk <member> hold|sync|release",
        ),
        ("group 3\ndisk n1 log 1 1\n", "3: n1 is up already"),
        ("group 3 down\ndisk n1 log 2 1\n", "3: terms go back"),
        (
            "group 3 down\ndisk n1 log 3 term 2\n",
            "3: entries of a term above the vote's",
        ),
        ("group 3\ndeliver n1->n7\n", "3: no member n7"),
        ("group 3\nhold n7->n1\n", "3: no member n7"),
        ("group 3\ncut *->n7\n", "3: no member n7"),
        ("group 3\nrelease n1->n2\n", "3: this link is not held"),
        ("group 3\nremove n1 n7\n", "3: no member n7"),
        ("group 3\nreplace n1 n2 n7\n", "3: no member n7"),
        ("group 3\ntransfer n1 n7\n", "3: no member n7"),
        ("group 3\neligible n1 n7\n", "3: no member n7"),
        ("group 3\ndisconnect n1 n7\n", "3: no member n7"),
        (
            "group 3\nweight n1 101\n",
            "3: '101' is no weight: 0 to 100",
        ),
        (
            "group 3\nhandover n1 now\n",
            "3: 'handover' needs: handover <member> optimistic|forced",
        ),
        ("group 3\nappend-bytes 1\n", "3: members are up already"),
        ("group 3\npartition n1 | n2\n", "3: n3 is on no side"),
        (
            "group 3\npartition n1 | n1 n2 n3\n",
            "3: n1 is on two sides",
        ),
        (
            "group 3\npurge n1 7\n",
            "3: n1 cannot purge its log up to 7",
        ),
        (
            "group 3\nassert n1 shoesize 43\n",
            "3: 'shoesize' is nothing to assert",
        ),
        ("group 3\nassert k committed\n", "3: nothing is called 'k'"),
        (
            "group 3\nsubmit n1 k\nsubmit n1 k\n",
            "4: there is a 'k' already",
        ),
        (
            "group 3\ncampaign n1 please\n",
            "3: 'campaign' needs: campaign <member>",
        ),
        (
            "group 3\nassert n1 role leader\n",
            "3: n1 role is 'follower', not 'leader'",
        ),
    ];
    for (text, expected) in table {
        let found = problem(text);
        let expected = format!("some.txt:{expected}");
        assert!(found.starts_with(&expected), "{text:?}: {found}");
    }
}

#[test]
fn other_output_than_recorded_is_a_problem() {
    let recorded = rewrite("some.txt", "# shows status\ngroup 2\nstatus\n").expect("fine");
    let script = Script::parse("some.txt", &recorded).expect("what was written");
    script.check().expect("unchanged");
    for (from, to) in [
        ("n2 follower", "n2 leader"),
        ("  n2", "  n3"),
        ("status\n", ""),
    ] {
        let changed = recorded.replacen(from, to, 1);
        assert_ne!(changed, recorded);
        let script = Script::parse("some.txt", &changed);
        script
            .and_then(|script| script.check())
            .expect_err("changed");
    }
    let missing = problem("group 2\nstatus\n");
    assert!(
        missing.starts_with("some.txt:3: 'status' gave"),
        "{missing}"
    );
}

#[test]
fn rewriting_keeps_comments_and_settles() {
    let text = "# shows something\n\ngroup 2\n  wrong\n\n# a word\nstatus\n  wrong\n# end\n";
    let once = rewrite("some.txt", text).expect("fine");
    assert_eq!(rewrite("some.txt", &once).as_ref(), Ok(&once));
    assert!(once.starts_with("# shows something\n\ngroup 2\n\n# a word\nstatus\n  n1"));
    assert!(once.ends_with("\n# end\n"));
}

#[test]
fn script_without_a_header_is_refused() {
    let found = Script::parse("some.txt", "group 3\n").map(|_| ());
    let expected = "some.txt:1: a script starts with a comment: what it shows, and its source";
    assert_eq!(found, Err(expected.to_owned()));
}

#[test]
fn output_before_any_command_is_refused() {
    let found = problem("  n1 leader\n");
    assert!(
        found.starts_with("some.txt:2: output without a command"),
        "{found}"
    );
}
