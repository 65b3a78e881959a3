//! JSON objects without empty members.

use serde_json::{Map, Value};

/// An object that is being made. Members whose value is empty are left out.
#[derive(Default, Clone, PartialEq)]
pub(crate) struct Object(Map<String, Value>);

impl Object {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Sets a member, unless its value is `null`, or an empty text, list or object.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        let is_empty = match &value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(values) => values.is_empty(),
            Value::Object(members) => members.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        };
        if !is_empty {
            self.0.insert(key.to_owned(), value);
        }
        self
    }

    /// Sets a member, whatever its value is.
    pub(crate) fn with_empty(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Self::Object(object.0)
    }
}
