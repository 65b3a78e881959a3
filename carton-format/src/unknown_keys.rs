//! Finds unknown keys in TOML files that people write, which are usually mistakes, and suggests the keys that may have been meant.
//!
//! Cartons are read without this check: there, an unknown key may belong to a later version.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::Error as NoValue;
use serde::de::{Deserializer, Error as _, Visitor};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::invalid_toml::line_at;

/// A key that has no meaning in its table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownKey {
    /// The line, counted from 1.
    pub line: usize,
    /// The table that contains it, as in `self_test[0]`; empty for the top level.
    pub table: String,
    /// The key.
    pub key: String,
    /// The most similar known key, if one is similar enough.
    pub nearest: Option<&'static str>,
}

impl fmt::Display for UnknownKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: unknown key `{}`", self.line, self.key.escape_debug())?;
        if !self.table.is_empty() {
            write!(f, " in {}", self.table)?;
        }
        match self.nearest {
            Some(nearest) => write!(f, ": did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

/// The keys that a table may have, and the nested tables that are searched too.
pub struct Known {
    keys: Vec<&'static str>,
    tables: Vec<(&'static str, Known)>,
}

impl Known {
    /// The keys of `T`, which must be a struct that serde reads.
    pub fn fields<'de, T: Deserialize<'de>>() -> Self {
        let mut keys: &'static [&'static str] = &[];
        // `Fields` provides no value: it only records the fields that `T` asks for.
        let _ = T::deserialize(Fields(&mut keys));
        Self { keys: keys.to_vec(), tables: Vec::new() }
    }

    /// These keys, for tables that no struct describes.
    pub fn keys(keys: &[&'static str]) -> Self {
        Self { keys: keys.to_vec(), tables: Vec::new() }
    }

    /// Removes a key.
    pub fn without(mut self, key: &str) -> Self {
        self.keys.retain(|known| *known != key);
        self
    }

    /// Adds a key.
    pub fn key(mut self, key: &'static str) -> Self {
        self.keys.push(key);
        self
    }

    /// Adds the known keys of the table at `key`, or of each table in the list at `key`.
    pub fn table(mut self, key: &'static str, known: Self) -> Self {
        self.tables.push((key, known));
        self
    }

    /// The unknown keys of `text`, in the order of their lines. None if the text is not TOML.
    pub fn unknown_in(&self, text: &str) -> Vec<UnknownKey> {
        let Ok(table) = DeTable::parse(text) else { return Vec::new() };
        let mut found = Vec::new();
        self.look(table.get_ref(), "", &mut |key, table, nearest| {
            found.push((key.span().start, table.to_owned(), shortened(key.get_ref()), nearest));
        });
        found.sort_by_key(|(position, ..)| *position);
        let mut line = Lines { text, position: 0, line: 1 };
        let unknown = |(position, table, key, nearest)| UnknownKey { line: line.at(position), table, key, nearest };
        found.into_iter().map(unknown).collect()
    }

    /// Returns the values of the unknown keys of a TOML file, in TOML, by their paths: `self_test[0].key`.
    pub fn values_in(&self, text: &str) -> BTreeMap<String, String> {
        let mut values = BTreeMap::new();
        if let Ok(table) = toml::from_str::<toml::Table>(text) {
            self.gather(&table, "", &mut values);
        }
        values
    }

    fn gather(&self, table: &toml::Table, place: &str, values: &mut BTreeMap<String, String>) {
        for (key, value) in table {
            let path = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
            if !self.keys.contains(&key.as_str()) {
                values.insert(path, value.to_string());
                continue;
            }
            let Some((_, known)) = self.tables.iter().find(|(known, _)| *known == key.as_str()) else { continue };
            match value {
                toml::Value::Table(table) => known.gather(table, &path, values),
                toml::Value::Array(tables) => {
                    for (index, table) in tables.iter().enumerate() {
                        if let toml::Value::Table(table) = table {
                            known.gather(table, &format!("{path}[{index}]"), values);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn look(&self, table: &DeTable<'_>, place: &str, report: &mut Report<'_>) {
        for (key, value) in table {
            let name: &str = key.get_ref();
            if !self.keys.contains(&name) {
                report(key, place, self.nearest(name));
                continue;
            }
            let Some((_, known)) = self.tables.iter().find(|(known, _)| *known == name) else { continue };
            let place = if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
            match value.get_ref() {
                DeValue::Table(table) => known.look(table, &place, report),
                DeValue::Array(tables) => {
                    for (index, table) in tables.iter().enumerate() {
                        if let DeValue::Table(table) = table.get_ref() {
                            known.look(table, &format!("{place}[{index}]"), report);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn nearest(&self, key: &str) -> Option<&'static str> {
        // The similarity that the command's argument parser demands too. Comparing costs the product of the lengths.
        const ALIKE: f64 = 0.7;
        if key.len() > 100 {
            return None;
        }
        let alike = self.keys.iter().map(|known| (strsim::jaro_winkler(&key.to_lowercase(), known), *known));
        alike
            .filter(|(how, _)| *how > ALIKE)
            .max_by(|(one, _), (other, _)| one.total_cmp(other))
            .map(|(_, known)| known)
    }
}

type Report<'a> = dyn FnMut(&Spanned<std::borrow::Cow<'_, str>>, &str, Option<&'static str>) + 'a;

/// Converts ascending byte positions to lines, in one pass over the text.
struct Lines<'text> {
    text: &'text str,
    position: usize,
    line: usize,
}

impl Lines<'_> {
    fn at(&mut self, position: usize) -> usize {
        let rest = self.text.get(self.position..).unwrap_or_default();
        self.line += line_at(rest, position.saturating_sub(self.position)) - 1;
        self.position = position;
        self.line
    }
}

/// Shortens a key for a message, because a key may be arbitrarily long.
fn shortened(key: &str) -> String {
    const LIMIT: usize = 60;
    let mut shown: String = key.chars().take(LIMIT).collect();
    if key.chars().nth(LIMIT).is_some() {
        shown.push('…');
    }
    shown
}

/// A deserializer without a value, which records the fields that a struct asks for.
struct Fields<'fields>(&'fields mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = NoValue;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, NoValue> {
        Err(NoValue::custom("nothing to read"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NoValue> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
        seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Top {
        name: Option<String>,
        #[serde(default)]
        item: Vec<Item>,
        free: Option<toml::Table>,
    }

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Item {
        inputs: String,
        expected_out: String,
    }

    fn unknown(text: &str) -> Vec<String> {
        let known = Known::fields::<Top>().key("version").table("item", Known::fields::<Item>());
        known.unknown_in(text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_not_known_is_found_with_its_line() {
        let check = |text: &str, expected: &[&str]| assert_eq!(unknown(text), expected, "{text}");
        check("version = 1\nname = 'a'\n[free]\nanything = 1\n[[item]]\ninputs = 'x'", &[]);
        check("nmae = 'a'", &["line 1: unknown key `nmae`: did you mean `name`?"]);
        check("Name = 'a'", &["line 1: unknown key `Name`: did you mean `name`?"]);
        check("\nqqq = 1\n[zz]\nname = 1", &["line 2: unknown key `qqq`", "line 3: unknown key `zz`"]);
        check(
            "[[item]]\ninputs = 'x'\n[[item]]\nexpected = {}\n[wrong]",
            &["line 4: unknown key `expected` in item[1]: did you mean `expected_out`?", "line 5: unknown key `wrong`"],
        );
        check(
            "item = [{ input = 1 }]\nitems = 1",
            &[
                "line 1: unknown key `input` in item[0]: did you mean `inputs`?",
                "line 2: unknown key `items`: did you mean `item`?",
            ],
        );
        check("item.input = 1", &["line 1: unknown key `input` in item: did you mean `inputs`?"]);
        check("item = 3", &[]);
        check("not toml", &[]);
        let long = format!("{} = 1", "n".repeat(1000));
        check(&long, &[&format!("line 1: unknown key `{}…`", "n".repeat(60))]);
        check("\"a\\u0007\" = 1", &["line 1: unknown key `a\\u{7}`"]);
    }
}
