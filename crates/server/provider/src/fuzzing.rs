//! Doors for the fuzz targets in `fuzz/`: private decoders, each with what must hold whatever the
//! bytes are. Behind the feature `fuzzing`; not part of the crate's interface.

use std::path::Path;

use bytes::Bytes;
use synod_binlog::write_set::WriteSet;

use crate::position::grastate;

/// Reads the data of an action; what can be read is written again as the same write set.
pub fn check_write_set(bytes: &[u8]) {
    if let Ok(write_set) = WriteSet::decode(1, Bytes::copy_from_slice(bytes)) {
        assert_eq!(WriteSet::decode(1, write_set.encode()), Ok(write_set));
    }
}

/// Reads a `grastate.dat`; what it says is written so that the same is read again.
pub fn check_grastate(text: &str) {
    let path = Path::new(grastate::FILE_NAME);
    match grastate::parse(text, path) {
        Ok(position) => {
            let again = grastate::parse(&grastate::format(&position), path);
            assert_eq!(again.ok(), Some(position));
        }
        Err(error) => assert!(error.to_string().contains(grastate::FILE_NAME)),
    }
}
