//! Where an agent listens, and who may ask it.
//!
//! Other machines see a group's names, addresses and load only if the operator has configured a
//! token. A loopback address needs none: users of this machine see as much in its process list.

use std::net::SocketAddr;

use crate::cookie::Cookie;
use crate::token::Token;

/// Why an agent does not start.
#[derive(Debug, thiserror::Error)]
pub enum ExposureError {
    /// Other machines could ask without a token.
    #[error(
        "every machine that reaches {listen} could read about this group. Make a token \
         ((umask 077; openssl rand -hex 32 > /etc/mysql/synod-agent.token), owned by the user of \
         the agent), and add --token-file /etc/mysql/synod-agent.token. Or listen on this machine \
         only: --listen 127.0.0.1:{}", listen.port()
    )]
    NoToken {
        /// The address.
        listen: SocketAddr,
    },
}

/// An address to listen on, with the token that it needs.
#[derive(Clone, Debug)]
pub struct Access {
    listen: SocketAddr,
    shown: Option<Shown>,
}

/// What clients show: programs the token, browsers the cookie.
#[derive(Clone)]
struct Shown {
    token: Token,
    cookie: Cookie,
}

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shown(..)")
    }
}

impl Access {
    /// Listens on `listen`; with a token, only for clients that show it.
    ///
    /// # Errors
    /// Other machines could ask, and there is no token.
    pub fn new(listen: SocketAddr, token: Option<Token>) -> Result<Access, ExposureError> {
        if token.is_none() && !listen.ip().to_canonical().is_loopback() {
            return Err(ExposureError::NoToken { listen });
        }
        let shown = token.map(|token| Shown {
            cookie: Cookie::of(&token, listen.port()),
            token,
        });
        Ok(Access { listen, shown })
    }

    /// The address.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Whether a client with this `Authorization` header may ask.
    pub fn admits(&self, authorization: Option<&[u8]>) -> bool {
        match &self.shown {
            None => true,
            Some(shown) => authorization.is_some_and(|header| shown.token.is_shown_by(header)),
        }
    }

    /// Whether clients have to show a token.
    pub(crate) fn has_token(&self) -> bool {
        self.shown.is_some()
    }

    /// The cookie for a browser that shows this token, if it is the right one.
    pub(crate) fn cookie_for(&self, token: &[u8]) -> Option<String> {
        let shown = self.shown.as_ref().filter(|shown| shown.token.is(token))?;
        Some(shown.cookie.header())
    }

    /// Whether this `Cookie` header has the cookie.
    pub(crate) fn knows_cookie(&self, header: &[u8]) -> bool {
        let shown = self.shown.as_ref();
        shown.is_some_and(|shown| shown.cookie.is_shown_by(header))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_need_a_token() {
        for open in ["0.0.0.0:4580", "192.0.2.1:4580", "[::]:4580"] {
            let error = Access::new(open.parse().unwrap(), None).unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains(open) && text.contains("--token-file"),
                "{text}"
            );
            assert!(text.contains("--listen 127.0.0.1:4580"), "{text}");
        }
        for closed in [
            "127.0.0.1:4580",
            "127.3.2.1:4580",
            "[::1]:4580",
            "[::ffff:127.0.0.1]:80",
        ] {
            let access = Access::new(closed.parse().unwrap(), None).unwrap();
            assert!(access.admits(None));
        }
    }

    #[test]
    fn token_is_asked_for_on_every_address() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "x".repeat(32)).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        for address in ["0.0.0.0:4580", "127.0.0.1:4580"] {
            let token = Token::read(&path).unwrap();
            let access = Access::new(address.parse().unwrap(), Some(token)).unwrap();
            assert!(!access.admits(None) && !access.admits(Some(b"Bearer y")));
            assert!(access.admits(Some(format!("Bearer {}", "x".repeat(32)).as_bytes())));
        }
    }
}
