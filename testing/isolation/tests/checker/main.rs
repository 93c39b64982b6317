//! The checker, by histories that were made up: each anomaly is found under its name, and what a
//! serial or a snapshot-isolated store answers is never taken for one.

mod anomalies;
mod made_up;
mod stores;
