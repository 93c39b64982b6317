//! The page for Prometheus, in the OpenMetrics text format 1.0.
//!
//! It is made for each request from the server's status. What the server does not know is missing,
//! not zero. Names end in their unit; HELP texts say what a value is and, where that is not plain,
//! which value is good.
//!
//! - `families`: writes a family of values;
//! - `server`, `group`, `members`, `commits`: the families, by subject.

mod commits;
mod families;
mod group;
mod members;
mod server;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::Seen;
use families::Families;

/// What the page is (`Content-Type`).
pub const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The page, by what is known of the server.
///
/// # Errors
/// None that is known: text is written to memory.
pub fn page(seen: &Seen) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Shown(seen.clone())));
    let mut page = String::new();
    encode(&mut page, &registry)?;
    Ok(page)
}

#[derive(Debug)]
struct Shown(Seen);

impl Collector for Shown {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Families::new(encoder);
        page.gauge(
            "synod_up",
            "Whether the agent could ask its server (1) or not (0). All other metrics are missing \
             while it is 0",
            Some(u64::from(self.0.is_ok())),
        )?;
        let Ok(status) = &self.0 else {
            return Ok(());
        };
        server::write(&mut page, status)?;
        group::write(&mut page, status)?;
        members::write(&mut page, &status.members)?;
        commits::write(&mut page, status)
    }
}
