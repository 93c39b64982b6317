//! The report of the bench and the meters, as one HTML page and as Markdown tables.
//!
//! Both come from the same tables (`table`), so they never disagree. The page is one file: no
//! script, nothing that is fetched; plots are SVG in it. It follows the reader's choice of dark or
//! light, and fits a phone: wide things scroll by themselves.
//!
//! - `bench`: tables and plots of a [`Results`].
//! - `meters`: tables of a [`MeterRecord`].
//! - `table`, `plot`: a table, a plot.
//! - `page`: the page around them.
//! - `figure`: formatting of numbers.

mod bench;
mod figure;
mod meters;
mod page;
mod plot;
mod table;

use crate::meters::MeterRecord;
use crate::results::Results;

/// Contents of a report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Runs of the bench.
    pub benches: Vec<Results>,
    /// Runs of meters; those of the same meter are shown side by side.
    pub meters: Vec<MeterRecord>,
}

/// A part of the report, under a heading.
#[derive(Debug, Clone, Default, PartialEq)]
struct Section {
    title: String,
    /// Paragraphs that explain the section.
    notes: Vec<String>,
    /// Tables and plots, in this order.
    blocks: Vec<Block>,
}

/// Table or plot of a section.
#[derive(Debug, Clone, PartialEq)]
enum Block {
    Table(table::Table),
    /// A plot: its title, and the SVG. Markdown has none.
    Plot {
        title: String,
        svg: String,
    },
}

/// The whole report as one HTML page.
pub fn html(report: &Report) -> String {
    page::render(&sections(report))
}

/// The report's tables as Markdown.
pub fn markdown(report: &Report) -> String {
    let mut text = String::new();
    for section in sections(report) {
        text += &format!("### {}\n\n", section.title);
        for note in &section.notes {
            text += &format!("{note}\n\n");
        }
        for block in &section.blocks {
            if let Block::Table(table) = block {
                text += &table.markdown();
            }
        }
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
