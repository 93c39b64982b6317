//! The password of the upstream's account, in a file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use synod_tls::mode_open_to_all;

use crate::error::UpstreamError;

/// Longest file that is taken, in bytes.
const FILE_BYTES_MAX: u64 = 4096;

/// Reads the password: the first line. Without a file it is empty.
///
/// # Errors
/// The file cannot be read, is no text, or every user can read it.
pub(crate) fn read(path: Option<&Path>) -> Result<String, UpstreamError> {
    let Some(path) = path else {
        return Ok(String::new());
    };
    let refused = |reason: String| UpstreamError::PasswordFile {
        path: path.to_owned(),
        reason,
    };
    let failed = |error: io::Error| refused(error.to_string());
    let file = File::open(path).map_err(failed)?;
    let known = file.metadata().map_err(failed)?;
    if let Some(mode) = mode_open_to_all(&known) {
        return Err(refused(format!(
            "it is open to every user of this machine (mode {mode:o}). Close it: chmod 600 {}. If \
             other users may have read it, change the password",
            path.display()
        )));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(failed)?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        Some(_) | None => Err(refused("its first line is empty".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn password_is_the_first_line_of_a_closed_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        assert_eq!(read(None).unwrap(), "");
        assert!(read(Some(&path)).is_err());
        fs::write(&path, "se cret\nmore\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(read(Some(&path)).unwrap(), "se cret");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let text = read(Some(&path)).unwrap_err().to_string();
        assert!(text.contains("chmod 600"), "{text}");
        fs::write(&path, "\nlater").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let text = read(Some(&path)).unwrap_err().to_string();
        assert!(text.contains("first line is empty"), "{text}");
    }
}
