//! Reads YAML from anyone: into values of JSON, within bounds.
//!
//! The library parses events. What YAML has and metadata does not need is refused here: anchors and aliases, by which a short text stands for a
//! huge one; tags; keys that are no scalars, or occur twice; several documents. Scalars are read by the core schema of YAML 1.2, so that `no`, the
//! language, stays a text.

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Number, Value};

use super::FrontMatterError;

/// Deeper nesting is refused.
const MAX_DEPTH: usize = 16;
/// More values are refused.
const MAX_VALUES: usize = 100_000;
/// The lines of a README before its front matter.
const LINES_BEFORE: usize = 1;

/// A list or a table that is not at its end yet.
enum Open {
    List(Vec<Value>),
    /// The table, and the key that waits for its value.
    Table(Map<String, Value>, Option<String>),
}

/// Reads one document; an empty one is `null`.
pub(super) fn parse(text: &str) -> Result<Value, FrontMatterError> {
    let mut open: Vec<Open> = Vec::new();
    let mut document = None;
    let mut n_values = 0_usize;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| FrontMatterError::Syntax {
            line: error.marker().line() + LINES_BEFORE,
            reason: error.info().to_owned(),
        })?;
        if let Some(found) = unwanted(&event) {
            return Err(refused(&span, "texts, numbers, lists and tables", found));
        }
        n_values += 1;
        if n_values > MAX_VALUES || open.len() > MAX_DEPTH {
            let expected = format!("at most {MAX_VALUES} values, nested at most {MAX_DEPTH} deep");
            return Err(refused(&span, expected, "more"));
        }
        let value = match event {
            Event::SequenceStart(..) => {
                open.push(Open::List(Vec::new()));
                continue;
            }
            Event::MappingStart(..) => {
                check_key_is_scalar(&open, &span)?;
                open.push(Open::Table(Map::new(), None));
                continue;
            }
            Event::Scalar(text, style, ..) => {
                if let Some(Open::Table(table, key @ None)) = open.last_mut() {
                    if table.contains_key(text.as_ref()) {
                        return Err(refused(&span, "a key once", &format!("`{text}` again")));
                    }
                    *key = Some(text.into_owned());
                    continue;
                }
                scalar(&text, style)
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(values)) => Value::Array(values),
                Some(Open::Table(table, _)) => Value::Object(table),
                None => continue,
            },
            Event::DocumentStart(_) if document.is_some() => return Err(refused(&span, "one document", "another")),
            _ => continue,
        };
        match open.last_mut() {
            Some(Open::List(values)) => values.push(value),
            Some(Open::Table(table, key)) => match key.take() {
                Some(key) => {
                    table.insert(key, value);
                }
                None => return Err(refused(&span, "a text as a key", "a list")),
            },
            None => document = Some(value),
        }
    }
    Ok(document.unwrap_or_default())
}

/// What an event has that is refused.
fn unwanted(event: &Event<'_>) -> Option<&'static str> {
    match event {
        Event::Alias(_) => Some("an alias"),
        Event::Scalar(_, _, anchor, tag) => unwanted_parts(*anchor, tag.is_some()),
        Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => unwanted_parts(*anchor, tag.is_some()),
        _ => None,
    }
}

fn unwanted_parts(anchor: usize, has_tag: bool) -> Option<&'static str> {
    match (anchor, has_tag) {
        (0, false) => None,
        (0, true) => Some("a tag"),
        _ => Some("an anchor"),
    }
}

fn check_key_is_scalar(open: &[Open], span: &Span) -> Result<(), FrontMatterError> {
    match open.last() {
        Some(Open::Table(_, None)) => Err(refused(span, "a text as a key", "a table")),
        _ => Ok(()),
    }
}

fn refused(span: &Span, expected: impl Into<String>, found: &str) -> FrontMatterError {
    let found: String = found.chars().take(100).map(|c| if c.is_control() { ' ' } else { c }).collect();
    FrontMatterError::Refused { line: span.start.line() + LINES_BEFORE, expected: expected.into(), found }
}

/// A scalar by the core schema. Numbers that JSON does not have (`.nan`, `0x1F`) stay texts.
fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'))
        && text.bytes().any(|byte| byte.is_ascii_digit());
    let number = is_number.then(|| match text.parse::<i64>() {
        Ok(integer) => Some(Number::from(integer)),
        Err(_) => text.parse::<f64>().ok().and_then(Number::from_f64),
    });
    number.flatten().map_or_else(|| Value::String(text.to_owned()), Value::Number)
}
