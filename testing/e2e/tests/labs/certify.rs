//! The certificate judges: a library that is made wrong on purpose must fail it.

use std::path::Path;
use std::process::Command;

use synod_e2e::{Outcome, Why, ensure, place};

/// Exit code of a certificate that Synod does not pass.
const FAILED: i32 = 1;

/// Runs one fault on a system whose library has this bug, from the fault on if that is the upgrade;
/// gives the exit code and the cell.
fn certify(
    system: &str,
    bug: &str,
    fault: &str,
    patience_s: &str,
) -> Outcome<(Option<i32>, serde_json::Value)> {
    let out = place::cluster_dir("certificate")?;
    let mut lab = Command::new(place::lab()?);
    lab.args([
        "--name",
        "e2ecertify",
        "certify",
        "--short",
        "--systems",
        system,
    ]);
    lab.args(["--faults", fault, "--seed", "7", "--patience", patience_s]);
    lab.arg("--out").arg(&out);
    let planted = place::planted_provider()?;
    let first = match fault {
        "upgrade" => place::provider()?,
        _ => planted.clone(),
    };
    lab.arg("--provider").arg(first);
    lab.arg("--next-library").arg(planted);
    let printed = lab
        .env("SYNOD_PLANTED", bug)
        .output()
        .why("starting synod-lab")?;
    eprintln!("{}", String::from_utf8_lossy(&printed.stdout));
    eprintln!("{}", String::from_utf8_lossy(&printed.stderr));
    let mut cells = cells(&out)?;
    Ok((printed.status.code(), cells.swap_remove(0)))
}

/// The cells of a certificate in this directory, which is removed.
pub(crate) fn cells(out: &Path) -> Outcome<Vec<serde_json::Value>> {
    let text = std::fs::read_to_string(out.join("certificate.json")).why("the certificate")?;
    let certificate: serde_json::Value = serde_json::from_str(&text).why("its JSON")?;
    std::fs::remove_dir_all(out).why("removing the certificate")?;
    Ok(certificate["cells"].as_array().cloned().unwrap_or_default())
}

pub(crate) fn sum(cell: &serde_json::Value, figure: &str) -> u64 {
    let rounds = cell["rounds"].as_array().into_iter().flatten();
    rounds.filter_map(|round| round[figure].as_u64()).sum()
}

#[test]
#[ignore = "needs root; scripts/run-e2e runs it"]
fn library_that_acknowledges_before_the_sync_fails_and_the_same_one_without_it_passes() -> Outcome {
    for system in ["synod", "synod-logger"] {
        let (code, cell) = certify(system, "", "power-loss", "120")?;
        ensure(code == Some(0) && sum(&cell, "acknowledged") > 0, || {
            format!("{code:?} of a library without a bug: {cell:#}")
        })?;
        let (code, cell) = certify(system, "AckBeforeSync", "power-loss", "60")?;
        ensure(code == Some(FAILED), || format!("{code:?}: {cell:#}"))?;
    }
    Ok(())
}

#[test]
#[ignore = "needs root; scripts/run-e2e runs it"]
fn upgrade_passes_and_one_to_a_library_that_answers_wrongly_fails() -> Outcome {
    let (code, cell) = certify("synod", "", "upgrade", "120")?;
    ensure(code == Some(0) && sum(&cell, "acknowledged") > 0, || {
        format!("{code:?} of a library without a bug: {cell:#}")
    })?;
    let (code, cell) = certify("synod", "RefuseOrdered", "upgrade", "5")?;
    ensure(code == Some(FAILED), || format!("{code:?}: {cell:#}"))?;
    ensure(sum(&cell, "wrongly_refused") > 0, || format!("{cell:#}"))
}

#[test]
#[ignore = "needs root; scripts/run-e2e runs it"]
fn library_that_answers_1213_for_what_is_committed_fails() -> Outcome {
    // Its servers leave the group and return again and again: nothing waits until they are whole.
    let (code, cell) = certify("synod", "RefuseOrdered", "stop", "5")?;
    ensure(code == Some(FAILED), || format!("{code:?}: {cell:#}"))?;
    ensure(sum(&cell, "wrongly_refused") > 0, || format!("{cell:#}"))
}
