//! Ports of the tests.

use crate::failure::{Outcome, ensure};

/// The first port that the system gives to outgoing connections, which takes it now and then.
const OUTGOING: u16 = 32_768;

/// Whether these ports are free for tests to listen on: `count` of them, from `first` on.
pub fn ensure_for_listening(first: u16, count: u16) -> Outcome {
    ensure(first <= OUTGOING - count, || {
        let highest = OUTGOING - count;
        format!("outgoing connections may take port {first} or the next {count}: {highest} at most")
    })
}
