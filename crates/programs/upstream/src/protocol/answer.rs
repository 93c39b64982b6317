//! Answers of a server: done, an error in words, rows of texts.

/// Rows that an answer may have.
pub(crate) const ROWS_MAX: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerError {
    pub(crate) code: u16,
    pub(crate) text: String,
}

/// The values of a row; none: NULL.
pub(crate) type Row = Vec<Option<String>>;

/// Kind of an answer, by its first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    /// The server refused, with an error.
    Failed(ServerError),
    /// So many columns follow, then rows.
    Columns(u64),
    /// No answer that is known here.
    Unknown,
}

impl Answer {
    /// Reads the first payload of an answer.
    pub(crate) fn parse(payload: &[u8]) -> Answer {
        match payload.split_first() {
            Some((0, _)) => Answer::Done,
            Some((0xff, rest)) => Answer::Failed(ServerError::parse(rest)),
            Some((0xfb, _)) | None => Answer::Unknown,
            Some(_) => match length(&mut &*payload) {
                Some(columns) => Answer::Columns(columns),
                None => Answer::Unknown,
            },
        }
    }
}

impl ServerError {
    /// Reads the payload after its first byte.
    pub(crate) fn parse(payload: &[u8]) -> ServerError {
        let Some((code, text)) = payload.split_first_chunk() else {
            return ServerError {
                code: 0,
                text: "no text".to_owned(),
            };
        };
        // A mark and five characters of a state come before the text, after the handshake.
        let text = match text.split_first() {
            Some((b'#', rest)) => rest.get(5..).unwrap_or_default(),
            Some(_) | None => text,
        };
        ServerError {
            code: u16::from_le_bytes(*code),
            text: String::from_utf8_lossy(text).into_owned(),
        }
    }
}

/// Whether the payload ends a list of columns or rows, or a dump.
pub(crate) fn is_end(payload: &[u8]) -> bool {
    payload.first() == Some(&0xfe) && payload.len() < 9
}

/// Reads a row; none if it is not one.
pub(crate) fn row(payload: &[u8]) -> Option<Row> {
    let mut rest = payload;
    let mut row = Row::new();
    while let Some((first, after)) = rest.split_first() {
        if *first == 0xfb {
            rest = after;
            row.push(None);
            continue;
        }
        let bytes = usize::try_from(length(&mut rest)?).ok()?;
        let (text, after) = rest.split_at_checked(bytes)?;
        rest = after;
        row.push(Some(String::from_utf8_lossy(text).into_owned()));
    }
    Some(row)
}

/// A number in as many bytes as it takes, with what says how many.
fn length(rest: &mut &[u8]) -> Option<u64> {
    let (first, after) = rest.split_first()?;
    let bytes = match first {
        0..=250 => {
            *rest = after;
            return Some(u64::from(*first));
        }
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        _ => return None,
    };
    let (number, after) = after.split_at_checked(bytes)?;
    *rest = after;
    let digits = number.iter().rev();
    Some(digits.fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn answers_are_told_apart() {
        assert_eq!(Answer::parse(&[0, 0, 0, 2, 0, 0, 0]), Answer::Done);
        assert_eq!(Answer::parse(&[2]), Answer::Columns(2));
        assert_eq!(Answer::parse(b"\xfbfile"), Answer::Unknown);
        let failed = Answer::parse(b"\xff\xd4\x04#HY000gone");
        let error = ServerError {
            code: 1236,
            text: "gone".to_owned(),
        };
        assert_eq!(failed, Answer::Failed(error));
        assert!(is_end(&[0xfe, 0, 0, 2, 0]) && !is_end(&[0xfe; 9]) && !is_end(&[]));
    }

    #[test]
    fn rows_are_read() {
        let found = row(b"\x02ab\xfb\xfc\x01\x00c").unwrap();
        assert_eq!(found, [Some("ab".to_owned()), None, Some("c".to_owned())]);
        assert_eq!(row(b"\x05ab"), None);
        assert_eq!(row(b"\xff"), None);
    }

    proptest! {
        #[test]
        fn made_up_rows_are_no_larger_than_their_bytes(
            input in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let _ = Answer::parse(&input);
            let bytes = row(&input).unwrap_or_default().len();
            prop_assert!(bytes <= input.len());
        }
    }
}
