//! Reading what Go clients send as protobuf: built-in kinds only, and only inwards.
//!
//! controller-runtime writes Secrets, Events and Leases in protobuf and does not fall back to JSON when that is refused.
//! A body is the magic `k8s\0` and a `runtime.Unknown` around the object (`k8s.io/apimachinery/pkg/runtime/generated.proto`);
//! field numbers are those of the `generated.proto` of each API group.

use base64::Engine as _;
use serde_json::{Map, Value};

/// A body that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadProtobuf {
    /// It is not a Kubernetes protobuf body.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Magic,
    /// It ends early or holds what protobuf does not.
    #[error("unexpected EOF or malformed field")]
    Malformed,
    /// It is of a kind that is not known here.
    #[error("no kind {0:?} is registered for protobuf")]
    Kind(String),
}

/// How a field's value becomes JSON.
#[derive(Clone, Copy)]
enum As {
    Text,
    Number,
    /// Zero means absent.
    Counter,
    Flag,
    /// Base64.
    Bytes,
    /// Whole seconds, or microseconds.
    Time,
    MicroTime,
    Message(&'static [Field]),
    /// A map from texts to texts.
    Texts,
    /// A map from texts to bytes.
    Blobs,
    ListOfTexts,
    ListOf(&'static [Field]),
}

type Field = (u64, &'static str, As);

const OWNER: &[Field] = &[
    (1, "kind", As::Text),
    (3, "name", As::Text),
    (4, "uid", As::Text),
    (5, "apiVersion", As::Text),
    (6, "controller", As::Flag),
    (7, "blockOwnerDeletion", As::Flag),
];

const METADATA: &[Field] = &[
    (1, "name", As::Text),
    (2, "generateName", As::Text),
    (3, "namespace", As::Text),
    (5, "uid", As::Text),
    (6, "resourceVersion", As::Text),
    (7, "generation", As::Counter),
    (8, "creationTimestamp", As::Time),
    (9, "deletionTimestamp", As::Time),
    (10, "deletionGracePeriodSeconds", As::Number),
    (11, "labels", As::Texts),
    (12, "annotations", As::Texts),
    (13, "ownerReferences", As::ListOf(OWNER)),
    (14, "finalizers", As::ListOfTexts),
];

const SECRET: &[Field] = &[
    (1, "metadata", As::Message(METADATA)),
    (2, "data", As::Blobs),
    (3, "type", As::Text),
    (4, "stringData", As::Texts),
    (5, "immutable", As::Flag),
];

const CONFIG_MAP: &[Field] = &[
    (1, "metadata", As::Message(METADATA)),
    (2, "data", As::Texts),
    (3, "binaryData", As::Blobs),
    (4, "immutable", As::Flag),
];

const NAMESPACE: &[Field] = &[
    (1, "metadata", As::Message(METADATA)),
    (2, "spec", As::Message(&[(1, "finalizers", As::ListOfTexts)])),
    (3, "status", As::Message(&[(1, "phase", As::Text)])),
];

const REFERENCE: &[Field] = &[
    (1, "kind", As::Text),
    (2, "namespace", As::Text),
    (3, "name", As::Text),
    (4, "uid", As::Text),
    (5, "apiVersion", As::Text),
    (6, "resourceVersion", As::Text),
    (7, "fieldPath", As::Text),
];

const SOURCE: &[Field] = &[(1, "component", As::Text), (2, "host", As::Text)];

const SERIES: &[Field] = &[(1, "count", As::Number), (2, "lastObservedTime", As::MicroTime)];

const EVENT: &[Field] = &[
    (1, "metadata", As::Message(METADATA)),
    (2, "involvedObject", As::Message(REFERENCE)),
    (3, "reason", As::Text),
    (4, "message", As::Text),
    (5, "source", As::Message(SOURCE)),
    (6, "firstTimestamp", As::Time),
    (7, "lastTimestamp", As::Time),
    (8, "count", As::Counter),
    (9, "type", As::Text),
    (10, "eventTime", As::MicroTime),
    (11, "series", As::Message(SERIES)),
    (12, "action", As::Text),
    (13, "related", As::Message(REFERENCE)),
    (14, "reportingComponent", As::Text),
    (15, "reportingInstance", As::Text),
];

const NEW_EVENT: &[Field] = &[
    (1, "metadata", As::Message(METADATA)),
    (2, "eventTime", As::MicroTime),
    (3, "series", As::Message(SERIES)),
    (4, "reportingController", As::Text),
    (5, "reportingInstance", As::Text),
    (6, "action", As::Text),
    (7, "reason", As::Text),
    (8, "regarding", As::Message(REFERENCE)),
    (9, "related", As::Message(REFERENCE)),
    (10, "note", As::Text),
    (11, "type", As::Text),
    (12, "deprecatedSource", As::Message(SOURCE)),
    (13, "deprecatedFirstTimestamp", As::Time),
    (14, "deprecatedLastTimestamp", As::Time),
    (15, "deprecatedCount", As::Counter),
];

const LEASE: &[Field] = &[
    (1, "metadata", As::Message(METADATA)),
    (
        2,
        "spec",
        As::Message(&[
            (1, "holderIdentity", As::Text),
            (2, "leaseDurationSeconds", As::Number),
            (3, "acquireTime", As::MicroTime),
            (4, "renewTime", As::MicroTime),
            (5, "leaseTransitions", As::Number),
        ]),
    ),
];

const DELETE_OPTIONS: &[Field] = &[
    (1, "gracePeriodSeconds", As::Number),
    (2, "preconditions", As::Message(&[(1, "uid", As::Text), (2, "resourceVersion", As::Text)])),
    (3, "orphanDependents", As::Flag),
    (4, "propagationPolicy", As::Text),
];

/// `runtime.Unknown`: the raw object is read a second time, by its kind.
const UNKNOWN: &[Field] = &[
    (1, "typeMeta", As::Message(&[(1, "apiVersion", As::Text), (2, "kind", As::Text)])),
    (2, "raw", As::Bytes),
];

/// The object in a body, as the JSON that it stands for.
pub(crate) fn decode(body: &[u8]) -> Result<Value, BadProtobuf> {
    let inner = body.strip_prefix(b"k8s\0").ok_or(BadProtobuf::Magic)?;
    let unknown = message(inner, UNKNOWN)?;
    let text = |key: &str| crate::object::text(&unknown, &["typeMeta", key]).to_owned();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let fields = match (version.as_str(), kind.as_str()) {
        ("v1", "Secret") => SECRET,
        ("v1", "ConfigMap") => CONFIG_MAP,
        ("v1", "Namespace") => NAMESPACE,
        ("v1", "Event") => EVENT,
        ("events.k8s.io/v1", "Event") => NEW_EVENT,
        ("coordination.k8s.io/v1", "Lease") => LEASE,
        (_, "DeleteOptions") => DELETE_OPTIONS,
        _ => return Err(BadProtobuf::Kind(format!("{kind} in {version}"))),
    };
    let raw = base64::prelude::BASE64_STANDARD
        .decode(crate::object::text(&unknown, &["raw"]))
        .map_err(|_| BadProtobuf::Malformed)?;
    let mut object = message(&raw, fields)?;
    let members = crate::object::as_members(&mut object);
    members.insert("apiVersion".into(), version.into());
    members.insert("kind".into(), kind.into());
    Ok(object)
}

/// One field of a message on the wire.
enum Wire<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
}

fn message(mut bytes: &[u8], fields: &[Field]) -> Result<Value, BadProtobuf> {
    let mut members = Map::new();
    while !bytes.is_empty() {
        let (number, wire) = field(&mut bytes)?;
        let Some((_, name, kind)) = fields.iter().find(|(known, ..)| *known == number) else { continue };
        add(&mut members, name, *kind, &wire)?;
    }
    Ok(Value::Object(members))
}

fn add(members: &mut Map<String, Value>, name: &str, kind: As, wire: &Wire<'_>) -> Result<(), BadProtobuf> {
    let bytes = || match wire {
        Wire::Bytes(bytes) => Ok(*bytes),
        Wire::Varint(_) => Err(BadProtobuf::Malformed),
    };
    let number = || match wire {
        Wire::Varint(number) => Ok(number.cast_signed()),
        Wire::Bytes(_) => Err(BadProtobuf::Malformed),
    };
    let value = match kind {
        // Go writes empty texts too; JSON leaves them out.
        As::Text => match text(bytes()?)? {
            empty if empty.is_empty() => return Ok(()),
            full => full.into(),
        },
        As::Number => number()?.into(),
        As::Counter => match number()? {
            0 => return Ok(()),
            some => some.into(),
        },
        As::Flag => (number()? != 0).into(),
        As::Bytes => base64::prelude::BASE64_STANDARD.encode(bytes()?).into(),
        As::Time | As::MicroTime => match time(bytes()?, matches!(kind, As::MicroTime))? {
            None => return Ok(()),
            Some(time) => time,
        },
        As::Message(fields) => message(bytes()?, fields)?,
        As::Texts | As::Blobs => {
            let inner = if matches!(kind, As::Texts) { As::Text } else { As::Bytes };
            let mut entry = Map::new();
            let mut rest = bytes()?;
            let mut key = String::new();
            while !rest.is_empty() {
                match field(&mut rest)? {
                    (1, Wire::Bytes(bytes)) => key = text(bytes)?,
                    (2, wire) => add(&mut entry, "value", inner, &wire)?,
                    _ => {}
                }
            }
            let value = entry.remove("value").unwrap_or_else(|| "".into());
            let map = members.entry(name).or_insert_with(|| Value::Object(Map::new()));
            crate::object::as_members(map).insert(key, value);
            return Ok(());
        }
        As::ListOfTexts | As::ListOf(_) => {
            let entry = match kind {
                As::ListOf(fields) => message(bytes()?, fields)?,
                _ => text(bytes()?)?.into(),
            };
            if let Value::Array(list) = members.entry(name).or_insert_with(|| Value::Array(Vec::new())) {
                list.push(entry);
            }
            return Ok(());
        }
    };
    members.insert(name.to_owned(), value);
    Ok(())
}

fn text(bytes: &[u8]) -> Result<String, BadProtobuf> {
    String::from_utf8(bytes.to_vec()).map_err(|_| BadProtobuf::Malformed)
}

/// A timestamp; an empty one is no time at all.
fn time(mut bytes: &[u8], fractions: bool) -> Result<Option<Value>, BadProtobuf> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let (mut seconds, mut nanos) = (0, 0);
    while !bytes.is_empty() {
        match field(&mut bytes)? {
            (1, Wire::Varint(number)) => seconds = number.cast_signed(),
            (2, Wire::Varint(number)) => nanos = i32::try_from(number.cast_signed()).unwrap_or_default(),
            _ => {}
        }
    }
    let at = jiff::Timestamp::new(seconds, nanos).map_err(|_| BadProtobuf::Malformed)?;
    Ok(Some(if fractions {
        at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string().into()
    } else {
        crate::object::time(at)
    }))
}

fn field<'a>(bytes: &mut &'a [u8]) -> Result<(u64, Wire<'a>), BadProtobuf> {
    let tag = varint(bytes)?;
    let wire = match tag & 7 {
        0 => Wire::Varint(varint(bytes)?),
        1 => Wire::Bytes(take(bytes, 8)?),
        2 => {
            let length = usize::try_from(varint(bytes)?).map_err(|_| BadProtobuf::Malformed)?;
            Wire::Bytes(take(bytes, length)?)
        }
        5 => Wire::Bytes(take(bytes, 4)?),
        _ => return Err(BadProtobuf::Malformed),
    };
    Ok((tag >> 3, wire))
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], BadProtobuf> {
    let (taken, rest) = bytes.split_at_checked(length).ok_or(BadProtobuf::Malformed)?;
    *bytes = rest;
    Ok(taken)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, BadProtobuf> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(BadProtobuf::Malformed)?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(BadProtobuf::Malformed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A length-delimited field.
    fn part(number: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u8::try_from(bytes.len()).expect("a short test value");
        [&[number << 3 | 2, length][..], bytes].concat()
    }

    fn body(version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [part(1, version.as_bytes()), part(2, kind.as_bytes())].concat();
        [b"k8s\0".to_vec(), part(1, &type_meta), part(2, raw), part(3, b""), part(4, b"")].concat()
    }

    #[test]
    fn a_secret_reads_as_its_json() {
        let owner = [part(1, b"BareMetalHost"), part(3, b"h"), part(4, b"u"), part(5, b"metal3.io/v1alpha1")]
            .concat();
        let metadata = [
            part(1, b"s"),
            part(2, b""),
            vec![7 << 3, 0],
            part(8, &[1 << 3, 60]),
            part(11, &[part(1, b"a"), part(2, b"b")].concat()),
            part(13, &owner),
            part(14, b"f1"),
            part(14, b"f2"),
        ]
        .concat();
        let raw =
            [part(1, &metadata), part(2, &[part(1, b"k"), part(2, b"v\xff")].concat()), part(3, b"Opaque")];
        let read = decode(&body("v1", "Secret", &raw.concat())).expect("a secret");
        assert_eq!(
            read,
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": { "k": "dv8=" },
                "metadata": {
                    "name": "s", "creationTimestamp": "1970-01-01T00:01:00Z", "labels": { "a": "b" },
                    "finalizers": ["f1", "f2"],
                    "ownerReferences": [
                        { "kind": "BareMetalHost", "name": "h", "uid": "u", "apiVersion": "metal3.io/v1alpha1" },
                    ],
                },
            })
        );
    }

    #[test]
    fn broken_bodies_are_refused_without_a_panic() {
        let good = body("v1", "Secret", &part(1, &part(1, b"s")));
        for end in 0..good.len() {
            // A cut may fall between two fields; then what is there is read.
            let _ = decode(&good[..end]);
        }
        assert_eq!(decode(b"{}"), Err(BadProtobuf::Magic));
        assert_eq!(decode(b"k8s\0\x0a\x7f"), Err(BadProtobuf::Malformed));
        assert_eq!(decode(&body("v1", "Pod", b"")), Err(BadProtobuf::Kind("Pod in v1".into())));
    }
}
