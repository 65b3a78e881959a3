//! The layout of `--json`: objects are indented, lists stay on one line. Otherwise tensors would take a line per number.

use std::io::{self, Write};

use serde_json::ser::{Formatter, PrettyFormatter};

/// Lays out JSON for people and for programs.
#[derive(Default)]
pub(super) struct ReadableFormatter {
    objects: PrettyFormatter<'static>,
}

impl Formatter for ReadableFormatter {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.objects.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.objects.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.objects.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.objects.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.objects.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde::Serialize;
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_stay_on_their_line() {
        let mut text = Vec::new();
        let value = json!({"a": [[1, 2], []], "b": {}, "c": [{"d": null}, {"d": 1}]});
        value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, ReadableFormatter::default())).unwrap();
        let expected =
            "{\n  \"a\": [[1, 2], []],\n  \"b\": {},\n  \"c\": [{\n    \"d\": null\n  }, {\n    \"d\": 1\n  }]\n}";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
