//! The parameters of requests, inputs and outputs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::failure::{Failure, quoted};

/// The parameters of a request, an input or an output, by name.
pub(crate) type Parameters = BTreeMap<String, Parameter>;

/// A parameter. What cannot have a meaning here is not kept.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Parameter {
    Boolean(bool),
    Integer(i64),
    Text(String),
    Other,
}

/// Parameters that change what is computed, or where tensors are. Ignoring them would give a wrong answer.
const REFUSED: [&str; 7] = [
    "classification",
    "shared_memory_region",
    "shared_memory_byte_size",
    "shared_memory_offset",
    "sequence_id",
    "sequence_start",
    "sequence_end",
];

/// Refuses parameters that the server does not implement and must not ignore. Those that say "none" are accepted.
pub(crate) fn check(place: impl fmt::Display, parameters: &Parameters) -> Result<(), Failure> {
    let says_none = |value: &Parameter| match value {
        Parameter::Boolean(value) => !value,
        Parameter::Integer(value) => *value == 0,
        Parameter::Text(value) => value.is_empty(),
        Parameter::Other => false,
    };
    let refused = REFUSED.into_iter().find(|name| parameters.get(*name).is_some_and(|value| !says_none(value)));
    match refused {
        Some(name) => Err(Failure::invalid(format!("{place}: the server has no `{name}`"))),
        None => Ok(()),
    }
}

/// Refuses a request for loading a model that brings its own configuration or files: what is loaded is what the operator configured.
pub(crate) fn check_load<'a>(names: impl IntoIterator<Item = &'a String>) -> Result<(), Failure> {
    match names.into_iter().any(|name| name == "config" || name.starts_with("file:")) {
        true => Err(Failure::invalid("the server loads models as its operator configured them, and nothing else")),
        false => Ok(()),
    }
}

/// The value of a parameter that switches something.
pub(crate) fn flag(parameters: &Parameters, name: &str) -> Result<Option<bool>, Failure> {
    match parameters.get(name) {
        None => Ok(None),
        Some(Parameter::Boolean(value)) => Ok(Some(*value)),
        Some(_) => Err(Failure::invalid(format!("expected true or false as the parameter `{name}`"))),
    }
}

/// The value of a parameter that is a number of bytes.
pub(crate) fn size(parameters: &Parameters, name: &str) -> Result<Option<usize>, Failure> {
    let size = match parameters.get(name) {
        None => return Ok(None),
        Some(Parameter::Integer(value)) => usize::try_from(*value).ok(),
        Some(_) => None,
    };
    size.map(Some).ok_or_else(|| Failure::invalid(format!("expected a number of bytes as the parameter `{name}`")))
}

/// The parameter `timeout`: the microseconds that the client waits for the answer. 0 is no limit, as in Triton.
pub(crate) fn timeout(parameters: &Parameters) -> Result<Option<Duration>, Failure> {
    let microseconds = match parameters.get("timeout") {
        None => return Ok(None),
        Some(Parameter::Integer(value)) => u64::try_from(*value).ok(),
        // gRPC clients write it as text.
        Some(Parameter::Text(text)) => text.parse().ok(),
        Some(_) => None,
    };
    let invalid = || Failure::invalid("expected a number of microseconds as the parameter `timeout`");
    let microseconds = microseconds.ok_or_else(invalid)?;
    Ok((microseconds > 0).then_some(Duration::from_micros(microseconds)))
}

impl<'de> Deserialize<'de> for Parameter {
    /// By hand, because whatever is nested in a parameter is skipped, and not kept.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Value;

        impl<'de> Visitor<'de> for Value {
            type Value = Parameter;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a parameter")
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Parameter, E> {
                Ok(Parameter::Boolean(value))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Parameter, E> {
                Ok(Parameter::Integer(value))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Parameter, E> {
                Ok(i64::try_from(value).map_or(Parameter::Other, Parameter::Integer))
            }

            fn visit_f64<E: de::Error>(self, _: f64) -> Result<Parameter, E> {
                Ok(Parameter::Other)
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Parameter, E> {
                Ok(Parameter::Text(value.to_owned()))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Parameter, E> {
                Ok(Parameter::Other)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Parameter, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Parameter::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parameter, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Parameter::Other)
            }
        }

        deserializer.deserialize_any(Value)
    }
}

/// An input or an output, as messages name it. The text is written only if there is a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    kind: &'static str,
    name: &'a str,
}

impl<'a> Place<'a> {
    pub(crate) fn input(name: &'a str) -> Self {
        Self { kind: "input", name }
    }

    pub(crate) fn output(name: &'a str) -> Self {
        Self { kind: "output", name }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, quoted(self.name))
    }
}
