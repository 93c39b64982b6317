//! Preparing the process for a new program in its place.

use std::fs;

/// Files from this number on are the server's own; those below are standard input and outputs.
const FIRST_OWN_FILE: libc::c_int = 3;

/// Has every file of the server close when another program takes its place: its data files, whose
/// locks would be kept otherwise, and its sockets, whose ports would.
///
/// # Errors
/// The system does not list the files of this process.
pub(crate) fn close_files_on_exec() -> std::io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")?.flatten() {
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(file) = number.filter(|file| *file >= FIRST_OWN_FILE) else {
            continue;
        };
        // SAFETY: changes a flag of a descriptor; one that is closed by now is refused.
        unsafe { libc::fcntl(file, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}
