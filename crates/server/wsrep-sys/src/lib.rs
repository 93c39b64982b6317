//! The wsrep provider interface, version 26, as Rust types: what a stock MariaDB 10.11 and a
//! provider exchange over the C boundary. Layout only: no logic, no allocation, nothing exported.
//!
//! Names are the C names, so that this crate can be read next to the interface's documentation. C
//! enums are plain integers with constants: the other side is not bound to the values known here,
//! and a Rust `enum` holding an unknown value would be undefined behaviour. `bool` is a byte for
//! the same reason. Function pointers are `Option`s, so that NULL is a value like any other.
//!
//! Callbacks into the server are `extern "C-unwind"`, because C++ exceptions may come out of them;
//! functions of ours that the server calls are `extern "C"`: nothing may unwind out of them.
//!
//! Who allocates, who frees and how long a pointer lives is said at each field. Unless a comment
//! says otherwise, whatever is passed into a call or a callback is valid during that call only.
#![forbid(unsafe_code)]
#![allow(non_camel_case_types)]

mod callbacks;
mod constants;
mod init;
mod services;
mod structs;
mod table;

pub use callbacks::*;
pub use constants::*;
pub use init::*;
pub use services::*;
pub use structs::*;
pub use table::*;
