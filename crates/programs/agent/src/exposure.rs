//! Exposure of an agent: its address, encryption, and authorized clients.
//!
//! Other machines reach an agent only if its operator has configured a token or TLS. TLS by itself
//! keeps the pages secret on their way, and lets every client read them: that is said at the start.
//! A loopback address needs neither: users of this machine see as much in its process list.

use std::net::SocketAddr;

use synod_tls::ServiceCertificates;

use crate::cookie::{Cookie, Way};
use crate::token::Token;

#[derive(Debug, thiserror::Error)]
pub enum ExposureError {
    #[error(
        "every machine that reaches {listen} could read about this group. Make a token \
         ((umask 077; openssl rand -hex 32 > /etc/synod/agent.token), owned by the user of \
         the agent), and add --token-file /etc/synod/agent.token; or have clients show \
         certificates (--tls-cert, --tls-key, --tls-client-ca). Or listen on this machine only: \
         --listen 127.0.0.1:{}", listen.port()
    )]
    Open { listen: SocketAddr },
}

/// An address to listen on, with what clients have to show there.
#[derive(Debug)]
pub struct Access {
    listen: SocketAddr,
    shown: Option<Shown>,
    certificates: Option<ServiceCertificates>,
}

/// Secrets that clients show: programs the token, browsers the cookie.
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
    /// With a token, only for clients that show it; with certificates, by TLS, where a client's
    /// certificate stands for the token. An error if other machines could ask, and there is
    /// neither.
    pub fn new(
        listen: SocketAddr,
        token: Option<Token>,
        certificates: Option<ServiceCertificates>,
    ) -> Result<Access, ExposureError> {
        let is_protected = token.is_some() || certificates.is_some();
        if !is_protected && !is_loopback(listen) {
            return Err(ExposureError::Open { listen });
        }
        let way = match certificates {
            Some(_) => Way::Tls,
            None => Way::Clear,
        };
        let shown = token.map(|token| Shown {
            cookie: Cookie::of(&token, listen.port(), way),
            token,
        });
        Ok(Access {
            listen,
            shown,
            certificates,
        })
    }

    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    pub fn scheme(&self) -> &'static str {
        match self.certificates {
            Some(_) => "https",
            None => "http",
        }
    }

    pub fn warnings(&self) -> Vec<String> {
        let in_use = self
            .certificates
            .as_ref()
            .and_then(|files| files.in_use().ok());
        let of_dates = in_use.and_then(|tls| tls.warning().map(str::to_owned));
        self.exposed().into_iter().chain(of_dates).collect()
    }

    /// A warning about other machines that may read all pages.
    fn exposed(&self) -> Option<String> {
        let is_open = !self.asks_for_proof() && !is_loopback(self.listen);
        is_open.then(|| {
            format!(
                "every machine that reaches {} can read about this group: TLS keeps the pages \
                 secret on their way, and no client has to show who it is. Add --token-file or \
                 --tls-client-ca",
                self.listen
            )
        })
    }

    pub(crate) fn certificates(&self) -> Option<&ServiceCertificates> {
        self.certificates.as_ref()
    }

    pub(crate) fn asks_for_proof(&self) -> bool {
        self.has_token() || self.knows_certificates()
    }

    pub(crate) fn knows_certificates(&self) -> bool {
        let certificates = self.certificates.as_ref();
        certificates.is_some_and(ServiceCertificates::knows_clients)
    }

    pub(crate) fn has_token(&self) -> bool {
        self.shown.is_some()
    }

    pub(crate) fn admits(&self, authorization: Option<&[u8]>) -> bool {
        let (shown, header) = (self.shown.as_ref(), authorization);
        shown.is_some_and(|shown| header.is_some_and(|header| shown.token.is_shown_by(header)))
    }

    /// The cookie for a browser that shows this token, if it is the right one.
    pub(crate) fn cookie_for(&self, token: &[u8]) -> Option<String> {
        let shown = self.shown.as_ref().filter(|shown| shown.token.is(token))?;
        Some(shown.cookie.header())
    }

    pub(crate) fn knows_cookie(&self, header: &[u8]) -> bool {
        let shown = self.shown.as_ref();
        shown.is_some_and(|shown| shown.cookie.is_shown_by(header))
    }
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use synod_tls::TlsFiles;

    use super::*;
    use crate::encryption::test_certificates::{Authority, Kind};

    fn access(listen: &str, token: Option<Token>, files: Option<TlsFiles>) -> Access {
        let certificates = files.map(|files| ServiceCertificates::read(files).unwrap());
        Access::new(listen.parse().unwrap(), token, certificates).unwrap()
    }

    #[test]
    fn other_machines_need_a_token_or_tls() {
        for open in ["0.0.0.0:4580", "192.0.2.1:4580", "[::]:4580"] {
            let error = Access::new(open.parse().unwrap(), None, None).unwrap_err();
            let text = error.to_string();
            for part in [
                open,
                "--token-file",
                "--tls-client-ca",
                "--listen 127.0.0.1:4580",
            ] {
                assert!(text.contains(part), "{text}");
            }
        }
        for closed in [
            "127.0.0.1:4580",
            "127.3.2.1:4580",
            "[::1]:4580",
            "[::ffff:127.0.0.1]:80",
        ] {
            let access = access(closed, None, None);
            assert!(!access.asks_for_proof() && access.exposed().is_none());
        }
    }

    #[test]
    fn tls_alone_opens_the_pages_to_all_and_that_is_said() {
        let authority = Authority::new("ca");
        let files = authority.issue("db1", Kind::Good);
        let without_clients = TlsFiles {
            authorities: None,
            ..files.clone()
        };
        let open = access("0.0.0.0:4580", None, Some(without_clients.clone()));
        let warning = open.exposed().unwrap();
        for part in ["0.0.0.0:4580", "--token-file", "--tls-client-ca"] {
            assert!(warning.contains(part), "{warning}");
        }
        assert_eq!(open.scheme(), "https");
        let token = || Token::from_line(&"x".repeat(32));
        for closed in [
            access("0.0.0.0:4580", token(), Some(without_clients.clone())),
            access("0.0.0.0:4580", None, Some(files)),
            access("0.0.0.0:4580", token(), None),
        ] {
            assert!(closed.asks_for_proof() && closed.exposed().is_none());
        }
        assert_eq!(
            access("127.0.0.1:4580", None, Some(without_clients)).exposed(),
            None
        );
    }

    #[test]
    fn token_is_asked_for_on_every_address() {
        for address in ["0.0.0.0:4580", "127.0.0.1:4580"] {
            let access = access(address, Token::from_line(&"x".repeat(32)), None);
            assert!(!access.admits(None) && !access.admits(Some(b"Bearer y")));
            assert!(access.admits(Some(format!("Bearer {}", "x".repeat(32)).as_bytes())));
        }
    }
}
