//! Plots as SVG.
//!
//! Colours are classes that the page's style sheet gives, one per series, so that plots are dark
//! in a dark page. Every series is named in a legend below the plot, and marks have titles that
//! browsers show.

pub(super) mod axis;
pub(super) mod bars;
pub(super) mod lines;

use super::page::escape;

/// Width of a plot in its own units; the page scales it.
const WIDTH: f64 = 720.0;

/// Height of the part with the marks.
const HEIGHT: f64 = 260.0;

/// Space for numbers on the left.
const LEFT: f64 = 58.0;

/// Space above, on the right and, for the names of values, below.
const MARGIN: f64 = 14.0;

/// Height of a line of text.
const TEXT: f64 = 18.0;

/// Number of colours; then they repeat.
pub(super) const COLOURS: usize = 8;

/// The class of a series.
fn colour(series: usize) -> String {
    format!("s{}", series % COLOURS)
}

/// The frame of a plot: its size and its name for readers that do not see it.
fn frame(title: &str, height: f64, content: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\">\n\
         {content}</svg>\n",
        title = escape(title)
    )
}

/// The names of the series below a plot, and the height that they take.
fn legend(names: &[&str], top: f64) -> (String, f64) {
    let mut text = String::new();
    let (mut x, mut y) = (LEFT, top + TEXT);
    for (series, name) in names.iter().enumerate() {
        // Letters of the page's font are about 7 units wide.
        #[allow(clippy::cast_precision_loss)]
        let width = 30.0 + 7.0 * name.chars().count() as f64;
        if x + width > WIDTH && x > LEFT {
            x = LEFT;
            y += TEXT;
        }
        text += &format!(
            "<rect class=\"{}\" x=\"{x:.0}\" y=\"{:.0}\" width=\"12\" height=\"12\"/>\
             <text x=\"{:.0}\" y=\"{y:.0}\">{}</text>\n",
            colour(series),
            y - 10.0,
            x + 16.0,
            escape(name)
        );
        x += width;
    }
    (text, y + MARGIN - top)
}
