//! Links between documents, and decisions that sources cite: what they name is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use synod_tidy::{assert_none, repository, source_files};

#[test]
fn links_of_documents_lead_somewhere() {
    let root = repository();
    let mut findings = Vec::new();
    for file in source_files().iter().filter(|file| !file.is_rust()) {
        let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
        for (number, line) in file.lines() {
            for link in links_in(line) {
                let (path, heading) = link.split_once('#').unwrap_or((link, ""));
                let target = match path {
                    "" => PathBuf::from(&file.path),
                    path => without_dots(&folder.join(path)),
                };
                let target = root.join(target);
                if !target.exists() {
                    findings.push(file.finding(number, &format!("no file for '{link}'")));
                } else if !heading.is_empty() && !headings_of(&target).contains(heading) {
                    findings.push(file.finding(number, &format!("no heading for '{link}'")));
                }
            }
        }
    }
    assert_none("a link leads to a file and a heading", &findings);
}

#[test]
fn decisions_that_are_cited_exist() {
    let root = repository();
    let pages = fs::read_dir(root.join("docs/decisions")).expect("a folder of decisions");
    let names: Vec<String> = pages
        .filter_map(|page| page.ok()?.file_name().into_string().ok())
        .collect();
    let mut findings = Vec::new();
    for file in source_files() {
        for (number, line) in file.lines() {
            let lost = cited_in(line).find(|cited| !names.iter().any(|n| n.starts_with(cited)));
            if let Some(cited) = lost {
                findings.push(file.finding(number, &format!("no decision '{cited}'")));
            }
        }
    }
    assert_none("a decision that is cited has a page", &findings);
}

/// Numbers behind the word, and names of pages behind the folder.
fn cited_in(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let places = ["decision ", "decisions/"].into_iter();
    let cited = places.flat_map(|place| line.split(place).skip(1));
    let names = cited.map(move |rest| rest.split(|c| !is_part(c)).next().unwrap_or_default());
    names
        .map(|name| name.trim_end_matches('.'))
        .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
}

/// Targets of the links in a line that stay in the repository.
fn links_in(line: &str) -> impl Iterator<Item = &str> {
    let ends = line.split("](").skip(1);
    let targets = ends.filter_map(|rest| Some(rest.split_once(')')?.0));
    targets.filter(|target| !target.contains(':') && !target.contains(' '))
}

/// The anchors that a page's headings get: letters in lower case, dashes for blanks.
fn headings_of(page: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(page).unwrap_or_default();
    let titles = text.lines().filter_map(|line| line.strip_prefix('#'));
    titles
        .map(|title| {
            let title = title.trim_start_matches('#').trim().to_lowercase();
            let kept = title
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// The path without `..`, which need not exist.
fn without_dots(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            whole.pop();
        } else {
            whole.push(part);
        }
    }
    whole
}
