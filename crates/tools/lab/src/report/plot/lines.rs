//! Lines: a figure over time, or over threads.

use super::super::figure;
use super::super::page::escape;
use super::{HEIGHT, LEFT, MARGIN, TEXT, WIDTH, axis, colour, frame, legend};

#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Series {
    /// Its name in the legend.
    pub(in super::super) name: String,
    /// Its points: place on the horizontal axis, value.
    pub(in super::super) points: Vec<(f64, f64)>,
}

/// A plot of lines.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Lines {
    /// Title of the plot.
    pub(in super::super) title: String,
    /// Unit of the values.
    pub(in super::super) unit: String,
    /// Name and unit of the horizontal axis.
    pub(in super::super) across: String,
    pub(in super::super) series: Vec<Series>,
    /// Whether the places are apart by their order and not by their distance: 1, 16, 64 threads.
    pub(in super::super) by_rank: bool,
}

impl Lines {
    /// The plot as SVG.
    pub(in super::super) fn svg(&self) -> String {
        let places = self.places();
        let greatest = self.values().fold(0.0, f64::max);
        let lines = axis::lines(greatest);
        let top = lines.last().copied().unwrap_or(1.0);
        let y = |value: f64| MARGIN + TEXT + HEIGHT * (1.0 - value / top);
        let x = |place: f64| LEFT + (WIDTH - LEFT - 2.0 * MARGIN) * self.share(&places, place);
        let mut content = format!(
            "<text x=\"{MARGIN}\" y=\"{TEXT}\">{}</text>\n",
            escape(&self.unit)
        );
        for value in &lines {
            content += &format!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
                 <text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
                WIDTH - MARGIN,
                y(*value),
                y(*value),
                LEFT - 6.0,
                y(*value) + 5.0,
                short(*value)
            );
        }
        let bottom = y(0.0) + TEXT;
        for place in self.marked(&places) {
            content += &format!(
                "<text class=\"middle\" x=\"{:.1}\" y=\"{bottom:.1}\">{}</text>\n",
                x(place),
                short(place)
            );
        }
        content += &format!(
            "<text class=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            (LEFT + WIDTH) / 2.0,
            bottom + TEXT,
            escape(&self.across)
        );
        for (number, series) in self.series.iter().enumerate() {
            content += &line(number, series, &x, &y);
        }
        let names: Vec<&str> = self.series.iter().map(|s| s.name.as_str()).collect();
        let (legend, height) = legend(&names, bottom + TEXT);
        frame(&self.title, bottom + TEXT + height, &(content + &legend))
    }

    /// All places, in ascending order, each once.
    fn places(&self) -> Vec<f64> {
        let points = self.series.iter().flat_map(|series| &series.points);
        let mut places: Vec<f64> = points.map(|(place, _)| *place).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        places
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let points = self.series.iter().flat_map(|series| &series.points);
        points.map(|(_, value)| *value).filter(|v| v.is_finite())
    }

    /// Position on the horizontal axis, from 0 (left) to 1 (right).
    #[allow(clippy::cast_precision_loss)]
    fn share(&self, places: &[f64], place: f64) -> f64 {
        if self.by_rank {
            // Half a step at both ends.
            let rank = places.iter().position(|p| *p >= place).unwrap_or_default();
            return (rank as f64 + 0.5) / places.len().max(1) as f64;
        }
        let (first, last) = (places[0], places[places.len() - 1]);
        if last > first {
            (place - first) / (last - first)
        } else {
            0.5
        }
    }

    /// The places whose numbers are written.
    fn marked(&self, places: &[f64]) -> Vec<f64> {
        if self.by_rank {
            return places.to_vec();
        }
        let last = places.last().copied().unwrap_or_default();
        let within = |at: &f64| *at <= last && places.first().is_some_and(|first| at >= first);
        axis::lines(last).into_iter().filter(within).collect()
    }
}

fn line(
    number: usize,
    series: &Series,
    x: &impl Fn(f64) -> f64,
    y: &impl Fn(f64) -> f64,
) -> String {
    let points = series.points.iter().filter(|(_, value)| value.is_finite());
    let places: Vec<String> = points
        .clone()
        .map(|(place, value)| format!("{:.1},{:.1}", x(*place), y(*value)))
        .collect();
    let mut text = format!(
        "<polyline class=\"{}\" points=\"{}\"><title>{}</title></polyline>\n",
        colour(number),
        places.join(" "),
        escape(&series.name)
    );
    if places.len() <= 12 {
        for (place, value) in points {
            text += &format!(
                "<circle class=\"{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"><title>{}: {} at {}\
                 </title></circle>\n",
                colour(number),
                x(*place),
                y(*value),
                escape(&series.name),
                figure::number(*value),
                short(*place)
            );
        }
    }
    text
}

/// A number of an axis, without digits that it does not have.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, f64)>, by_rank: bool) -> Lines {
        Lines {
            title: "a & b".into(),
            unit: "TPS".into(),
            across: "threads".into(),
            series: vec![Series {
                name: "synod".into(),
                points,
            }],
            by_rank,
        }
    }

    #[test]
    fn ranks_are_evenly_apart() {
        let svg = plot(vec![(1.0, 10.0), (16.0, 20.0), (64.0, 5.0)], true).svg();
        let xs: Vec<f64> = svg
            .split("cx=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(xs.len(), 3);
        assert!(((xs[1] - xs[0]) - (xs[2] - xs[1])).abs() < 0.2, "{xs:?}");
        assert!(svg.contains("aria-label=\"a &amp; b\"") && svg.contains(">64</text>"));
    }

    #[test]
    fn plot_of_nothing_or_of_one_point_can_be_drawn() {
        assert!(plot(Vec::new(), true).svg().contains("<svg"));
        assert!(plot(vec![(3.0, f64::NAN)], false).svg().contains("<svg"));
        assert!(!plot(vec![(3.0, 0.0)], false).svg().contains("NaN"));
    }
}
