//! `synod doctor`, asked as a program would: its findings as JSON.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::{PASSWORD, TestCluster, USER};
use crate::logger::write_private;
use crate::{Outcome, Why, place};

/// The doctor, as a user of the database.
pub struct Doctor {
    option_file: PathBuf,
    port: u16,
}

impl Doctor {
    /// With an option file in the cluster's directory.
    pub fn of(cluster: &TestCluster, node: u8) -> Outcome<Doctor> {
        let option_file = cluster.settings().dir.join("doctor.cnf");
        let text = format!("[client]\nuser={USER}\npassword={PASSWORD}\n");
        write_private(&option_file, &text)?;
        let port = cluster.port(node);
        Ok(Doctor { option_file, port })
    }

    /// The same for a user of a server of MySQL, by an option file in this directory.
    pub fn of_mysql(dir: &Path, port: u16, user: &str, password: &str) -> Outcome<Doctor> {
        let option_file = dir.join("doctor.cnf");
        let text = format!("[client]\nuser={user}\npassword={password}\n");
        write_private(&option_file, &text)?;
        Ok(Doctor { option_file, port })
    }

    pub fn run(&self, more: &[&str]) -> Outcome<Output> {
        Command::new(place::program()?)
            .args(["doctor", "--host", "127.0.0.1", "--defaults-file"])
            .arg(&self.option_file)
            .args(["--port", &self.port.to_string()])
            .args(more)
            .output()
            .why("running synod doctor")
    }

    /// Findings, as `severity subject what`, and the exit code.
    ///
    /// # Errors
    /// It cannot be started, or prints no findings.
    pub fn findings(&self) -> Outcome<(Vec<String>, Option<i32>)> {
        let (findings, code) = self.document()?;
        let texts = findings.iter().map(|finding| {
            let parts = ["severity", "subject", "what"].map(|key| word(finding, key));
            parts.join(" ")
        });
        Ok((texts.collect(), code))
    }

    /// Remedies.
    ///
    /// # Errors
    /// It cannot be started, or prints no findings.
    pub fn remedies(&self) -> Outcome<Vec<String>> {
        let (findings, _) = self.document()?;
        let remedies = findings.iter().map(|finding| word(finding, "remedy"));
        Ok(remedies.filter(|remedy| !remedy.is_empty()).collect())
    }

    fn document(&self) -> Outcome<(Vec<Value>, Option<i32>)> {
        let output = self.run(&["--json"])?;
        let document: Value = serde_json::from_slice(&output.stdout)
            .why(String::from_utf8_lossy(&output.stderr).into_owned())?;
        let findings = document["findings"].as_array().cloned().unwrap_or_default();
        Ok((findings, output.status.code()))
    }
}

fn word(finding: &Value, key: &str) -> String {
    finding[key].as_str().unwrap_or("").to_owned()
}
