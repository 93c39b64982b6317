//! Writes families of metrics: values of one name, told apart by labels.

use std::collections::HashMap;
use std::fmt;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use synod_admin::status::TimeCounts;

/// Labels of a value: names and texts.
pub(super) type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

pub(super) struct Families<'a>(DescriptorEncoder<'a>);

impl<'a> Families<'a> {
    pub(super) fn new(encoder: DescriptorEncoder<'a>) -> Families<'a> {
        Families(encoder)
    }

    /// A value that may fall. Nothing is written if it is not known.
    pub(super) fn gauge<V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        value: Option<V>,
    ) -> fmt::Result {
        match value {
            None => Ok(()),
            Some(value) => {
                let mut metric = self
                    .0
                    .encode_descriptor(name, help, None, MetricType::Gauge)?;
                metric.encode_gauge(&value)
            }
        }
    }

    pub(super) fn gauges<'l, V: EncodeGaugeValue, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (Labels<'l, N>, V)>,
    ) -> fmt::Result {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in rows {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// A value that only grows, until the server restarts. `_total` is appended to its name.
    pub(super) fn counter<V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        value: V,
    ) -> fmt::Result {
        let mut metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter(&value, None::<&Exemplar<NoLabelSet, f64>>)
    }

    pub(super) fn counters<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (Labels<'l, N>, u64)>,
    ) -> fmt::Result {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in rows {
            let mut metric = family.encode_family(&labels)?;
            metric.encode_counter(&value, None::<&Exemplar<NoLabelSet, f64>>)?;
        }
        Ok(())
    }

    /// Times by their length, counted by the server in buckets with these bounds, in microseconds.
    /// Nothing is written if the counts do not fit the bounds: then they are not known.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        help: &str,
        bounds_us: &[u64],
        times: &TimeCounts,
    ) -> fmt::Result {
        if !fits(times, bounds_us) {
            return Ok(());
        }
        let metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Histogram)?;
        encode_times(metric, bounds_us, times)
    }

    pub(super) fn histograms<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        bounds_us: &[u64],
        rows: impl IntoIterator<Item = (Labels<'l, N>, &'l TimeCounts)>,
    ) -> fmt::Result {
        let rows = rows.into_iter();
        let mut rows = rows.filter(|(_, times)| fits(times, bounds_us)).peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, times) in rows {
            encode_times(family.encode_family(&labels)?, bounds_us, times)?;
        }
        Ok(())
    }
}

fn fits(times: &TimeCounts, bounds_us: &[u64]) -> bool {
    times.counts.len() == bounds_us.len() + 1
}

fn encode_times(
    mut metric: MetricEncoder<'_>,
    bounds_us: &[u64],
    times: &TimeCounts,
) -> fmt::Result {
    let in_seconds = |us: u64| us as f64 / 1e6; // exact below 285 years
    let bounds = bounds_us.iter().map(|us| in_seconds(*us));
    let bounds = bounds.chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(times.counts.iter().copied()).collect();
    let exemplars = None::<&HashMap<usize, Exemplar<NoLabelSet, f64>>>;
    metric.encode_histogram(in_seconds(times.sum_us), times.total(), &buckets, exemplars)
}

/// Milliseconds in Prometheus' unit of time.
pub(super) fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1000.0
}
