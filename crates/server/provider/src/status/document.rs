//! `docs/status.md`: its tables are written from the variables, so that document and program agree.
//!
//! A test writes them into the document, and fails when document and program differ.

use super::variables::{Section, VARIABLES};

pub fn markdown_tables() -> String {
    Section::ALL.map(section).join("\n")
}

fn section(section: Section) -> String {
    let mut out = format!("## {}\n\n", section.title());
    if !section.note().is_empty() {
        out.push_str(&format!("{}\n\n", section.note()));
    }
    out.push_str("| Variable | Type | Meaning |\n|---|---|---|\n");
    for variable in VARIABLES.iter().filter(|v| v.section == section) {
        let (name, kind) = (variable.name, variable.reading.kind());
        out.push_str(&format!(
            "| `wsrep_{name}` | {kind} | {} |\n",
            variable.text
        ));
    }
    out
}
