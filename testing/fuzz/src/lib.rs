//! Helpers that the fuzz targets share.
//!
//! Each program in `src/bin/` but `seeds` gives bytes to one decoder, as a stranger, a broken disk
//! or an operator would. It checks more than that no decoder panics. Bytes that can be read are
//! written again as the same bytes or the same value. Errors leave everything as it was. Memory
//! stays bounded.
#![forbid(unsafe_code)]

pub mod frames;
pub mod log_directory;

use std::alloc::System;

use cap::Cap;

/// Bytes a target may have allocated at any moment; more ends it. Several times the need of the
/// largest input, far below the demand of a length that is trusted blindly.
pub const MEMORY_MAX: usize = 96 << 20;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, MEMORY_MAX);

/// Splits off the first byte; zero if the input is empty.
pub fn split_byte(input: &[u8]) -> (u8, &[u8]) {
    input
        .split_first()
        .map_or((0, input), |(byte, rest)| (*byte, rest))
}

/// Splits off a part with its length (two bytes, little-endian) before it; shorter at the end.
pub fn split_part(input: &[u8]) -> (&[u8], &[u8]) {
    let Some((len, rest)) = input.split_first_chunk::<2>() else {
        return (&[], &[]);
    };
    rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()))
}

/// A part in the form that [`split_part`] takes.
///
/// # Panics
/// If it is longer than two bytes can say.
pub fn put_part(out: &mut Vec<u8>, part: &[u8]) {
    let len = u16::try_from(part.len()).expect("a short part");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(part);
}
