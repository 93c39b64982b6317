//! A log directory in few bytes: control file and two segments without their zeros.

use std::path::{Path, PathBuf};

use synod_log::{MemoryFiles, fuzzing};

use crate::{put_part, split_byte, split_part};

/// The log's directory, in memory.
pub const DIR: &str = "/there-is-no-such-directory/log";

/// Flag of an input: checksums are made right.
const SEAL: u8 = 1;
/// Flag of an input: counts and numbers of batches are made right too.
const COUNT: u8 = 2;
/// Flag of an input: there is a second segment.
const SECOND: u8 = 4;

/// Bytes of a segment's header that are used, and what it occupies.
const HEADER_BYTES: usize = 160;
const HEADER_ROOM: usize = 4096;
/// Segments are not made larger than this.
const SEGMENT_BYTES_MAX: usize = 256 << 10;

/// Path of the control file.
pub fn control_path() -> PathBuf {
    Path::new(DIR).join("synod-control.log")
}

/// Path of a segment.
pub fn segment_path(number: u64) -> PathBuf {
    Path::new(DIR).join(format!("synod-{number:016x}.log"))
}

/// The directory that an input describes.
pub fn expand(input: &[u8]) -> MemoryFiles {
    let files = MemoryFiles::new(7);
    let (flags, rest) = split_byte(input);
    let (control, rest) = split_part(rest);
    let mut control = control.to_vec();
    if flags & SEAL != 0 {
        fuzzing::seal_control(&mut control);
    }
    files.set_content(&control_path(), control);
    let (first, second) = match flags & SECOND {
        0 => (rest, None),
        _ => {
            let (first, rest) = split_part(rest);
            (first, Some(rest))
        }
    };
    files.set_content(&segment_path(1), expand_segment(first, flags));
    if let Some(second) = second {
        files.set_content(&segment_path(2), expand_segment(second, flags));
    }
    files
}

fn expand_segment(input: &[u8], flags: u8) -> Vec<u8> {
    let (header, stream) = input.split_at(HEADER_BYTES.min(input.len()));
    let mut file = header.to_vec();
    let size = header.get(32..40).map_or(0, |size| {
        u64::from_le_bytes(std::array::from_fn(|i| size[i]))
    });
    file.resize(HEADER_ROOM, 0);
    file.extend_from_slice(stream);
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    file.resize(size.clamp(file.len(), SEGMENT_BYTES_MAX), 0);
    if flags & SEAL != 0 {
        fuzzing::seal_segment(&mut file, flags & COUNT != 0);
    }
    file
}

/// The input that describes this directory. Other segments than the first two are left out.
///
/// # Panics
/// If there is no log in it.
pub fn shrink(files: &MemoryFiles) -> Vec<u8> {
    let content = |path: PathBuf| files.content(&path);
    let first = shrink_segment(&content(segment_path(1)).expect("a segment"));
    let second = content(segment_path(2)).map(|file| shrink_segment(&file));
    let flags = SEAL | if second.is_some() { SECOND } else { 0 };
    let mut out = vec![flags];
    put_part(&mut out, &content(control_path()).expect("a control file"));
    match second {
        Some(second) => {
            put_part(&mut out, &first);
            out.extend_from_slice(&second);
        }
        None => out.extend_from_slice(&first),
    }
    out
}

fn shrink_segment(file: &[u8]) -> Vec<u8> {
    let used = file
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    let stream = file.get(HEADER_ROOM..used).unwrap_or_default();
    [&file[..HEADER_BYTES], stream].concat()
}
