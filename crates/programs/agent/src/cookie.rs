//! Cookie by which a browser shows the token, after it was once in an address.
//!
//! A browser adds no `Authorization: Bearer` to what a person opens. So `/?token=TOKEN` is answered
//! by a cookie and sent on to the address without the token. The cookie holds a digest: who reads
//! it has the pages, and not the token, which may be that of Prometheus, too. It ends with the
//! token.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::token::Token;

/// Separates the digest from other uses of the token.
const PURPOSE: &[u8] = b"synod agent: cookie of a browser\0";

/// The cookie of an agent. Cookies do not tell ports apart, so its name does.
#[derive(Clone)]
pub(crate) struct Cookie {
    name: String,
    value: String,
    way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Clear,
    /// By TLS; the browser sends it in no other way.
    Tls,
}

impl Cookie {
    /// The cookie that stands for this token at an agent with this port.
    pub(crate) fn of(token: &Token, port: u16, way: Way) -> Cookie {
        let digest = Sha256::new()
            .chain_update(PURPOSE)
            .chain_update(token.bytes())
            .finalize();
        Cookie {
            name: format!("synod_agent_{port}"),
            value: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            way,
        }
    }

    /// `Set-Cookie` header (RFC 6265): kept until the browser is closed, unreadable for scripts,
    /// and not sent when a page of another site leads here.
    pub(crate) fn header(&self) -> String {
        let Cookie { name, value, way } = self;
        let secure = match way {
            Way::Clear => "",
            Way::Tls => "; Secure",
        };
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}")
    }

    pub(crate) fn is_shown_by(&self, header: &[u8]) -> bool {
        header.split(|byte| *byte == b';').any(|pair| {
            let pair = pair.trim_ascii();
            let value = pair.strip_prefix(self.name.as_bytes());
            let value = value.and_then(|rest| rest.strip_prefix(b"="));
            value.is_some_and(|value| bool::from(value.ct_eq(self.value.as_bytes())))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn cookie_is_recognised_among_others_and_hides_the_token() {
        let cookie = Cookie::of(&Token::from_line(TOKEN).unwrap(), 4580, Way::Clear);
        let header = cookie.header();
        assert!(!header.contains(TOKEN), "{header}");
        let pair = header.split(';').next().unwrap();
        for shown in [
            pair.to_owned(),
            format!("a=b; {pair}"),
            format!("{pair};c=d"),
        ] {
            assert!(cookie.is_shown_by(shown.as_bytes()), "{shown}");
        }
        let other_port = pair.replace("4580", "4581");
        let other_token = Cookie::of(
            &Token::from_line(&"x".repeat(32)).unwrap(),
            4580,
            Way::Clear,
        );
        for wrong in ["", "synod_agent_4580=", &other_port, &format!("{pair}0")] {
            assert!(!cookie.is_shown_by(wrong.as_bytes()), "{wrong}");
        }
        assert!(!cookie.is_shown_by(other_token.header().as_bytes()));
    }

    #[test]
    fn cookie_of_an_encrypted_page_is_sent_over_tls_only() {
        let header = |way| Cookie::of(&Token::from_line(TOKEN).unwrap(), 4580, way).header();
        assert!(header(Way::Tls).ends_with("; Secure"));
        assert!(!header(Way::Clear).contains("Secure"));
    }
}
