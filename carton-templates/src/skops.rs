//! Reads which types a file of skops has, from its entry `schema.json`. The entry is searched as a sequence of texts, so its nesting does not
//! matter.

use std::collections::BTreeSet;

use memchr::{memchr, memchr2};

use crate::TemplateError;
use crate::candidate::Candidate;
use crate::version::Version;

/// Of `schema.json`. A forest of a thousand trees has 25 MB.
const MAX_SCHEMA: u64 = 256 << 20;
const MAX_TYPES: usize = 1000;
/// Longer texts are no names.
const MAX_NAME: usize = 512;

/// What a file of skops has.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Schema {
    /// The types and functions: modules and the names in them.
    pub(crate) types: BTreeSet<(String, String)>,
    /// The version of scikit-learn that the last estimator was made by.
    pub(crate) sklearn: Option<Version>,
    pub(crate) skops: Option<Version>,
}

/// Reads the types. `None` if this is no file of skops.
pub(crate) fn read(candidate: &Candidate) -> Result<Option<Schema>, TemplateError> {
    let Some((archive, entry)) = candidate.archive().and_then(|archive| Some((archive, archive.get("schema.json")?)))
    else {
        return Ok(None);
    };
    let malformed = |problem: String| TemplateError::Malformed {
        path: candidate.path().to_path_buf(),
        kind: "an archive of skops",
        problem,
        hint: Some("save the model again by `skops.io.dump`".to_owned()),
    };
    let text = archive
        .read(entry, MAX_SCHEMA)
        .map_err(|error| malformed(format!("its `schema.json` cannot be read: {error}")))?;
    let schema = types_of(&text);
    if schema.types.is_empty() || schema.skops.is_none() {
        // Other formats have an entry of that name.
        return Ok(None);
    }
    if schema.types.len() >= MAX_TYPES {
        return Err(malformed(format!("it has {MAX_TYPES} types or more")));
    }
    Ok(Some(schema))
}

fn types_of(text: &[u8]) -> Schema {
    let mut schema = Schema::default();
    let (mut class, mut module) = (None, None);
    let mut is_version = false;
    for_each_text(text, |key, value| {
        let Some(value) = value else {
            is_version = key == "_sklearn_version";
            return;
        };
        match key {
            "__class__" | "function" | "func" => class = Some(value.to_owned()),
            "__module__" | "module_path" => module = Some(value.to_owned()),
            "content" if is_version => {
                // A text of JSON in a text of JSON.
                let version = serde_json::from_str::<String>(value).ok();
                schema.sklearn = version.and_then(|version| Version::parse(&version)).or_else(|| schema.sklearn.take());
                is_version = false;
            }
            "_skops_version" => schema.skops = Version::parse(value),
            _ => {}
        }
        if let (Some(_), Some(_)) = (&class, &module)
            && schema.types.len() < MAX_TYPES
            && let (Some(class), Some(module)) = (class.take(), module.take())
        {
            schema.types.insert((module, class));
        }
    });
    schema
}

/// Calls `act` with each key and its value, if that is a short text.
fn for_each_text(text: &[u8], mut act: impl FnMut(&str, Option<&str>)) {
    let mut rest = text;
    let mut key: Option<String> = None;
    while let Some(start) = memchr(b'"', rest) {
        let is_value = rest[..start].iter().all(|byte| byte.is_ascii_whitespace() || *byte == b':')
            && rest[..start].contains(&b':');
        let Some(length) = length_of(&rest[start..]) else {
            return;
        };
        let (token, behind) = rest[start..].split_at(length);
        let found = if length <= MAX_NAME { serde_json::from_slice::<String>(token).ok() } else { None };
        match (is_value, key.take()) {
            (true, Some(key)) => act(&key, found.as_deref()),
            (_, without_text) => {
                if let Some(key) = without_text {
                    act(&key, None);
                }
                key = found;
            }
        }
        rest = behind;
    }
}

/// Returns the length of the text of JSON at the start, with its quotes.
fn length_of(text: &[u8]) -> Option<usize> {
    let mut place = 1;
    loop {
        place += memchr2(b'"', b'\\', text.get(place..)?)?;
        if text[place] == b'"' {
            return Some(place + 1);
        }
        place += 2;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{length_of, types_of};

    #[test]
    fn types_are_found_in_any_nesting() {
        let deep = "[".repeat(100_000);
        let text = format!(
            r#"{deep}{{"a\"__class__": 1, "__class__": "system", "__module__": "os", "__loader__": "x", "_sklearn_version":
               {{"__class__": "str", "__module__": "builtins", "content": "\"1.2.3\""}}, "_skops_version": "0.9""#
        );
        let schema = types_of(text.as_bytes());
        assert!(schema.types.contains(&("os".to_owned(), "system".to_owned())));
        assert_eq!(schema.sklearn.unwrap().to_string(), "1.2.3");
        assert_eq!(schema.skops.unwrap().to_string(), "0.9");
    }

    #[test]
    fn a_text_without_an_end_ends_the_search() {
        for text in ["\"", "\"a", "\"\\", "\"\\\"", "\"\\\\\\"] {
            assert_eq!(length_of(text.as_bytes()), None, "{text}");
        }
        assert_eq!(types_of(b"{\"__class__\": \"a\", \"__module__").types.len(), 0);
    }
}
