//! The bytes on disk, which `docs/log-format.md` describes. Everything here turns values into bytes
//! and back, and refuses bytes that are not what they should be. Nothing here decides what a
//! difference means: that is recovery's business. Only the control file is also read and replaced
//! here, because it is one write of one value.

pub(crate) mod codec;
pub(crate) mod control;
pub(crate) mod names;
pub(crate) mod record;
pub(crate) mod segment;
pub(crate) mod version;
