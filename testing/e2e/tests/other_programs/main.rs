//! Programs of others around a group: proxies, monitoring, a browser, also with a simulated group
//! in it, readers for change data capture, applications' connectors, tools for backups and checks.

mod around;
mod connectors;
mod dashboard;
mod debezium;
mod monitoring;
mod playground;
mod prometheus;
mod proxy_lag;
mod relay_readers;
