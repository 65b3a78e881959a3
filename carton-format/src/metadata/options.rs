//! Converts runner options between TOML, in carton.toml, and JSON, in the messages to runners.

use std::collections::BTreeMap;

use serde_json::Value;

use super::MetadataError;

/// The options of a runner (`[runner.opts]`), by name, as messages to runners have them.
pub type Options = BTreeMap<String, Value>;

/// `[runner.opts]` as JSON. Values that JSON does not have become strings: dates and times in their TOML form, and `nan` and `inf`.
pub(super) fn to_json(table: toml::Table) -> Options {
    table.into_iter().map(|(key, value)| (key, value_to_json(value))).collect()
}

pub(super) fn value_to_json(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => Value::from(number),
        toml::Value::Float(number) => {
            serde_json::Number::from_f64(number).map_or_else(|| Value::String(number.to_string()), Value::Number)
        }
        toml::Value::Boolean(flag) => Value::Bool(flag),
        toml::Value::Datetime(moment) => Value::String(moment.to_string()),
        toml::Value::Array(values) => Value::Array(values.into_iter().map(value_to_json).collect()),
        toml::Value::Table(table) => Value::Object(to_json(table).into_iter().collect()),
    }
}

/// Options as a TOML table, for writing.
///
/// # Errors
/// `null` and integers above `i64::MAX` have no form in TOML.
pub(super) fn to_toml<'a>(
    options: impl IntoIterator<Item = (&'a String, &'a Value)>,
    field: &str,
) -> Result<toml::Table, MetadataError> {
    options
        .into_iter()
        .map(|(key, value)| Ok((key.clone(), value_to_toml(value, &format!("{field}.{key}"))?)))
        .collect()
}

fn value_to_toml(value: &Value, field: &str) -> Result<toml::Value, MetadataError> {
    Ok(match value {
        Value::Null => return Err(MetadataError::invalid(field, "a value that TOML can hold", "null")),
        Value::Bool(flag) => toml::Value::Boolean(*flag),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => toml::Value::Integer(integer),
            (None, Some(float)) if number.is_f64() => toml::Value::Float(float),
            _ => return Err(MetadataError::invalid(field, "a signed 64-bit integer", number)),
        },
        Value::String(text) => toml::Value::String(text.clone()),
        Value::Array(values) => toml::Value::Array(
            values
                .iter()
                .enumerate()
                .map(|(index, value)| value_to_toml(value, &format!("{field}[{index}]")))
                .collect::<Result<_, _>>()?,
        ),
        Value::Object(table) => toml::Value::Table(to_toml(table, field)?),
    })
}
