//! Writes families of metrics: values of one name, told apart by labels.

use std::fmt;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;

/// Labels of a value: names and texts.
pub(super) type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

/// The page while it is written.
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

    /// Values that may fall.
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

    /// Values that only grow.
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
}

/// Milliseconds in Prometheus' unit of time.
pub(super) fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1000.0
}
