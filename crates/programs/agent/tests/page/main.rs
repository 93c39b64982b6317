//! The page for Prometheus: its format, its values, and the packaged files that name its metrics.

mod exposition;
mod packaged_files;
mod parsed;
