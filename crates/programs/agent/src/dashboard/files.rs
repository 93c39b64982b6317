//! Files of the dashboard: the page, its style, its scripts and its icon. Compiled in.

#[derive(Debug, PartialEq, Eq)]
pub struct File {
    path: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) text: &'static str,
}

/// Content security policy (CSP level 3): only files of the agent itself, and nothing written into
/// the page. Texts of the group, as names of members, cannot become a script.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// A row of the table: a file in the folder `page`.
macro_rules! file {
    ($name:literal, $kind:expr) => {
        File {
            path: concat!("/page/", $name),
            kind: $kind,
            text: include_str!(concat!("page/", $name)),
        }
    };
}

/// `/` and `/member/NAME` are the same page; its script draws what the address names.
static PAGE: File = file!("page.html", "text/html; charset=utf-8");

static PARTS: [File; 13] = [
    file!("style.css", "text/css; charset=utf-8"),
    file!("icon.svg", "image/svg+xml"),
    file!("main.js", SCRIPT),
    file!("source.js", SCRIPT),
    file!("history.js", SCRIPT),
    file!("overview.js", SCRIPT),
    file!("member.js", SCRIPT),
    file!("picture.js", SCRIPT),
    file!("chart.js", SCRIPT),
    file!("panels.js", SCRIPT),
    file!("elements.js", SCRIPT),
    file!("words.js", SCRIPT),
    file!("theme.js", SCRIPT),
];

impl File {
    pub(crate) fn at(path: &str) -> Option<&'static File> {
        if is_page(path) {
            return Some(&PAGE);
        }
        PARTS.iter().find(|file| file.path == path)
    }
}

/// Whether a person opens this path.
pub(crate) fn is_page(path: &str) -> bool {
    path == "/" || path.starts_with("/member/")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts in quotes that follow one of these words.
    fn named<'a>(text: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
        let behind = text.split(before).skip(1);
        behind.map(|text| text.split('"').next().unwrap_or_default())
    }

    #[test]
    fn all_that_the_page_names_is_served_and_all_that_is_served_is_named() {
        let mut found: Vec<&str> = Vec::new();
        for attribute in ["src=\"", "href=\""] {
            for path in named(PAGE.text, attribute) {
                let file = File::at(path).unwrap_or_else(|| panic!("{path}"));
                found.push(file.path);
            }
        }
        for file in &PARTS {
            for name in named(file.text, "from \"./") {
                let path = format!("/page/{name}");
                found.push(File::at(&path).unwrap_or_else(|| panic!("{path}")).path);
            }
        }
        for file in &PARTS {
            assert!(found.contains(&file.path), "{}", file.path);
        }
    }

    /// The policy would refuse it, too; but what is refused is missing on the page.
    #[test]
    fn nothing_is_loaded_from_elsewhere_or_written_into_the_page() {
        for file in PARTS.iter().chain([&PAGE]) {
            let text = file.text.replace("http://www.w3.org/2000/svg", "");
            for outside in [
                "http:",
                "https:",
                "@import",
                "url(",
                "style=\"",
                " onclick=",
            ] {
                assert!(!text.contains(outside), "{} has {outside}", file.path);
            }
        }
    }

    /// Names of members are what other machines say: they never become part of the page's text.
    #[test]
    fn scripts_insert_no_html() {
        let ways = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
        ];
        for file in &PARTS {
            for way in ways {
                assert!(!file.text.contains(way), "{} has {way}", file.path);
            }
        }
    }
}
