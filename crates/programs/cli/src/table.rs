//! Tables of text for people: columns as wide as their widest cell, two spaces between them.

/// Lays out rows of cells, the first of which is the head.
pub fn lay_out<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(widths);
        let cells = cells.map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The value, or a dash if there is none.
pub fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "b"], ["long", "ä"], ["", "x"]].map(|row| row.map(str::to_owned));
        assert_eq!(lay_out(&rows), "a     b\nlong  ä\n      x");
        assert_eq!(
            (or_dash(Some(7)), or_dash(None::<u8>)),
            ("7".into(), "-".into())
        );
    }
}
