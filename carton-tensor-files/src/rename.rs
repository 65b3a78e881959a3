//! Substitutions in the names of tensors, written as those of `sed`. Pure.

use std::str::FromStr;

use regex::Regex;

/// A substitution: `s/REGEX/REPLACEMENT/` for the first place where a name matches, `s/REGEX/REPLACEMENT/g` for all. Any character that is no letter, digit,
/// white space or backslash may stand for the slashes. Inside of the expression and the replacement it has a backslash before it, which is dropped: a character that
/// is special in expressions is special there (`s|a\|b|c|` replaces `a` or `b`). In the replacement, `\1` to `\9` are the groups of the
/// expression, `&` and `\0` all that matched, `\&` and `\\` the characters. The syntax of expressions is that of the crate
/// [`regex`](https://docs.rs/regex/latest/regex/#syntax).
///
/// ```
/// use carton_tensor_files::Rename;
/// let rename: Rename = r"s/^model\.layers\.(\d+)/blk.\1/".parse()?;
/// assert_eq!(rename.apply("model.layers.7.mlp"), "blk.7.mlp");
/// assert_eq!(rename.apply("lm_head"), "lm_head");
/// # Ok::<(), carton_tensor_files::RenameError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rename {
    expression: Regex,
    replacement: Vec<Part>,
    is_global: bool,
}

/// A part of a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Group(usize),
}

/// Why a text is no [`Rename`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenameError {
    /// It has another form.
    #[error("`{0}` is no substitution, expected `s/REGEX/REPLACEMENT/` or `s/REGEX/REPLACEMENT/g`")]
    Form(String),
    /// The expression is not valid.
    #[error("the expression `{expression}` is not valid: {problem}")]
    Expression {
        /// The expression.
        expression: String,
        /// What is wrong.
        problem: String,
    },
    /// The replacement names a group that the expression lacks.
    #[error("the replacement names group {group}, and the expression has {groups}")]
    Group {
        /// The number in the replacement.
        group: usize,
        /// The number of groups.
        groups: usize,
    },
}

impl FromStr for Rename {
    type Err = RenameError;

    fn from_str(text: &str) -> Result<Self, RenameError> {
        let form = || RenameError::Form(text.to_owned());
        let mut rest = text.strip_prefix('s').ok_or_else(form)?.chars();
        let delimiter = rest.next().ok_or_else(form)?;
        if delimiter.is_alphanumeric() || delimiter.is_whitespace() || delimiter == '\\' {
            return Err(form());
        }
        let [expression, replacement, flags] = parts(rest.as_str(), delimiter).ok_or_else(form)?;
        let is_global = match flags.as_str() {
            "" => false,
            "g" => true,
            _ => return Err(form()),
        };
        let expression = Regex::new(&expression).map_err(|error| RenameError::Expression {
            // The last line of the error says what is wrong; those before it show where.
            problem: error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
            expression: expression.clone(),
        })?;
        let replacement = replaced(&replacement);
        let groups = expression.captures_len() - 1;
        for part in &replacement {
            if let Part::Group(group) = *part
                && group > groups
            {
                return Err(RenameError::Group { group, groups });
            }
        }
        Ok(Self { expression, replacement, is_global })
    }
}

/// Divides a text at two delimiters that no backslash precedes. A delimiter after a backslash loses the backslash.
fn parts(text: &str, delimiter: char) -> Option<[String; 3]> {
    let mut parts = [String::new(), String::new(), String::new()];
    let mut part = 0;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character == delimiter {
            part += 1;
        } else if character == '\\' {
            let next = characters.next()?;
            if next != delimiter {
                parts.get_mut(part)?.push('\\');
            }
            parts.get_mut(part)?.push(next);
        } else {
            parts.get_mut(part)?.push(character);
        }
    }
    (part == 2 && !parts[0].is_empty()).then_some(parts)
}

fn replaced(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let group = match character {
            '&' => Some(0),
            '\\' => match characters.next() {
                Some(digit) if digit.is_ascii_digit() => digit.to_digit(10),
                Some(escaped) => {
                    plain.push(escaped);
                    continue;
                }
                None => None,
            },
            _ => None,
        };
        match group {
            Some(group) => {
                parts.push(Part::Text(std::mem::take(&mut plain)));
                parts.push(Part::Group(group as usize));
            }
            None => plain.push(character),
        }
    }
    parts.push(Part::Text(plain));
    parts.retain(|part| *part != Part::Text(String::new()));
    parts
}

impl Rename {
    /// Returns the new name.
    #[must_use]
    pub fn apply(&self, name: &str) -> String {
        let with = |found: &regex::Captures<'_>| -> String {
            let text = |part: &'_ Part| match part {
                Part::Text(text) => text.clone(),
                Part::Group(group) => found.get(*group).map_or_else(String::new, |found| found.as_str().to_owned()),
            };
            self.replacement.iter().map(text).collect()
        };
        match self.is_global {
            true => self.expression.replace_all(name, with).into_owned(),
            false => self.expression.replace(name, with).into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    // The expected names are those of GNU sed 4.9 with `-E`.
    #[test]
    fn names_are_those_that_sed_makes() {
        let check = |rename: &str, name: &str, expected: &str| {
            assert_eq!(rename.parse::<Rename>().unwrap().apply(name), expected, "{rename} {name}");
        };
        check(r"s/^model\.//", "model.layers.0", "layers.0");
        check(r"s/^model\.//", "my.model.layers", "my.model.layers");
        check("s/a/b/", "banana", "bbnana");
        check("s/a/b/g", "banana", "bbnbnb");
        check(r"s/(\w+)\.(\w+)/\2.\1/", "a.b.c", "b.a.c");
        check(r"s|/|.|g", "a/b/c", "a.b.c");
        check(r"s/\//./g", "a/b/c", "a.b.c");
        check(r"s|a\|b|c|g", "xaby a|b", "xccy c|c");
        check(r"s.a\.b.c.g", "a.b acb", "c c");
        check(r"s/b+/[&]/", "abbc", "a[bb]c");
        check(r"s/b+/[\0\&]/", "abbc", "a[bb&]c");
        check(r"s/$/.weight/", "embed", "embed.weight");
        check(r"s/b/$1/", "abc", "a$1c");
    }

    #[test]
    fn other_texts_are_refused() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<Rename>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        };
        for text in ["", "s", "a=b", "s/a/b", "s/a/b/x", "s//b/", "sxaxbx", "s/a/b/g/", r"s/a/b\"] {
            check(text, "is no substitution");
        }
        check("s/(/b/", "the expression `(` is not valid: unclosed group");
        check(r"s/(a)/\2/", "names group 2, and the expression has 1");
    }

    const CHARACTERS: [&str; 18] =
        ["/", "|", r"\", "(", ")", "[", "]", "*", "+", ".", "&", "1", "9", "a", "b", "\n", "é", "?"];

    proptest! {
        /// A text is refused, or names are replaced by it. Names without a match stay.
        #[test]
        fn any_text_is_refused_or_replaces(
            text in prop::collection::vec(prop::sample::select(CHARACTERS.to_vec()), 0..12),
            (is_global, name) in (any::<bool>(), "[ab.é\n]{0,12}"),
        ) {
            let text = format!("s/{}/{}", text.concat(), if is_global { "g" } else { "" });
            if let Ok(rename) = text.parse::<Rename>() {
                let new = rename.apply(&name);
                prop_assert!(rename.expression.is_match(&name) || new == name, "{} {}", text, new);
            }
        }

        /// A plain text is replaced as `str::replace` replaces it, whatever the delimiter is.
        #[test]
        fn plain_texts_are_replaced(
            (old, new) in ("[a-c.|*]{1,4}", "[a-c.]{0,4}"),
            (delimiter, name) in (prop::sample::select(vec!['/', ',', '#', '@', '!']), "[a-c.|*]{0,24}"),
        ) {
            let rename = |flags| {
                let text = format!("s{delimiter}{}{delimiter}{new}{delimiter}{flags}", regex::escape(&old));
                text.parse::<Rename>().unwrap().apply(&name)
            };
            prop_assert_eq!(rename("g"), name.replace(&old, &new));
            prop_assert_eq!(rename(""), name.replacen(&old, &new, 1));
        }
    }
}
