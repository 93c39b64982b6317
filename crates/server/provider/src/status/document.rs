//! `docs/status.md`: its tables are written from the variables, so that document and program agree.
//!
//! A test writes them into the document, and fails when document and program differ.

use super::variables::{NOT_MEASURED, Section, VARIABLES, Variable};

pub fn markdown_tables() -> String {
    Section::ALL.map(section).join("\n")
}

fn section(section: Section) -> String {
    let mut out = format!("## {}\n\n", section.title());
    if !section.note().is_empty() {
        out.push_str(&format!("{}\n\n", section.note()));
    }
    out.push_str("| Variable | Type | Meaning |\n|---|---|---|\n");
    let of_section = VARIABLES.iter().filter(|v| v.section == section);
    let (unmeasured, measured): (Vec<&Variable>, Vec<&Variable>) =
        of_section.partition(|v| v.text == NOT_MEASURED);
    for variable in measured {
        let (name, kind) = (variable.name, variable.reading.kind());
        out.push_str(&format!(
            "| `wsrep_{name}` | {kind} | {} |\n",
            variable.text
        ));
    }
    if !unmeasured.is_empty() {
        out.push_str("\nAlways zero or empty, because they are not measured:\n\n");
    }
    for variable in unmeasured {
        out.push_str(&format!("- `wsrep_{}`\n", variable.name));
    }
    out
}
