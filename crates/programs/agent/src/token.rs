//! The token that clients of an agent show, if one is configured.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq;
use synod_tls::mode_open_to_all;

/// Characters of the shortest token: 96 random bits, as `openssl rand -hex 12` writes them.
const CHARACTERS_MIN: usize = 24;
const FILE_BYTES_MAX: u64 = 4096;

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("cannot read the token in {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// Every user may read or change it.
    #[error(
        "{} can be read by every user, so it protects nothing. Close it (chmod 600 {}), and put a \
         new token into it",
        path.display(), path.display()
    )]
    Open { path: PathBuf },
    #[error(
        "{} does not hold a token: one line of at least {CHARACTERS_MIN} printed characters, \
         without spaces. Make one: openssl rand -hex 32 > {}",
        path.display(), path.display()
    )]
    Malformed { path: PathBuf },
}

/// A secret text. It is never shown.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// Reads the token in a file, which must not be open to every user: one line.
    pub fn read(path: &Path) -> Result<Token, TokenError> {
        let owned = || path.to_owned();
        let unreadable = |source| TokenError::Unreadable {
            path: owned(),
            source,
        };
        let file = File::open(path).map_err(unreadable)?;
        let known = file.metadata().map_err(unreadable)?;
        if mode_open_to_all(&known).is_some() {
            return Err(TokenError::Open { path: owned() });
        }
        let mut text = String::new();
        let limited = file.take(FILE_BYTES_MAX).read_to_string(&mut text);
        limited.map_err(unreadable)?;
        Token::from_line(&text).ok_or_else(|| TokenError::Malformed { path: owned() })
    }

    pub(crate) fn from_line(text: &str) -> Option<Token> {
        let token = text.trim_end_matches(['\r', '\n']);
        let is_token =
            token.len() >= CHARACTERS_MIN && token.bytes().all(|byte| byte.is_ascii_graphic());
        is_token.then(|| Token(token.to_owned()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Whether this text is the token. How long that takes tells its length and nothing else.
    pub(crate) fn is(&self, text: &[u8]) -> bool {
        bool::from(text.ct_eq(self.bytes()))
    }

    /// Whether the value of an `Authorization` header shows this token: `Bearer TOKEN` (RFC 6750,
    /// section 2.1). How long this takes tells the length of the token and nothing else.
    pub fn is_shown_by(&self, header: &[u8]) -> bool {
        const SCHEME: &[u8] = b"bearer ";
        let Some((scheme, shown)) = header.split_at_checked(SCHEME.len()) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(SCHEME) && self.is(shown)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn token_is_shown_as_a_bearer() {
        let token = Token::from_line(&format!("{TOKEN}\n")).unwrap();
        assert!(token.is_shown_by(format!("Bearer {TOKEN}").as_bytes()));
        assert!(token.is_shown_by(format!("bearer {TOKEN}").as_bytes()));
        for wrong in [
            String::new(),
            "Bearer ".into(),
            TOKEN.into(),
            format!("Basic  {TOKEN}"),
            format!("Bearer {TOKEN}0"),
            format!("Bearer {}", &TOKEN[1..]),
        ] {
            assert!(!token.is_shown_by(wrong.as_bytes()), "{wrong}");
        }
        assert!(!format!("{token:?}").contains(TOKEN));
    }

    #[test]
    fn files_that_protect_nothing_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let with = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            Token::read(&path)
        };
        let missing = Token::read(&path);
        assert!(matches!(missing, Err(TokenError::Unreadable { .. })));
        assert!(with(TOKEN, 0o640).is_ok());
        assert!(matches!(with(TOKEN, 0o644), Err(TokenError::Open { .. })));
        for text in ["", "short", &TOKEN.replace('a', " "), &"é".repeat(24)] {
            let read = with(text, 0o600);
            assert!(matches!(read, Err(TokenError::Malformed { .. })), "{text}");
        }
    }
}
