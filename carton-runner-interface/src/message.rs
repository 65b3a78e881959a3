//! Wire types (spec/runner-protocol.md, "Messages"). Knows no transport.
//!
//! An [`Envelope`] is the JSON part of every frame. Unknown fields are ignored everywhere; a message whose name is
//! unknown is [`Parsed::Unknown`], which the receiver answers with an error. All messages exist since version 2 unless
//! their documentation says otherwise.

use std::collections::BTreeMap;
use std::path::PathBuf;

use carton_tensor::DataType;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::{DeclaredTensor, LoadRequest, PackRequest, PackResponse, Prepared};
use crate::protocol_error::ProtocolError;

/// The JSON part of a frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Envelope {
    /// The call this message belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<u64>,
    /// Buffers of the receiver that the sender no longer uses. Takes effect after the message itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) release: Vec<Release>,
    /// The message itself.
    pub(crate) message: Message,
}

/// A buffer that is given back to its owner. It has the region and offset that the tensor named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Release {
    pub(crate) region: u64,
    pub(crate) offset: u64,
}

/// Declares the messages. The name of a message on the wire is written once, in front of its variant.
macro_rules! messages {
    ($($(#[$documentation:meta])* $name:literal => $variant:ident $fields:tt,)*) => {
        /// Every message of version 2.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub(crate) enum Message {
            $($(#[$documentation])* #[serde(rename = $name)] $variant $fields,)*
        }

        impl Message {
            const NAMES: &[&str] = &[$($name),*];

            /// The name on the wire.
            pub(crate) fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $name,)*
                }
            }
        }
    };
}

messages! {
    /// Both ways, first, once; the same in every version.
    "hello" => Hello(Hello),
    /// Host: load a model. Answered by `loaded`.
    "load" => Load(LoadRequest<WireFiles>),
    /// Runner: the model is loaded.
    "loaded" => Loaded { max_concurrency: u64 },
    /// Host: make what the model needs before it can be loaded. Answered by `prepared`.
    "prepare" => Prepare(LoadRequest<WireFiles>),
    /// Runner: what was made.
    "prepared" => Prepared(Prepared),
    /// Host: prepare a model for packing. Answered by `packed`.
    "pack" => Pack(PackRequest),
    /// Runner: what to pack.
    "packed" => Packed(PackResponse),
    /// Host: what does the loaded model state about itself. Answered by `described`.
    "describe" => Describe {},
    /// Runner: what the model states.
    "described" => Described {
        #[serde(default)]
        inputs: Vec<DeclaredTensor>,
        #[serde(default)]
        outputs: Vec<DeclaredTensor>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        optional_inputs: Vec<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        optional_outputs: Vec<String>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        descriptions: BTreeMap<String, String>,
        #[serde(default)]
        example: Vec<WireTensor>,
    },
    /// Host: run once. Answered by `inferred`.
    "infer" => Infer { inputs: Vec<WireTensor> },
    /// Runner: the outputs of `infer` or `infer_sealed`.
    "inferred" => Inferred { outputs: Vec<WireTensor> },
    /// Host: run, sending outputs as they come. Answered by any number of `stream_item` and one `stream_end`.
    "infer_stream" => InferStream { inputs: Vec<WireTensor>, credits: u32 },
    /// Runner: one item; uses up one credit.
    "stream_item" => StreamItem { outputs: Vec<WireTensor> },
    /// Runner: no more items.
    "stream_end" => StreamEnd {},
    /// Host: `n` more items may be sent.
    "credit" => Credit { n: u32 },
    /// Host: keep these inputs. Answered by `sealed`.
    "seal" => Seal { inputs: Vec<WireTensor> },
    /// Runner: the inputs are kept under this handle.
    "sealed" => Sealed { handle: u64 },
    /// Host: run on sealed inputs. Answered by `inferred`.
    "infer_sealed" => InferSealed { handle: u64 },
    /// Host: forget sealed inputs. Not answered.
    "unseal" => Unseal { handle: u64 },
    /// Host: the call of this id is no longer wanted. The call is still answered.
    "cancel" => Cancel {},
    /// Both: a new region of the sender's shared memory; one descriptor comes with it.
    "map" => Map { region: u64, size: u64 },
    /// Both: a region is gone.
    "unmap" => Unmap { region: u64 },
    /// Both: carries releases when there is no other message to send.
    "release" => Release {},
    /// Runner: a log record.
    "log" => Log { level: LogLevel, message: String },
    /// Runner: the progress of a call.
    "progress" => Progress {
        what: String,
        done: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<u64>,
    },
    /// Both: answer with `pong` and the same id.
    "ping" => Ping {},
    /// Both: the answer to `ping`.
    "pong" => Pong {},
    /// Host: end when the running calls are done.
    "shutdown" => Shutdown {},
    /// Both: a call failed (with id), or the connection is about to be closed (without).
    "error" => Error(WireError),
}

/// The versions and features of the sender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) protocol: String,
    pub(crate) versions: Vec<u32>,
    #[serde(default)]
    pub(crate) features: Vec<String>,
    /// The dtypes that the sender takes beyond those of format v1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) dtypes: Vec<String>,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) framework_version: String,
}

/// The files of a model, as `load` describes them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WireFiles {
    Directory { path: PathBuf },
    Ranges { sources: Vec<WireSource>, entries: Vec<WireEntry> },
}

/// A file that contains files of the model: the n-th descriptor of this message, or a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WireSource {
    Descriptor(u32),
    Path(PathBuf),
}

/// One file of the model inside a source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WireEntry {
    pub(crate) path: String,
    pub(crate) source: u32,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// A tensor as messages name it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WireTensor {
    /// Present at the top, absent inside a nested tensor.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    pub(crate) dtype: Kind,
    #[serde(default)]
    pub(crate) shape: Vec<u64>,
    /// Where the elements are; absent for nested tensors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Data>,
    /// The elements of a nested tensor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) inner: Vec<WireTensor>,
}

/// A dtype, or `"nested"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain(DataType),
    Nested,
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Plain(dtype) => dtype.name(),
            Self::Nested => "nested",
        })
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl serde::de::Visitor<'_> for Name {
            type Value = Kind;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a dtype or `nested`")
            }
            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Kind, E> {
                match name {
                    "nested" => Ok(Kind::Nested),
                    _ => name.parse().map(Kind::Plain).map_err(E::custom),
                }
            }
        }
        deserializer.deserialize_str(Name)
    }
}

/// Where the elements of a tensor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Data {
    /// In the bytes of the same frame.
    Inline { offset: u64, length: u64 },
    /// In shared memory.
    Shared { owner: Side, region: u64, offset: u64, length: u64 },
}

/// One of the two peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Side {
    Host,
    Runner,
}

/// The level of a log record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something may be wrong.
    Warn,
    /// Useful in normal operation.
    Info,
    /// For debugging.
    Debug,
    /// Every step.
    Trace,
}

impl Serialize for LogLevel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        })
    }
}

impl<'de> Deserialize<'de> for LogLevel {
    // Reads an unknown level of a newer peer as `info`, because a log record is never a reason to close a connection.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match String::deserialize(deserializer)?.as_str() {
            "error" => Self::Error,
            "warn" => Self::Warn,
            "debug" => Self::Debug,
            "trace" => Self::Trace,
            _ => Self::Info,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WireError {
    pub(crate) code: String,
    pub(crate) message: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) causes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

impl WireError {
    /// Creates an error without causes or a hint.
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), causes: Vec::new(), hint: None }
    }
}

/// The codes of `error` messages (spec/runner-protocol.md, "What each message says").
pub mod code {
    /// The runner or its framework reported an error.
    pub const FAILED: &str = "failed";
    /// Something that the model needs is missing on this machine and can be installed.
    pub const UNAVAILABLE: &str = "unavailable";
    /// Something that the model needs has to be downloaded, and cannot be.
    pub const NETWORK: &str = "network";
    /// Neither the model nor the runner is at fault, but something on this machine or in the request.
    pub const SETUP: &str = "setup";
    /// The model cannot be loaded before `prepare` has made what it needs, or before this process may read it.
    pub const UNPREPARED: &str = "unprepared";
    /// The code of the runner panicked in this call.
    pub const PANICKED: &str = "panicked";
    /// The call was cancelled.
    pub const CANCELLED: &str = "cancelled";
    /// A message this side does not know.
    pub const UNKNOWN_MESSAGE: &str = "unknown_message";
    /// No inputs are sealed under this handle.
    pub const UNKNOWN_HANDLE: &str = "unknown_handle";
    /// No model is loaded.
    pub const NOT_LOADED: &str = "not_loaded";
    /// A model is loaded already.
    pub const ALREADY_LOADED: &str = "already_loaded";
    /// The host sent far more calls than `max_concurrency`.
    pub const BUSY: &str = "busy";
    /// No room in shared memory came free in time.
    pub const POOL_FULL: &str = "pool_full";
    /// The outputs do not fit into a frame.
    pub const TOO_LARGE: &str = "too_large";
    /// The peer broke the protocol; the connection is closed.
    pub const PROTOCOL: &str = "protocol";
}

/// The result of parsing the JSON of a frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Parsed {
    /// A message of this version.
    Known(Envelope),
    /// A message of a newer version.
    Unknown { id: Option<u64>, release: Vec<Release>, name: String },
}

/// Parses the JSON part of a frame.
pub(crate) fn parse(json: &[u8]) -> Result<Parsed, ProtocolError> {
    // Checks all of the text, because the parser checks the encoding of only those strings that it keeps.
    let json = std::str::from_utf8(json)
        .map_err(|error| ProtocolError::Malformed { message: None, problem: error.to_string() })?;
    let error = match serde_json::from_str::<Envelope>(json) {
        Ok(envelope) => return Ok(Parsed::Known(envelope)),
        Err(error) => error,
    };
    // This version cannot read the message. The slow path finds out whether it is newer or broken.
    #[derive(Deserialize)]
    struct Outline {
        #[serde(default)]
        id: Option<u64>,
        #[serde(default)]
        release: Vec<Release>,
        #[serde(deserialize_with = "only_name")]
        message: String,
    }
    match serde_json::from_str::<Outline>(json) {
        Ok(outline) if !Message::NAMES.contains(&outline.message.as_str()) => {
            Ok(Parsed::Unknown { id: outline.id, release: outline.release, name: outline.message })
        }
        Ok(outline) => Err(ProtocolError::malformed(&outline.message, error)),
        Err(outline) => {
            let problem = if outline.is_data() { outline } else { error };
            Err(ProtocolError::Malformed { message: None, problem: problem.to_string() })
        }
    }
}

fn only_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    struct Single;
    impl<'de> serde::de::Visitor<'de> for Single {
        type Value = String;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object with one key, the name of the message")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<String, A::Error> {
            let name = map.next_key::<String>()?.ok_or_else(|| A::Error::custom("a message without a name"))?;
            map.next_value::<serde::de::IgnoredAny>()?;
            match map.next_key::<String>()? {
                None => Ok(name),
                Some(other) => {
                    Err(A::Error::custom(format_args!("two messages, `{name}` and `{other}`, in one frame")))
                }
            }
        }
    }
    deserializer.deserialize_map(Single)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::model::DeclaredTensor;

    #[test]
    fn the_specification_has_the_same_messages() {
        let specification = include_str!("../../spec/runner-protocol.md");
        // The headings of section 5 name all messages but `hello`, which has a section of its own.
        let headings = specification.lines().filter_map(|line| line.strip_prefix("### `"));
        let names = headings.flat_map(|heading| heading.split('`').step_by(2));
        let names: BTreeSet<_> = names.chain(["hello"]).collect();
        assert_eq!(names, Message::NAMES.iter().copied().collect());
    }

    #[test]
    fn the_schema_has_the_same_messages() {
        let schema: serde_json::Value =
            serde_json::from_str(include_str!("../../spec/runner-protocol.schema.json")).unwrap();
        let names: BTreeSet<_> = schema["$defs"]["messages"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, Message::NAMES.iter().copied().collect());
        let dtypes = &schema["$defs"]["tensor"]["oneOf"][0]["properties"]["dtype"]["enum"];
        let dtypes: BTreeSet<_> = dtypes.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        assert_eq!(dtypes, DataType::ALL.into_iter().map(DataType::name).collect());
    }

    #[test]
    fn messages_read_as_the_specification_writes_them() {
        fn check(json: &str, expected: Message) {
            let Parsed::Known(envelope) = parse(json.as_bytes()).unwrap() else { panic!("{json}") };
            assert_eq!(envelope.message.name(), expected.name());
            assert_eq!(envelope.message, expected);
        }
        check(r#"{"id":3,"message":{"ping":{}}}"#, Message::Ping {});
        check(r#"{"message":{"credit":{"n":4,"extra":[1]}},"x":{}}"#, Message::Credit { n: 4 });
        check(r#"{"message":{"map":{"region":1,"size":2}}}"#, Message::Map { region: 1, size: 2 });
        let tensor = WireTensor {
            name: "x".to_owned(),
            dtype: Kind::Plain(DataType::Uint8),
            shape: vec![2],
            data: Some(Data::Shared { owner: Side::Runner, region: 1, offset: 64, length: 2 }),
            inner: Vec::new(),
        };
        check(
            r#"{"message":{"infer":{"inputs":[{"name":"x","dtype":"uint8","shape":[2],
               "data":{"shared":{"owner":"runner","region":1,"offset":64,"length":2}}}]}}}"#,
            Message::Infer { inputs: vec![tensor] },
        );
    }

    #[test]
    fn declaring_nothing_is_not_declaring_an_empty_list() {
        fn check(fields: &str, expected: Option<Vec<DeclaredTensor>>) {
            let json = format!(r#"{{"id":1,"message":{{"pack":{{"path":"/m","scratch":"/s"{fields}}}}}}}"#);
            let Parsed::Known(envelope) = parse(json.as_bytes()).unwrap() else { panic!("{json}") };
            let Message::Pack(pack) = &envelope.message else { panic!("{json}") };
            assert_eq!(pack.inputs, expected);
            assert_eq!(serde_json::to_string(&envelope).unwrap(), json);
        }
        check("", None);
        check(r#","inputs":[]"#, Some(Vec::new()));
        let spec = r#"{"name":"x","dtype":"uint8","shape":["n"],"internal_name":"x:0"}"#;
        check(&format!(r#","inputs":[{spec}]"#), Some(vec![serde_json::from_str(spec).unwrap()]));
    }

    #[test]
    fn unknown_messages_are_told_from_broken_ones() {
        fn check(json: impl AsRef<[u8]>, expected: &str) {
            let found = match parse(json.as_ref()) {
                Ok(Parsed::Known(envelope)) => format!("known {}", envelope.message.name()),
                Ok(Parsed::Unknown { id, name, .. }) => format!("unknown {name} {id:?}"),
                Err(error) => error.to_string(),
            };
            assert!(found.starts_with(expected), "{}: {found}", json.as_ref().escape_ascii());
        }
        check(r#"{"id":9,"message":{"dance":{"steps":[1,2]}}}"#, "unknown dance Some(9)");
        check(r#"{"message":{"dance":null}}"#, "unknown dance None");
        check(r#"{"message":{"ping":3}}"#, "malformed message `ping`");
        check(r#"{"message":{"infer":{}}}"#, "malformed message `infer`");
        check(r#"{"message":{}}"#, "malformed message: a message without a name");
        check(r#"{"message":{"ping":{},"dance":{}}}"#, "malformed message: two messages");
        check(r#"{"message":"ping"}"#, "malformed message: ");
        check(r#"{"id":-1,"message":{"ping":{}}}"#, "malformed message: ");
        check(r#"{"id":1}"#, "malformed message: missing field `message`");
        check("[]", "malformed message: ");
        check("", "malformed message: EOF");
        check(b"{\"other\":\"\xff\",\"message\":{\"ping\":{}}}", "malformed message: invalid utf-8 sequence");
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(json in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&json);
        }

        #[test]
        fn any_change_of_a_message_is_parsed_or_refused(
            at in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>(),
        ) {
            let mut json = br#"{"id":3,"release":[{"region":1,"offset":2}],"message":{"seal":{"inputs":[{"name":"x",
                "dtype":"nested","inner":[{"dtype":"int8","shape":[1],"data":{"inline":{"offset":0,"length":1}}}]}]}}}"#
                .to_vec();
            let at = at.index(json.len());
            json[at] = byte;
            let _ = parse(&json);
            json.truncate(cut.index(json.len()));
            let _ = parse(&json);
        }
    }
}
