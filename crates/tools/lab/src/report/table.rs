//! A table, as Markdown.

/// A table with one line of column names.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Table {
    pub(super) caption: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(caption: impl Into<String>, columns: &[&str]) -> Table {
        Table {
            caption: caption.into(),
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// The table as Markdown, with an empty line after it.
    pub(super) fn markdown(&self) -> String {
        let line = |row: &[String]| {
            let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule = "|---".repeat(self.columns.len());
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!(
            "{}:\n\n{}{rule}|\n{rows}\n",
            self.caption,
            line(&self.columns)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            rows: vec![vec!["a<b".into(), "1|2".into()]],
            ..Table::new("Rates", &["system", "TPS"])
        }
    }

    #[test]
    fn markdown_has_a_rule_and_keeps_bars_in_their_cells() {
        let expected = "Rates:\n\n| system | TPS |\n|---|---|\n| a<b | 1\\|2 |\n\n";
        assert_eq!(table().markdown(), expected);
    }
}
