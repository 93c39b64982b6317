//! Reading certificates, and the facts about one that this crate needs: dates, names, who may sign.
//!
//! A certificate is taken apart here (RFC 5280, section 4.1) only for what `webpki` does not offer:
//! dates and names for messages, and certificates of version 1. Nothing trusts its input: every
//! length is checked by the DER reader. Texts about a certificate speak of it as "it". Whether a
//! peer's certificate is accepted is decided in [`super::peer_verifier`].

use std::fs;
use std::path::Path;

use pkcs8::ObjectIdentifier;
use pkcs8::der::asn1::{AnyRef, BitStringRef, GeneralizedTime, UtcTime};
use pkcs8::der::{
    self, DateTime, Decode, Error, ErrorKind, Reader, SliceReader, Tag, TagNumber, Tagged,
};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use sha2::{Digest, Sha256};

use super::error::TlsError;
use super::settings::TlsFiles;

/// Longest subject that [`crate::PeerCredential::Certificate`] holds, in bytes; a longer one is
/// hashed.
pub const SUBJECT_BYTES_MAX: usize = 256;
const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");
/// The short names of RFC 4514, section 3.
const NAMES: [(ObjectIdentifier, &str); 6] = [
    (ObjectIdentifier::new_unwrap("2.5.4.3"), "CN"),
    (ObjectIdentifier::new_unwrap("2.5.4.6"), "C"),
    (ObjectIdentifier::new_unwrap("2.5.4.7"), "L"),
    (ObjectIdentifier::new_unwrap("2.5.4.8"), "ST"),
    (ObjectIdentifier::new_unwrap("2.5.4.10"), "O"),
    (ObjectIdentifier::new_unwrap("2.5.4.11"), "OU"),
];

#[derive(Clone, Copy, Debug)]
pub(super) struct SettingFile<'a> {
    pub(super) setting: &'static str,
    pub(super) switch: &'static str,
    pub(super) path: &'a Path,
}

impl<'a> SettingFile<'a> {
    pub(super) fn certificate(files: &'a TlsFiles) -> SettingFile<'a> {
        SettingFile {
            setting: files.names.certificate,
            switch: files.names.switch,
            path: &files.certificate,
        }
    }

    pub(super) fn key(files: &'a TlsFiles) -> SettingFile<'a> {
        SettingFile {
            setting: files.names.key,
            switch: files.names.switch,
            path: &files.key,
        }
    }

    pub(super) fn authorities(files: &TlsFiles, path: &'a Path) -> SettingFile<'a> {
        SettingFile {
            setting: files.names.authorities,
            switch: files.names.switch,
            path,
        }
    }

    pub(super) fn unreadable(&self, reason: String) -> TlsError {
        TlsError::Unreadable {
            setting: self.setting,
            path: self.path.to_owned(),
            reason,
        }
    }

    pub(super) fn read(&self) -> Result<Vec<u8>, TlsError> {
        if self.path.as_os_str().is_empty() {
            return Err(TlsError::NotSet {
                switch: self.switch,
                setting: self.setting,
            });
        }
        fs::read(self.path).map_err(|source| TlsError::Read {
            setting: self.setting,
            path: self.path.to_owned(),
            source,
        })
    }
}

/// Reads all certificates of a PEM file, in its order; at least one.
pub(super) fn read(file: SettingFile<'_>) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let mut text = file.read()?;
    // MySQL ends its files with a zero byte. In one that was put together of several, what follows
    // such a byte in its line would not be seen.
    let zeros = text.iter_mut().filter(|byte| **byte == 0);
    zeros.for_each(|byte| *byte = b'\n');
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates =
        certificates.map_err(|error| file.unreadable(format!("it is damaged: {error}")))?;
    if certificates.is_empty() {
        let reason = "there is no certificate in it (expected PEM: -----BEGIN CERTIFICATE-----)";
        return Err(file.unreadable(reason.to_owned()));
    }
    Ok(certificates)
}

#[derive(Debug)]
pub(super) struct Certificate<'a>(Fields<'a>);

impl<'a> Certificate<'a> {
    /// Takes a certificate apart, wherever it comes from; the error says what is wrong with it.
    pub(super) fn parse(der: &'a CertificateDer<'_>) -> Result<Certificate<'a>, String> {
        let fields = Fields::of(der);
        fields
            .map(Certificate)
            .map_err(|error| format!("not a certificate: {error}"))
    }

    /// The name of its holder, for texts.
    pub(super) fn subject(&self) -> String {
        self.subject_text()
            .unwrap_or_else(|_| "(unreadable name)".to_owned())
    }

    /// The name of its holder, to be compared; empty if it has none.
    fn subject_text(&self) -> der::Result<String> {
        name_text(self.0.subject)
    }

    /// Its subject, as peers compare it: see [`crate::PeerCredential::Certificate`].
    pub(super) fn compared_subject(&self) -> Result<String, String> {
        let text = self
            .subject_text()
            .map_err(|error| format!("its subject is damaged: {error}"))?;
        Ok(if text.is_empty() {
            format!("key-sha256={}", hex_sha256(&self.public_key()))
        } else if text.len() > SUBJECT_BYTES_MAX {
            format!("subject-sha256={}", hex_sha256(text.as_bytes()))
        } else {
            text
        })
    }

    /// The last moment at which it is valid, for texts.
    pub(super) fn valid_until(&self) -> String {
        self.0.not_after.to_string()
    }

    /// The same in seconds since 1970.
    pub(super) fn valid_until_unix(&self) -> u64 {
        self.0.not_after.unix_duration().as_secs()
    }

    pub(super) fn check_dates(&self, now: UnixTime) -> Result<(), DatesError> {
        if now.as_secs() < self.0.not_before.unix_duration().as_secs() {
            return Err(DatesError::NotYet(self.0.not_before.to_string()));
        }
        if now.as_secs() > self.0.not_after.unix_duration().as_secs() {
            return Err(DatesError::Expired(self.valid_until()));
        }
        Ok(())
    }

    /// Whether it is of version 1, which has no extensions. `openssl x509 -req` made such for
    /// decades.
    pub(super) fn is_version_1(&self) -> bool {
        self.0.is_version_1
    }

    /// Whether it may sign others: it says so, or is of version 1, which cannot say it.
    pub(super) fn may_sign(&self) -> bool {
        self.0.is_version_1 || self.0.is_authority
    }

    pub(super) fn public_key(&self) -> SubjectPublicKeyInfoDer<'a> {
        SubjectPublicKeyInfoDer::from(self.0.public_key)
    }

    pub(super) fn is_signed_by(
        &self,
        issuer: &Certificate<'_>,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> bool {
        let Ok((key_algorithm, key)) = key_parts(issuer.0.public_key) else {
            return false;
        };
        self.0.issuer == issuer.0.subject
            && algorithms.all.iter().any(|with| {
                with.signature_alg_id().as_ref() == self.0.algorithm
                    && with.public_key_alg_id().as_ref() == key_algorithm
                    && with
                        .verify_signature(key, self.0.signed, self.0.signature)
                        .is_ok()
            })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum DatesError {
    #[error("it expired at {0}; issue a new one (and check this machine's clock)")]
    Expired(String),
    #[error("it is valid from {0} only; check this machine's clock")]
    NotYet(String),
}

/// The parts of a certificate. Those that are compared or verified are slices of its bytes.
#[derive(Debug)]
struct Fields<'a> {
    /// The bytes that the signature covers.
    signed: &'a [u8],
    /// The signature's algorithm: the content of its identifier.
    algorithm: &'a [u8],
    signature: &'a [u8],
    /// Whether it is of version 1, the version without extensions.
    is_version_1: bool,
    issuer: &'a [u8],
    subject: &'a [u8],
    not_before: DateTime,
    not_after: DateTime,
    public_key: &'a [u8],
    /// Whether it says that it may sign others.
    is_authority: bool,
}

impl<'a> Fields<'a> {
    fn of(certificate: &'a [u8]) -> der::Result<Fields<'a>> {
        let mut outer = sequence(certificate)?;
        let signed = outer.tlv_bytes()?;
        let algorithm = AnyRef::decode(&mut outer)?.value();
        let signature = bits(&mut outer)?;
        outer.finish(())?;

        let mut inner = sequence(signed)?;
        let is_version_1 = version(&mut inner)? == 0;
        for _serial_and_algorithm in 0..2 {
            AnyRef::decode(&mut inner)?;
        }
        let issuer = inner.tlv_bytes()?;
        let mut validity = sequence(inner.tlv_bytes()?)?;
        let not_before = time(&mut validity)?;
        let not_after = time(&mut validity)?;
        let subject = inner.tlv_bytes()?;
        let public_key = inner.tlv_bytes()?;
        let mut is_authority = false;
        while !inner.is_finished() {
            let part = AnyRef::decode(&mut inner)?;
            if part.tag() == context(3) {
                is_authority = says_authority(part.value())?;
            }
        }
        Ok(Fields {
            signed,
            algorithm,
            signature,
            is_version_1,
            issuer,
            subject,
            not_before,
            not_after,
            public_key,
            is_authority,
        })
    }
}

/// A public key's algorithm (the content of its identifier) and the key's bits.
fn key_parts(public_key: &[u8]) -> der::Result<(&[u8], &[u8])> {
    let mut parts = sequence(public_key)?;
    let algorithm = AnyRef::decode(&mut parts)?.value();
    Ok((algorithm, bits(&mut parts)?))
}

/// A name as people write it, in the syntax of RFC 4514 and in the order of the certificate:
/// `CN=a,O=b`. Different names have different texts, and members compare them with stored ones, so
/// the syntax never changes.
fn name_text(name: &[u8]) -> der::Result<String> {
    let mut sets = sequence(name)?;
    let mut parts = Vec::new();
    while !sets.is_finished() {
        let set = AnyRef::decode(&mut sets)?;
        set.tag().assert_eq(Tag::Set)?;
        let mut pairs = SliceReader::new(set.value())?;
        let mut texts = Vec::new();
        while !pairs.is_finished() {
            texts.push(pair_text(sequence(pairs.tlv_bytes()?)?)?);
        }
        parts.push(texts.join("+"));
    }
    Ok(parts.join(","))
}

fn pair_text(mut pair: SliceReader<'_>) -> der::Result<String> {
    let kind = ObjectIdentifier::decode(&mut pair)?;
    let value = AnyRef::decode(&mut pair)?;
    pair.finish(())?;
    let known = NAMES.iter().find(|(oid, _)| *oid == kind);
    let kind = known.map_or_else(|| kind.to_string(), |(_, text)| (*text).to_owned());
    Ok(format!("{kind}={}", value_text(value)))
}

/// A value with the escapes of RFC 4514, section 2.4. What is not text is written in hexadecimal
/// digits, after its tag.
fn value_text(value: AnyRef<'_>) -> String {
    let is_text = matches!(
        value.tag(),
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::TeletexString
    );
    let text = std::str::from_utf8(value.value()).ok();
    let Some(text) = text.filter(|_| is_text) else {
        let bytes = value.value().iter().map(|byte| format!("{byte:02x}"));
        return format!("#{:02x}{}", value.tag().octet(), bytes.collect::<String>());
    };
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // The text goes to a log too: no line ends or control characters.
        if c.is_control() {
            let mut utf8 = [0; 4];
            for byte in c.encode_utf8(&mut utf8).bytes() {
                out.push_str(&format!("\\{byte:02x}"));
            }
            continue;
        }
        let begins_with_hash = c == '#' && out.is_empty();
        if begins_with_hash || matches!(c, ',' | '+' | '=' | '"' | '\\' | '<' | '>' | ';') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The content of a sequence that takes all of these bytes.
fn sequence(bytes: &[u8]) -> der::Result<SliceReader<'_>> {
    let any = AnyRef::from_der(bytes)?;
    any.tag().assert_eq(Tag::Sequence)?;
    SliceReader::new(any.value())
}

fn context(number: u8) -> Tag {
    Tag::ContextSpecific {
        constructed: true,
        number: TagNumber::new(number),
    }
}

fn bits<'a>(reader: &mut SliceReader<'a>) -> der::Result<&'a [u8]> {
    let bits = BitStringRef::decode(reader)?;
    bits.as_bytes().ok_or_else(|| {
        Error::from(ErrorKind::Value {
            tag: Tag::BitString,
        })
    })
}

/// The version field; it is zero, for version 1, if it is absent.
fn version(reader: &mut SliceReader<'_>) -> der::Result<u8> {
    if reader.peek_tag()? != context(0) {
        return Ok(0);
    }
    u8::from_der(AnyRef::decode(reader)?.value())
}

fn time(reader: &mut SliceReader<'_>) -> der::Result<DateTime> {
    match reader.peek_tag()? {
        Tag::UtcTime => Ok(UtcTime::decode(reader)?.to_date_time()),
        _ => Ok(GeneralizedTime::decode(reader)?.to_date_time()),
    }
}

/// Looks for the extension "basic constraints" (section 4.2.1.9) with `cA` set.
fn says_authority(extensions: &[u8]) -> der::Result<bool> {
    let mut list = sequence(extensions)?;
    while !list.is_finished() {
        let mut extension = sequence(list.tlv_bytes()?)?;
        if ObjectIdentifier::decode(&mut extension)? != BASIC_CONSTRAINTS {
            continue;
        }
        if extension.peek_tag()? == Tag::Boolean {
            AnyRef::decode(&mut extension)?;
        }
        let content = AnyRef::decode(&mut extension)?;
        content.tag().assert_eq(Tag::OctetString)?;
        let mut constraints = sequence(content.value())?;
        let says = !constraints.is_finished() && constraints.peek_tag()? == Tag::Boolean;
        return if says {
            bool::decode(&mut constraints)
        } else {
            Ok(false)
        };
    }
    Ok(false)
}

fn hex_sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
