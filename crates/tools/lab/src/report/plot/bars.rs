//! Horizontal bars: ratios, with a line at 1 and whiskers for the spread.

use super::super::figure;
use super::super::page::escape;
use super::{MARGIN, TEXT, WIDTH, axis, colour, frame};

/// Space for the names on the left.
const NAMES: f64 = 250.0;

/// Space for the figure on the right of a bar.
const FIGURES: f64 = 130.0;

/// Height of a bar with the space below it.
const STEP: f64 = 24.0;

#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Bar {
    /// Label of the bar.
    pub(in super::super) name: String,
    /// Group in the plot: decides the bar's colour.
    pub(in super::super) group: usize,
    /// Length of the bar.
    pub(in super::super) value: f64,
    /// The smallest and the greatest of the values that `value` is the median of.
    pub(in super::super) spread: (f64, f64),
    /// Number of those values.
    pub(in super::super) count: usize,
}

/// A plot of bars.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Bars {
    /// Title of the plot.
    pub(in super::super) title: String,
    /// The bars, from the top.
    pub(in super::super) bars: Vec<Bar>,
}

impl Bars {
    /// The plot as SVG.
    pub(in super::super) fn svg(&self) -> String {
        let ends = self.bars.iter().map(|bar| bar.value.max(bar.spread.1));
        // At least up to 1, where two systems are equal.
        let greatest = ends.filter(|v| v.is_finite()).fold(1.0, f64::max);
        let lines = axis::lines(greatest);
        let top = lines.last().copied().unwrap_or(1.0);
        let x = |value: f64| NAMES + (WIDTH - NAMES - FIGURES) * value / top;
        #[allow(clippy::cast_precision_loss)]
        let bottom = MARGIN + STEP * self.bars.len() as f64;
        let mut content = String::new();
        for value in &lines {
            content += &upright("grid", x(*value), bottom);
            content += &format!(
                "<text class=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
                x(*value),
                bottom + TEXT,
                figure::number(*value)
            );
        }
        for (bar, number) in self.bars.iter().zip(0u32..) {
            content += &drawn(bar, MARGIN + STEP * f64::from(number), &x);
        }
        content += &upright("one", x(1.0), bottom);
        frame(&self.title, bottom + TEXT + MARGIN, &content)
    }
}

fn upright(class: &str, x: f64, bottom: f64) -> String {
    format!("<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"6\" y2=\"{bottom:.1}\"/>\n")
}

fn drawn(bar: &Bar, y: f64, x: &impl Fn(f64) -> f64) -> String {
    if !bar.value.is_finite() {
        return String::new();
    }
    let figure = figure::with_spread(bar.value, bar.spread.0, bar.spread.1, bar.count);
    let middle = y + 8.0;
    let end = x(bar.value.max(bar.spread.1)) + 8.0;
    let mut text = format!(
        "<text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{name}</text>\
         <rect class=\"{}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"16\">\
         <title>{name}: {figure}</title></rect>\
         <text x=\"{end:.1}\" y=\"{:.1}\">{figure}</text>\n",
        NAMES - 8.0,
        y + 13.0,
        colour(bar.group),
        x(0.0),
        x(bar.value) - x(0.0),
        y + 13.0,
        name = escape(&bar.name)
    );
    if bar.count > 1 {
        text += &format!(
            "<line class=\"whisker\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" \
             y2=\"{middle:.1}\"/>\n",
            x(bar.spread.0),
            x(bar.spread.1)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_names_figures_and_a_line_at_one() {
        let bar = |name: &str, value, count| Bar {
            name: name.into(),
            group: 0,
            value,
            spread: (value - 0.1, value + 0.1),
            count,
        };
        let svg = Bars {
            title: "Ratios".into(),
            bars: vec![bar("16 threads", 1.2, 3), bar("64 threads", 0.9, 1)],
        }
        .svg();
        assert!(svg.contains(">1.20 (1.10–1.30)</text>"), "{svg}");
        assert!(svg.contains(">0.900</text>") && svg.contains("class=\"one\""));
        assert_eq!(svg.matches("class=\"whisker\"").count(), 1);
    }
}
