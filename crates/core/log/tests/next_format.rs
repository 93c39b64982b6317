//! A log whose format rises while it is written. There is one format more with the feature
//! `next-version`: `cargo test -p synod-log --features next-version --test next_format`.

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::*;
use synod_consensus::LogIndex;
use synod_log::{Log, LogFormat, LogWriter, MemoryFiles, Opened};

/// Protocol versions of a group before and after the rise.
const OLD: u16 = 5;
const NEW: u16 = 6;

fn format_in(files: &MemoryFiles, path: &Path) -> u8 {
    files.content(path).unwrap()[8]
}

fn segment(number: u64) -> PathBuf {
    Path::new(DIR).join(format!("synod-{number:016x}.log"))
}

/// The format of the newest segment, and of the control file.
fn newest_formats(files: &MemoryFiles) -> [u32; 2] {
    let numbers = (1..).take_while(|number| files.content(&segment(*number)).is_some());
    let newest = segment(numbers.last().unwrap());
    [newest, control()].map(|path| u32::from(format_in(files, &path)))
}

fn control() -> PathBuf {
    Path::new(DIR).join("synod-control.log")
}

fn fill(writer: &mut LogWriter, from: u64, to: u64) {
    for index in from..=to {
        writer.append(&actions(1, index, index, 9000)).unwrap();
        writer.sync().unwrap();
    }
}

#[test]
fn new_log_is_written_in_the_format_of_the_old_program() {
    let files = MemoryFiles::new(1);
    let Opened {
        mut writer, reader, ..
    } = open(&files);
    writer.raise_format(LogFormat::of_group(OLD)).unwrap();
    fill(&mut writer, 1, 20);
    writer.close().unwrap();
    assert_eq!(reader.format(), LogFormat::default());
    assert_eq!(LogFormat::of_group(OLD), LogFormat::default());
    for path in [control(), segment(1), segment(2)] {
        assert_eq!(format_in(&files, &path), 3, "{}", path.display());
    }
}

#[test]
fn raised_format_is_that_of_the_control_file_at_once_and_of_segments_made_later() {
    let files = MemoryFiles::new(1);
    let Opened {
        mut writer, reader, ..
    } = open(&files);
    fill(&mut writer, 1, 3);
    let new = LogFormat::of_group(NEW);
    writer.raise_format(new).unwrap();
    assert_eq!(reader.format(), new);
    // A power cut right after it: nothing of it is lost.
    let image = files.crash(0);
    assert_eq!(u32::from(format_in(&image, &control())), new.number());
    assert_eq!(format_in(&image, &segment(1)), 3);
    fill(&mut writer, 4, 40);
    writer.raise_format(LogFormat::of_group(OLD)).unwrap();
    writer.close().unwrap();
    assert_eq!(reader.format(), new, "it never goes down");
    let newest = reader.last_index();
    let opened = Log::open(Arc::new(files.clone()), Path::new(DIR), options()).unwrap();
    assert_eq!(opened.reader.format(), new);
    assert_eq!(opened.reader.last_index(), newest);
    assert_eq!(all(&opened.reader), actions(1, 1, 40, 9000));
    assert_eq!(newest, LogIndex(40));
    assert_eq!(newest_formats(&files), [new.number(); 2]);
}

#[test]
fn log_of_both_formats_is_repaired_in_the_newer_one() {
    let files = MemoryFiles::new(1);
    let Opened { mut writer, .. } = open(&files);
    fill(&mut writer, 1, 3);
    writer.raise_format(LogFormat::of_group(NEW)).unwrap();
    fill(&mut writer, 4, 40);
    writer.close().unwrap();
    let mut content = files.content(&segment(2)).unwrap();
    content[4096 + 100] ^= 1;
    files.set_content(&segment(2), content);
    let consent: &mut dyn FnMut(&synod_log::RepairPlan) -> bool = &mut |_| true;
    let opened =
        Log::open_or_repair(Arc::new(files.clone()), Path::new(DIR), options(), consent).unwrap();
    assert!(opened.report.repair.is_some());
    assert_eq!(opened.reader.format(), LogFormat::of_group(NEW));
    let new = LogFormat::of_group(NEW).number();
    assert_eq!(newest_formats(&files), [new; 2]);
    drop(opened);
    open(&files).writer.close().unwrap();
}
