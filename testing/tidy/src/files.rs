//! The source files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// A text file of the repository.
#[derive(Debug)]
pub struct SourceFile {
    /// Path below the root of the repository.
    pub path: String,
    pub text: String,
}

impl SourceFile {
    /// Its lines, numbered from one.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, line))
    }

    /// A finding in one of its lines.
    pub fn finding(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }

    /// Whether it is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// The root of the repository that the tests run in, which need not be the one they were built in.
pub fn repository() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = here.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    here.ancestors().nth(2).unwrap_or(&here).to_owned()
}

/// All Rust and Markdown files but those that are built or made at run time.
///
/// # Panics
/// If a folder cannot be read.
pub fn source_files() -> Vec<SourceFile> {
    let root = repository();
    let mut files = Vec::new();
    for top in ["crates", "testing", "docs"] {
        collect(&root, &root.join(top), &mut files);
    }
    for name in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        files.extend(read(&root, &root.join(name)));
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<SourceFile>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries {
        let path = entry.expect("a folder that was opened can be read").path();
        if path.is_dir() {
            if !path.ends_with("target") {
                collect(root, &path, files);
            }
        } else if path.extension().is_some_and(|e| e == "rs" || e == "md") {
            files.extend(read(root, &path));
        }
    }
}

fn read(root: &Path, path: &Path) -> Option<SourceFile> {
    let text = fs::read_to_string(path).ok()?;
    let path = path.strip_prefix(root).ok()?.display().to_string();
    Some(SourceFile { path, text })
}
