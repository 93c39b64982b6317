//! The lab's scenarios with real servers, in networks made on this machine.

mod certify;
mod lab;
mod remote;
