//! Taking a certificate apart (RFC 5280, section 4.1).
//!
//! Only what `webpki` does not offer: dates and names for messages, and certificates of version 1.
//! Nothing here trusts its input: every length is checked by the DER reader.

use pkcs8::ObjectIdentifier;
use pkcs8::der::asn1::{AnyRef, BitStringRef, GeneralizedTime, UtcTime};
use pkcs8::der::{
    self, DateTime, Decode, Error, ErrorKind, Reader, SliceReader, Tag, TagNumber, Tagged,
};

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

/// The parts of a certificate. Those that are compared or verified are slices of its bytes.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    /// The bytes that the signature covers.
    pub(super) signed: &'a [u8],
    /// The signature's algorithm: the content of its identifier.
    pub(super) algorithm: &'a [u8],
    pub(super) signature: &'a [u8],
    /// Whether it is of version 1, the version without extensions.
    pub(super) is_version_1: bool,
    pub(super) issuer: &'a [u8],
    pub(super) subject: &'a [u8],
    pub(super) not_before: DateTime,
    pub(super) not_after: DateTime,
    /// The public key, with its algorithm.
    pub(super) public_key: &'a [u8],
    /// Whether it says that it may sign others.
    pub(super) is_authority: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn of(certificate: &'a [u8]) -> der::Result<Fields<'a>> {
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
pub(super) fn key_parts(public_key: &[u8]) -> der::Result<(&[u8], &[u8])> {
    let mut parts = sequence(public_key)?;
    let algorithm = AnyRef::decode(&mut parts)?.value();
    Ok((algorithm, bits(&mut parts)?))
}

/// A name as people write it, in the syntax of RFC 4514 and in the order of the certificate:
/// `CN=a,O=b`. Different names have different texts, and members compare them with stored ones, so
/// the syntax never changes.
pub(super) fn name_text(name: &[u8]) -> der::Result<String> {
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

/// An attribute of a name, with its value.
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
