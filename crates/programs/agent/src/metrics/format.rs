//! The formats of the page, and which of them a client gets.

use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    /// Prometheus' own text format, version 0.0.4. Every tool reads it, `promtool` nothing else.
    Classic,
}

impl Format {
    /// The format for a client that sends these `Accept` headers: OpenMetrics if it is named there.
    pub fn asked_for<'a>(accept: impl IntoIterator<Item = &'a [u8]>) -> Format {
        let name = b"application/openmetrics-text";
        let names_it = |header: &[u8]| {
            let mut parts = header.windows(name.len());
            parts.any(|part| part.eq_ignore_ascii_case(name))
        };
        match accept.into_iter().any(names_it) {
            true => Format::OpenMetrics,
            false => Format::Classic,
        }
    }

    pub fn kind(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    pub(super) fn of(self, page: String) -> String {
        match self {
            Format::OpenMetrics => page,
            Format::Classic => classic(&page),
        }
    }
}

/// An OpenMetrics page in the classic format. There a counter has its whole name, with `_total`,
/// also in the lines about it, and a page has no last line.
fn classic(page: &str) -> String {
    let mut classic = String::with_capacity(page.len());
    // HELP comes before TYPE, and only TYPE says whether it is a counter.
    let mut help = None;
    for line in page.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
            continue;
        }
        if let Some((name, kind)) = type_of(line) {
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some((_, text)) = help.take().filter(|(of, _)| *of == name) {
                push(&mut classic, format_args!("# HELP {name}{suffix} {text}"));
            }
            push(&mut classic, format_args!("# TYPE {name}{suffix} {kind}"));
            continue;
        }
        push(&mut classic, format_args!("{line}"));
    }
    classic
}

fn type_of(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("# TYPE ")?.split_once(' ')
}

fn push(page: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(page, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_that_does_not_name_openmetrics_gets_the_classic_format() {
        let asked = |headers: &[&str]| Format::asked_for(headers.iter().map(|h| h.as_bytes()));
        assert_eq!(asked(&[]), Format::Classic);
        assert_eq!(asked(&["*/*"]), Format::Classic);
        assert_eq!(asked(&["text/plain;version=0.0.4"]), Format::Classic);
        let prometheus = "Application/OpenMetrics-Text;version=1.0.0,text/plain;q=0.5";
        assert_eq!(asked(&["text/html", prometheus]), Format::OpenMetrics);
    }

    #[test]
    fn counters_have_their_whole_name_and_the_rest_is_the_same() {
        let page = "# HELP a_b Texts of a.\n# TYPE a_b counter\na_b_total{x=\"1\"} 3\n\
                    # HELP c C.\n# TYPE c gauge\nc 1\n# EOF\n";
        let wanted = "# HELP a_b_total Texts of a.\n# TYPE a_b_total counter\n\
                      a_b_total{x=\"1\"} 3\n# HELP c C.\n# TYPE c gauge\nc 1\n";
        assert_eq!(classic(page), wanted);
    }
}
