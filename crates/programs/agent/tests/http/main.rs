//! An agent beside a made-up server, over real sockets.

#[path = "../../../../runtime/tls/tests/support/certificates.rs"]
mod certificates;
mod encrypted;
mod pages;
mod support;
