//! Recovery of Galera's library from a full stop: an operator must find the node with the highest
//! seqno and bootstrap from it. Synod has no such step. This exists so that the same tests and
//! measurements run against both libraries.

use std::fs;

use crate::error::{IoContext, Result};
use crate::files::NodeFiles;

pub(crate) fn mark_safe_to_bootstrap(files: &NodeFiles) -> Result<()> {
    let path = files.data.join("grastate.dat");
    if !path.exists() {
        return Ok(());
    }
    let text = fs::read_to_string(&path).context("read", &path)?;
    let text = text.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1");
    fs::write(&path, text).context("write", path)
}

/// Orders recovered positions by their seqno; nodes without one come first.
pub(crate) fn seqno_of(position: Option<&str>) -> i64 {
    position
        .and_then(|text| text.rsplit_once(':'))
        .and_then(|(_, seqno)| seqno.parse().ok())
        .unwrap_or(-1)
}
