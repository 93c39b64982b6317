//! Layouts: in which order the fields of a value travel, said once for both directions.
//!
//! ```text
//! record! { AppliedPosition { session, state, left, released, lag_us } }
//! coded! { "refusal of a proposal": ProposalRefusal {
//!     0 (with) [ProposalRefusal::Conflict { with }]
//!     1 () [ProposalRefusal::TooOld]
//! } }
//! ```
//!
//! A record is its fields, one after the other. A coded value is a byte, and the fields that this
//! byte says. A field travels as its type says ([`Wire`]), or as the [`Codec`] behind its colon.

use bytes::Bytes;
use synod_consensus::{
    EntryId, EntryKind, GroupId, GroupSetting, GroupSettings, LeaderWeight, LogIndex, MemberId,
    Origin, Seqno, SessionId, Term, Time, VersionRange,
};

use crate::codec::{Reader, Writer};
use crate::error::{DecodeError, EncodeError};

pub(crate) trait Wire: Sized {
    fn write(&self, w: &mut Writer) -> Result<(), EncodeError>;
    fn read(r: &mut Reader) -> Result<Self, DecodeError>;
}

/// A layout for values whose type alone does not say it.
pub(crate) trait Codec<T> {
    fn write(&self, value: &T, w: &mut Writer) -> Result<(), EncodeError>;
    fn read(&self, r: &mut Reader) -> Result<T, DecodeError>;
}

macro_rules! put {
    ($w:ident, $value:expr) => {
        $crate::layout::Wire::write($value, $w)?
    };
    ($w:ident, $value:expr, $codec:expr) => {
        $crate::layout::Codec::write(&$codec, $value, $w)?
    };
}

macro_rules! get {
    ($r:ident) => {
        $crate::layout::Wire::read($r)?
    };
    ($r:ident, $codec:expr) => {
        $crate::layout::Codec::read(&$codec, $r)?
    };
}

macro_rules! record {
    ($($name:ident { $($field:ident $(: $codec:expr)?),* })*) => {$(
        impl $crate::layout::Wire for $name {
            fn write(
                &self,
                w: &mut $crate::codec::Writer,
            ) -> Result<(), $crate::error::EncodeError> {
                $($crate::layout::put!(w, &self.$field $(, $codec)?);)*
                Ok(())
            }

            fn read(r: &mut $crate::codec::Reader) -> Result<$name, $crate::error::DecodeError> {
                Ok($name { $($field: $crate::layout::get!(r $(, $codec)?)),* })
            }
        }
    )*};
}

macro_rules! coded {
    ($what:literal: $type:ty {
        $($code:literal ($($field:ident $(: $codec:expr)?),*) [$($shape:tt)*])*
    }) => {
        impl $crate::layout::Wire for $type {
            fn write(
                &self,
                w: &mut $crate::codec::Writer,
            ) -> Result<(), $crate::error::EncodeError> {
                match self {
                    $($($shape)* => {
                        w.u8($code);
                        $($crate::layout::put!(w, $field $(, $codec)?);)*
                    })*
                }
                Ok(())
            }

            fn read(r: &mut $crate::codec::Reader) -> Result<$type, $crate::error::DecodeError> {
                Ok(match r.u8()? {
                    $($code => {
                        $(let $field = $crate::layout::get!(r $(, $codec)?);)*
                        $($shape)*
                    })*
                    code => return Err($crate::error::DecodeError::unknown($what, code)),
                })
            }
        }
    };
}

pub(crate) use {coded, get, put, record};

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Wire for $type {
            fn write(&self, w: &mut Writer) -> Result<(), EncodeError> {
                w.bytes(&self.to_le_bytes());
                Ok(())
            }

            fn read(r: &mut Reader) -> Result<$type, DecodeError> {
                Ok(<$type>::from_le_bytes(r.array()?))
            }
        }
    )*};
}

macro_rules! wrapped {
    ($($type:ident)*) => {$(
        impl Wire for $type {
            fn write(&self, w: &mut Writer) -> Result<(), EncodeError> {
                self.0.write(w)
            }

            fn read(r: &mut Reader) -> Result<$type, DecodeError> {
                Ok($type(Wire::read(r)?))
            }
        }
    )*};
}

/// A byte that the type itself makes a value of, or does not.
macro_rules! by_code {
    ($($what:literal: $type:ident, $code:expr, $from_code:expr;)*) => {$(
        impl Wire for $type {
            fn write(&self, w: &mut Writer) -> Result<(), EncodeError> {
                let code: fn($type) -> u8 = $code;
                w.u8(code(*self));
                Ok(())
            }

            fn read(r: &mut Reader) -> Result<$type, DecodeError> {
                let code = r.u8()?;
                $from_code(code).ok_or(DecodeError::unknown($what, code))
            }
        }
    )*};
}

numbers! { u16 u32 u64 i32 i64 }
wrapped! { GroupId LogIndex MemberId Seqno SessionId Term Time }
by_code! {
    "entry kind": EntryKind, |kind| kind as u8, EntryKind::from_code;
    "leader weight": LeaderWeight, LeaderWeight::get, LeaderWeight::new;
    "settings": GroupSettings, GroupSettings::code, GroupSettings::from_code;
    "setting": GroupSetting, GroupSetting::code, GroupSetting::from_code;
}
coded! { "yes or no": bool {
    0 () [false]
    1 () [true]
} }
record! {
    EntryId { term, index }
    Origin { member, session, number }
    VersionRange { min, max }
}

impl Wire for [u8; 16] {
    fn write(&self, w: &mut Writer) -> Result<(), EncodeError> {
        w.bytes(self);
        Ok(())
    }

    fn read(r: &mut Reader) -> Result<[u8; 16], DecodeError> {
        r.array()
    }
}

/// Yes or no, then the value if yes.
impl<T: Wire> Wire for Option<T> {
    fn write(&self, w: &mut Writer) -> Result<(), EncodeError> {
        self.is_some().write(w)?;
        self.iter().try_for_each(|value| value.write(w))
    }

    fn read(r: &mut Reader) -> Result<Option<T>, DecodeError> {
        bool::read(r)?.then(|| T::read(r)).transpose()
    }
}

/// Yes or no, then the value if yes, by its codec.
pub(crate) struct Maybe<C>(pub(crate) C);

impl<T, C: Codec<T>> Codec<Option<T>> for Maybe<C> {
    fn write(&self, value: &Option<T>, w: &mut Writer) -> Result<(), EncodeError> {
        value.is_some().write(w)?;
        value.iter().try_for_each(|value| self.0.write(value, w))
    }

    fn read(&self, r: &mut Reader) -> Result<Option<T>, DecodeError> {
        bool::read(r)?.then(|| self.0.read(r)).transpose()
    }
}

const NAME_MAX: usize = 512;
pub(crate) const NAME: Name = Name::of("name");
pub(crate) const ADDRESS: Name = Name::of("address");
pub(crate) const CERTIFICATE: Name = Name {
    what: "certificate",
    max: 1024,
};

/// A text that must arrive whole.
pub(crate) struct Name {
    what: &'static str,
    max: usize,
}

impl Name {
    pub(crate) const fn of(what: &'static str) -> Name {
        let max = NAME_MAX;
        Name { what, max }
    }
}

impl Codec<String> for Name {
    fn write(&self, value: &String, w: &mut Writer) -> Result<(), EncodeError> {
        w.string(self.what, value, self.max)
    }

    fn read(&self, r: &mut Reader) -> Result<String, DecodeError> {
        r.string(self.what, self.max)
    }
}

/// A text for humans, shortened if it is long.
pub(crate) struct Text;

impl Codec<String> for Text {
    fn write(&self, value: &String, w: &mut Writer) -> Result<(), EncodeError> {
        w.text(value);
        Ok(())
    }

    fn read(&self, r: &mut Reader) -> Result<String, DecodeError> {
        r.text()
    }
}

pub(crate) struct Rest;

impl Codec<Bytes> for Rest {
    fn write(&self, value: &Bytes, w: &mut Writer) -> Result<(), EncodeError> {
        w.payload(value);
        Ok(())
    }

    fn read(&self, r: &mut Reader) -> Result<Bytes, DecodeError> {
        Ok(r.take_rest())
    }
}

pub(crate) const MEMBERS_MAX: u32 = 1024;

/// One value for each member, or for some. The fewest bytes of a value bound the memory that a
/// count can claim.
pub(crate) struct List<C> {
    pub(crate) what: &'static str,
    pub(crate) bytes_min: usize,
    pub(crate) each: C,
}

/// Values of a type with one layout.
pub(crate) struct Each;

impl<T: Wire> Codec<T> for Each {
    fn write(&self, value: &T, w: &mut Writer) -> Result<(), EncodeError> {
        value.write(w)
    }

    fn read(&self, r: &mut Reader) -> Result<T, DecodeError> {
        T::read(r)
    }
}

impl<T, C: Codec<T>> Codec<Vec<T>> for List<C> {
    fn write(&self, values: &Vec<T>, w: &mut Writer) -> Result<(), EncodeError> {
        w.count(self.what, values.len(), MEMBERS_MAX)?;
        values
            .iter()
            .try_for_each(|value| self.each.write(value, w))
    }

    fn read(&self, r: &mut Reader) -> Result<Vec<T>, DecodeError> {
        let count = r.count(self.what, self.bytes_min, MEMBERS_MAX)?;
        (0..count).map(|_| self.each.read(r)).collect()
    }
}
