//! Relays of a group and of a stock server, with replicas behind them.

mod relay;
mod relay_files;
mod relay_refusals;
mod relay_sql;
mod relay_upstream;
mod relay_words;
