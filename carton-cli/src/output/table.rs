//! Tables of text.

use std::fmt::Write as _;

use crate::text::one_line;

/// How a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// To the left: text.
    Left,
    /// To the right: numbers.
    Right,
}

/// Rows of cells that line up. The last column is never padded, so that no line ends with spaces.
pub(crate) struct Table {
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
    indent: &'static str,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(align: &[Align]) -> Self {
        Self { align: align.to_vec(), rows: Vec::new(), indent: "" }
    }

    /// Puts this before each line.
    pub(crate) fn indent(mut self, indent: &'static str) -> Self {
        self.indent = indent;
        self
    }

    /// Adds a row; missing cells are empty. Control characters in the cells are replaced, because their text may come from a carton.
    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell.into())).collect());
    }

    /// Formats the lines of the table. `paint` gets row and column of each cell and its padded text.
    pub(crate) fn lines(&self, paint: &dyn Fn(usize, usize, String) -> String) -> String {
        let widths: Vec<usize> = (0..self.align.len())
            .map(|column| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for (row, cells) in self.rows.iter().enumerate() {
            let last = cells.iter().rposition(|cell| !cell.is_empty()).map_or(0, |last| last + 1);
            text.push_str(self.indent);
            for (column, cell) in cells.iter().enumerate().take(last) {
                let padding = " ".repeat(widths.get(column).map_or(0, |widest| widest.saturating_sub(width(cell))));
                let padded = match self.align.get(column) {
                    Some(Align::Right) => format!("{padding}{cell}"),
                    _ if column + 1 == last => cell.clone(),
                    _ => format!("{cell}{padding}"),
                };
                let separator = if column == 0 { "" } else { "  " };
                // Writing to a string cannot fail.
                let _ = write!(text, "{separator}{}", paint(row, column, padded));
            }
            text.push('\n');
        }
        text
    }

    /// The lines of the table without colors.
    #[cfg(test)]
    fn plain(&self) -> String {
        self.lines(&|_, _, cell| cell)
    }
}

/// Returns the terminal columns that a cell takes. Counting characters is right except for wide and combining ones.
fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[Align::Right, Align::Left, Align::Left]).indent("  ");
        table.row(["1", "ä", "x"]);
        table.row(["100", "abc", ""]);
        table.row(["7"]);
        assert_eq!(table.plain(), "    1  ä    x\n  100  abc\n    7\n");
    }
}
