//! The report of the bench and the meters, as Markdown tables.

mod bench;
pub mod certificate;
mod figure;
mod meters;
mod table;

use crate::meters::MeterRecord;
use crate::results::Results;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    pub benches: Vec<Results>,
    /// Runs of meters; those of the same meter are shown side by side.
    pub meters: Vec<MeterRecord>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Section {
    title: String,
    notes: Vec<String>,
    tables: Vec<table::Table>,
}

pub fn markdown(report: &Report) -> String {
    let mut text = String::new();
    for section in sections(report) {
        text += &format!("### {}\n\n", section.title);
        for note in &section.notes {
            text += &format!("{note}\n\n");
        }
        text.extend(section.tables.iter().map(table::Table::markdown));
    }
    text
}

fn sections(report: &Report) -> Vec<Section> {
    let mut sections = Vec::new();
    for results in &report.benches {
        sections.extend(bench::sections(results));
    }
    sections.extend(meters::sections(&report.meters));
    sections
}
