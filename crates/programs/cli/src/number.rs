//! Numbers on a command line, refused in words.

/// Reads a whole number from `MIN` to `MAX`, which a `T` can hold.
pub(crate) fn number<T: TryFrom<u64>, const MIN: u64, const MAX: u64>(
    text: &str,
) -> Result<T, String> {
    let number = text.parse().ok().filter(|n| (MIN..=MAX).contains(n));
    number
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| format!("it must be a whole number from {MIN} to {MAX}"))
}

/// The largest server_id and domain of a GTID.
pub(crate) const ID_MAX: u64 = 0xffff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_such_number_is_refused_in_words() {
        assert_eq!(number::<u8, 0, 100>("100"), Ok(100));
        for text in ["abc", "", "-1", "101", "1.5", "99999999999999999999"] {
            let why = "it must be a whole number from 0 to 100";
            assert_eq!(number::<u8, 0, 100>(text), Err(why.to_owned()), "{text}");
        }
        assert_eq!(number::<u32, 1, ID_MAX>("4294967295"), Ok(u32::MAX));
    }
}
