//! `docs/options.md` and `docs/status.md` say what the code does.
//!
//! Their tables are made from the tables of the code. Run this test with `SYNOD_WRITE_DOCS=1` to
//! write them again.

use std::path::Path;

const BEGIN: &str = "<!-- The tables below are written by the test `generated_documents`. -->\n";
const END: &str = "<!-- End of the tables. -->\n";

#[test]
fn options_are_those_of_the_code() {
    compare("options.md", &synod::options::markdown_tables());
}

#[test]
fn status_variables_are_those_of_the_code() {
    compare("status.md", &synod::status::markdown_tables());
}

/// Compares the tables of a document with those expected, or writes them.
fn compare(document: &str, expected: &str) {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs");
    let path = docs.join(document);
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once(BEGIN).expect("marker before the tables");
    let (tables, tail) = rest.split_once(END).expect("marker after the tables");
    let expected = format!("\n{expected}\n");
    if std::env::var_os("SYNOD_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}{expected}{END}{tail}")).unwrap();
        return;
    }
    assert!(
        tables == expected,
        "docs/{document} is out of date: run this test with SYNOD_WRITE_DOCS=1"
    );
}
