//! JSON with the numbers that Python's `json` writes and JSON lacks: `NaN`, `Infinity` and `-Infinity`. Pure.

use std::borrow::Cow;

/// The numbers that JSON lacks, as [`mark_bare_numbers`] finds them. A number that starts like another comes first.
const BARE: [&str; 3] = ["-Infinity", "Infinity", "NaN"];

/// The only key of the object that stands for a number that JSON lacks.
pub const BARE_NUMBER: &str = "";

/// Makes text JSON that is JSON but for the numbers `NaN`, `Infinity` and `-Infinity`: each becomes an object with its name under the key
/// [`BARE_NUMBER`], which no text can be mistaken for. Other text stays as it is.
///
/// ```
/// use carton_tensor::mark_bare_numbers;
/// assert_eq!(&*mark_bare_numbers(br#"[1, NaN, "NaN"]"#), br#"[1, {"":"NaN"}, "NaN"]"#);
/// ```
#[must_use]
pub fn mark_bare_numbers(json: &[u8]) -> Cow<'_, [u8]> {
    if !json.iter().any(|byte| matches!(byte, b'N' | b'I')) {
        return Cow::Borrowed(json);
    }
    let (mut marked, mut copied) = (Vec::new(), 0);
    let (mut is_text, mut at) = (false, 0);
    while let Some(byte) = json.get(at) {
        match byte {
            b'\\' if is_text => at += 1,
            b'"' => is_text = !is_text,
            b'-' | b'I' | b'N' if !is_text => {
                let rest = &json[at..];
                if let Some(name) = BARE.into_iter().find(|name| rest.starts_with(name.as_bytes())) {
                    marked.extend_from_slice(&json[copied..at]);
                    marked.extend_from_slice(format!("{{\"{BARE_NUMBER}\":\"{name}\"}}").as_bytes());
                    at += name.len();
                    copied = at;
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    if marked.is_empty() {
        return Cow::Borrowed(json);
    }
    marked.extend_from_slice(&json[copied..]);
    Cow::Owned(marked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bare_numbers_are_marked() {
        let check = |json: &str, expected: &str| {
            assert_eq!(String::from_utf8_lossy(&mark_bare_numbers(json.as_bytes())), expected);
        };
        check("[NaN,-Infinity]", r#"[{"":"NaN"},{"":"-Infinity"}]"#);
        check("Infinity", r#"{"":"Infinity"}"#);
        check(r#"{"NaN": "\"NaN", "a": [-1, "Infinity"]}"#, r#"{"NaN": "\"NaN", "a": [-1, "Infinity"]}"#);
        check(r#"["\\", NaN]"#, r#"["\\", {"":"NaN"}]"#);
        check("\"NaN", "\"NaN");
        check("\"\\", "\"\\");
    }
}
