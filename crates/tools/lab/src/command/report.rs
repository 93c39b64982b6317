//! `synod-lab report`: one page from the files of several runs.

use std::path::{Path, PathBuf};

use clap::Args;

use super::say;
use crate::error::{IoContext, LabError, Result};
use crate::report::{self, Report};

/// Arguments of `synod-lab report`.
#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// Files that the bench or meters wrote by --json
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(super) fn run(arguments: &ReportArgs) -> Result<u8> {
    let mut report = Report::default();
    for file in &arguments.files {
        add(&mut report, file)?;
    }
    say(&report::markdown(&report));
    Ok(0)
}

/// Adds what a file holds: it is one of the bench, or one of a meter.
fn add(report: &mut Report, path: &Path) -> Result<()> {
    let text = std::fs::read_to_string(path).context("read", path)?;
    let of_bench = match serde_json::from_str(&text) {
        Ok(results) => {
            report.benches.push(results);
            return Ok(());
        }
        Err(error) => error,
    };
    match serde_json::from_str(&text) {
        Ok(record) => report.meters.push(record),
        Err(of_meter) => {
            return Err(LabError::BadArgument {
                name: "FILE",
                value: path.display().to_string(),
                reason: format!(
                    "it was not written by this version's bench ({of_bench}) nor by a meter \
                     ({of_meter})"
                ),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_file_is_refused_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("other.json");
        std::fs::write(&path, "{}").unwrap();
        let error = add(&mut Report::default(), &path).unwrap_err().to_string();
        assert!(error.contains("other.json"), "{error}");
    }
}
