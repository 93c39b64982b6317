//! `synod copy`: whether a server uses its data at its next start, or has them replaced by a full
//! copy.
//!
//! Works on the record that the stopped server keeps beside its log.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::PathBuf;

use clap::Args;
use synod_admin::visible;
use synod_log::{
    DatabaseRecord, DatabaseRecordError, LogError, RealFiles, StoppedMember, database_record_path,
};
use thiserror::Error;

/// Arguments of `synod copy`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct CopyArgs {
    /// Directory of the server's log: its data directory, unless synod.log_dir names another
    #[arg(long, default_value = "/var/lib/mysql")]
    dir: PathBuf,
    /// Have the next start replace the data by a full copy (SST) from another server
    #[arg(long, conflicts_with = "accept")]
    force: bool,
    /// Have the next start use the data, although they are marked
    #[arg(long, requires = "yes")]
    accept: bool,
    /// Without --accept of no use: what the data lack is lost if this server continues alone
    #[arg(long)]
    yes: bool,
}

const EXAMPLE: &str = "\
Without --force and --accept it shows what the next start does with the data, and why. The server
must be stopped.

  synod copy                      what becomes of the data
  synod copy --force              distrust them: the next start takes a full copy
  synod copy --accept --yes       no other server has better data: use these

Exit codes:
  0  done
  1  there is no log, the server runs, or its record cannot be read or written
  2  wrong usage";

#[derive(Debug, Error)]
pub enum CopyError {
    #[error("{0}. Stop the server first, and name the directory of its log (--dir)")]
    NotStopped(#[from] LogError),
    #[error(transparent)]
    Record(#[from] DatabaseRecordError),
}

/// Shows or changes what the next start does with the data.
pub fn run(arguments: &CopyArgs) -> Result<u8, CopyError> {
    let files = RealFiles;
    let member = StoppedMember::find(&files, &arguments.dir)?;
    let read = member.record();
    if arguments.force {
        // A damaged record is replaced, too.
        let record = forced(read.unwrap_or_default());
        member.write(&record)?;
        give_to_owner(arguments);
        println!("The next start of this server replaces its data by a full copy (SST).");
        return Ok(0);
    }
    let record = read?;
    if arguments.accept {
        println!("{}", visible(&lacks(&record)));
        member.write(&accepted(record))?;
        give_to_owner(arguments);
        println!("The next start of this server uses its data.");
        return Ok(0);
    }
    println!("{}", visible(&shown(&record)));
    Ok(0)
}

/// A record that root has made is the server's.
fn give_to_owner(arguments: &CopyArgs) {
    if let Ok(dir) = arguments.dir.metadata() {
        // Without the right to it, the user is the owner already.
        let path = database_record_path(&arguments.dir);
        let _ = chown(path, Some(dir.uid()), Some(dir.gid()));
    }
}

fn forced(record: DatabaseRecord) -> DatabaseRecord {
    DatabaseRecord {
        unusable: Some("an operator has asked for a full copy (synod copy --force)".to_owned()),
        is_accepted: false,
        ..record
    }
}

fn accepted(record: DatabaseRecord) -> DatabaseRecord {
    DatabaseRecord {
        unusable: None,
        is_copying: false,
        doubtful: None,
        is_accepted: true,
        ..record
    }
}

fn shown(record: &DatabaseRecord) -> String {
    match record.needs_copy() {
        true => format!(
            "The next start of this server replaces its data by a full copy (SST).\n{}\nIf no \
             other server has data: 'synod copy --accept --yes' has these used.",
            lacks(record)
        ),
        false => format!(
            "The next start of this server uses its data.\n{}",
            lacks(record)
        ),
    }
}

fn lacks(record: &DatabaseRecord) -> String {
    let defects = record.defects();
    match defects.is_empty() {
        true => "Nothing is known to be wrong with them.".to_owned(),
        false => defects.join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forced_copy_and_accepted_data_undo_each_other() {
        let record = forced(DatabaseRecord::default());
        assert!(record.needs_copy());
        assert!(shown(&record).contains("synod copy --accept --yes"));
        assert!(lacks(&record).contains("an operator has asked"));
        let record = accepted(record);
        assert!(!record.needs_copy() && record.is_accepted);
        assert!(forced(record).needs_copy());
    }

    #[test]
    fn server_that_runs_or_has_no_log_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let arguments = CopyArgs {
            dir: dir.path().to_owned(),
            force: true,
            accept: false,
            yes: false,
        };
        let error = run(&arguments).unwrap_err().to_string();
        assert!(error.contains("--dir"), "{error}");
        std::fs::write(dir.path().join("synod-control.log"), "").unwrap();
        assert_eq!(run(&arguments).unwrap(), 0);
        let files = RealFiles;
        let _runs = StoppedMember::find(&files, dir.path()).unwrap();
        let error = run(&arguments).unwrap_err().to_string();
        assert!(error.contains("Stop the server first"), "{error}");
    }
}
