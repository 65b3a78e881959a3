//! Pictures and sounds that pages embed. The bytes alone decide what a file is: its name is the author's choice, and a browser that is told
//! the wrong type, or shown a picture that can hold scripts (SVG), is how a file attacks its reader.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A type of file that a page shows or plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Picture(&'static str),
    Sound(&'static str),
}

impl Media {
    /// The type of a file, by its first bytes. `None` for everything else, SVG among it.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        use Media::{Picture, Sound};
        let riff = |kind: &[u8]| bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(kind);
        Some(match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Picture("image/png"),
            [0xff, 0xd8, 0xff, ..] => Picture("image/jpeg"),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Picture("image/gif"),
            _ if riff(b"WEBP") => Picture("image/webp"),
            _ if riff(b"WAVE") => Sound("audio/wav"),
            [b'O', b'g', b'g', b'S', ..] => Sound("audio/ogg"),
            [b'f', b'L', b'a', b'C', ..] => Sound("audio/flac"),
            [b'I', b'D', b'3', ..] => Sound("audio/mpeg"),
            // The header of an MPEG frame of layer 3, of version 1, 2 or 2.5.
            [0xff, second, ..] if second & 0xe6 == 0xe2 && second & 0x18 != 0x08 => Sound("audio/mpeg"),
            _ => return None,
        })
    }

    /// The media type.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Picture(name) | Self::Sound(name) => name,
        }
    }

    /// The bytes as a URL.
    pub(crate) fn data_url(self, bytes: &[u8]) -> String {
        format!("data:{};base64,{}", self.name(), STANDARD.encode(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_decide() {
        let check = |bytes: &[u8], expected| assert_eq!(Media::of(bytes).map(Media::name), expected, "{bytes:?}");
        check(b"\x89PNG\r\n\x1a\n", Some("image/png"));
        check(b"\xff\xd8\xff\xe0", Some("image/jpeg"));
        check(b"GIF87a", Some("image/gif"));
        check(b"GIF89a<script>", Some("image/gif"));
        check(b"RIFF\0\0\0\0WEBP", Some("image/webp"));
        check(b"RIFF\0\0\0\0WAVE", Some("audio/wav"));
        check(b"OggS", Some("audio/ogg"));
        check(b"fLaC", Some("audio/flac"));
        check(b"ID3\x04", Some("audio/mpeg"));
        check(b"\xff\xfb\x90", Some("audio/mpeg"));
        check(b"", None);
        check(b"\x89PNG", None);
        check(b"GIF88a", None);
        check(b"RIFF\0\0\0\0", None);
        check(b"RIFF\0\0\0\0AVI ", None);
        check(b"<svg xmlns='http://www.w3.org/2000/svg'>", None);
        check(b"<?xml version='1.0'?><svg>", None);
        check(b"\xff\xfe<\0s\0v\0g\0", None);
        check(b"<html>", None);
        check(b"%PDF-1.7", None);
    }
}
