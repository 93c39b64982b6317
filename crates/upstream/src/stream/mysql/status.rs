//! The status variables of a statement: those of MySQL, as MariaDB knows them.
//!
//! ```text
//! code u8 | value, as long as its code says
//! ```
//! Those that MariaDB does not know go: no reader could tell how long they are. They come last.

use super::collation;

/// Modes of the statement, eight bytes.
const SQL_MODE: u8 = 1;
/// Three collations: of the client, the connection and the server.
const CHARSET: u8 = 4;
/// The collation of the default schema.
const CHARSET_DATABASE: u8 = 8;
/// The account, for views and routines.
const INVOKER: u8 = 11;
/// Names of schemas that the statement changes; MariaDB has no such variable.
const UPDATED_SCHEMAS: u8 = 12;
/// Number of names that stands for too many of them.
const MANY_SCHEMAS: u8 = 254;
/// Parts of a second after the event's timestamp, three bytes; in MariaDB and in MySQL.
const MICROSECONDS: u8 = 128;
const MICROSECONDS_OF_MYSQL: u8 = 13;
/// Bits of the modes that mean the same in both; later ones do not.
const COMMON_MODES: u64 = 0xffff_ffff;

/// The variables for MariaDB; none: they are damaged.
pub(super) fn in_mariadb(status: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(status.len());
    let mut rest = status;
    while let Some((code, after)) = rest.split_first() {
        // What follows an unknown one cannot be found.
        let Some(length) = length(*code, after) else {
            break;
        };
        let (value, after) = after.split_at_checked(length)?;
        rest = after;
        match *code {
            UPDATED_SCHEMAS => {}
            MICROSECONDS_OF_MYSQL => {
                out.push(MICROSECONDS);
                out.extend_from_slice(value);
            }
            SQL_MODE => {
                let modes = u64::from_le_bytes(*value.first_chunk()?) & COMMON_MODES;
                out.push(SQL_MODE);
                out.extend_from_slice(&modes.to_le_bytes());
            }
            CHARSET | CHARSET_DATABASE => {
                out.push(*code);
                for number in value.chunks_exact(2) {
                    let number = u16::from_le_bytes(*number.first_chunk()?);
                    out.extend_from_slice(&collation::in_mariadb(number).to_le_bytes());
                }
            }
            code => {
                out.push(code);
                out.extend_from_slice(value);
            }
        }
    }
    Some(out)
}

/// How long the value of a variable is whose first bytes these are; none: that is not known, or
/// MariaDB does not know the variable.
fn length(code: u8, value: &[u8]) -> Option<usize> {
    let text = |from: usize| value.get(from).map(|length| 1 + usize::from(*length));
    match code {
        0 | 3 | 10 => Some(4),
        SQL_MODE | 9 => Some(8),
        CHARSET => Some(6),
        5 | 6 => text(0),
        7 | CHARSET_DATABASE => Some(2),
        INVOKER => {
            let user = text(0)?;
            Some(user + text(user)?)
        }
        UPDATED_SCHEMAS => match value.split_first()? {
            (&MANY_SCHEMAS, _) => Some(1),
            (count, names) => {
                let mut ends = names.iter().enumerate().filter(|(_, byte)| **byte == 0);
                match count.checked_sub(1) {
                    Some(before) => Some(2 + ends.nth(usize::from(before))?.0),
                    None => Some(1),
                }
            }
        },
        MICROSECONDS_OF_MYSQL => Some(3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Of `CREATE TABLE` in MySQL 8.0.46: flags, modes, catalog, collations, schemas, the number of
    /// the change, the default collation, and one more.
    const OF_MYSQL: &[u8] = b"\x00\x00\x00\x00\x00\x01\x20\x00\xa0\x45\x00\x00\x00\x00\x06\x03std\
        \x04\x21\x00\x21\x00\xff\x00\x0c\x01shop\x00\x11\x0e\x00\x00\x00\x00\x00\x00\x00\x12\xff\
        \x00\x13\x00";

    #[test]
    fn variables_that_mariadb_knows_stay() {
        let expected = b"\x00\x00\x00\x00\x00\x01\x20\x00\xa0\x45\x00\x00\x00\x00\x06\x03std\
            \x04\x21\x00\x21\x00\x04\x09";
        assert_eq!(in_mariadb(OF_MYSQL).as_deref(), Some(&expected[..]));
    }

    #[test]
    fn time_account_and_modes_are_those_of_mariadb() {
        let of_mysql = b"\x01\x20\x00\xa0\x45\x01\x00\x00\x00\x0b\x01u\x01h\x0c\xfe\x05\x03UTC\
            \x08\xff\x00\x0d\x11\x22\x33\x10\x01";
        let expected = b"\x01\x20\x00\xa0\x45\x00\x00\x00\x00\x0b\x01u\x01h\x05\x03UTC\
            \x08\x04\x09\x80\x11\x22\x33";
        assert_eq!(in_mariadb(of_mysql).as_deref(), Some(&expected[..]));
        assert_eq!(
            in_mariadb(b"\x0c\x00\x07\x01\x02"),
            Some(b"\x07\x01\x02".to_vec())
        );
    }

    #[test]
    fn cut_variables_are_damaged() {
        for cut in [&b"\x01\x20"[..], b"\x04\x21\x00", b"\x0d\x01"] {
            assert_eq!(in_mariadb(cut), None);
        }
    }

    proptest! {
        #[test]
        fn made_up_variables_become_no_larger(
            status in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            if let Some(out) = in_mariadb(&status) {
                prop_assert!(out.len() <= status.len());
            }
        }
    }
}
