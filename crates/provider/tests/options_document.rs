//! `docs/options.md` says what the code does. Run with `SYNOD_WRITE_DOCS=1` to write its tables
//! again.

use std::path::Path;

use synod::options::markdown_tables;

const BEGIN: &str = "<!-- The tables below are written by the test `options_document`. -->\n";
const END: &str = "<!-- End of the tables. -->\n";

#[test]
fn document_has_the_tables_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/options.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once(BEGIN).expect("marker before the tables");
    let (tables, tail) = rest.split_once(END).expect("marker after the tables");
    let expected = format!("\n{}\n", markdown_tables());
    if std::env::var_os("SYNOD_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}{expected}{END}{tail}")).unwrap();
        return;
    }
    assert!(
        tables == expected,
        "docs/options.md is out of date: run with SYNOD_WRITE_DOCS=1"
    );
}
