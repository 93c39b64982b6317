//! HTML page around the sections: one file, nothing fetched, dark or light, readable on a phone.

use super::{Block, Section};

/// A text in HTML.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

pub(super) fn render(sections: &[Section]) -> String {
    let contents: String = (1..)
        .zip(sections)
        .map(|(number, section)| {
            format!(
                "<li><a href=\"#part{number}\">{}</a></li>\n",
                escape(&section.title)
            )
        })
        .collect();
    let parts: String = (1..).zip(sections).map(part).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Synod lab</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>Synod lab</h1>\n<nav><ul>\n{contents}</ul></nav>\n{parts}</main>\n</body>\n</html>\n",
        STYLE = include_str!("style.css")
    )
}

fn part((number, section): (usize, &Section)) -> String {
    let note = |text: &String| format!("<p>{}</p>\n", escape(text));
    let notes: String = section.notes.iter().map(note).collect();
    let blocks: String = section.blocks.iter().map(block).collect();
    format!(
        "<section id=\"part{number}\">\n<h2>{}</h2>\n{notes}{blocks}</section>\n",
        escape(&section.title)
    )
}

fn block(block: &Block) -> String {
    match block {
        Block::Table(table) => table.html(),
        Block::Plot { title, svg } => format!(
            "<figure>\n<figcaption>{}</figcaption>\n<div class=\"wide\">{svg}</div>\n</figure>\n",
            escape(title)
        ),
    }
}
