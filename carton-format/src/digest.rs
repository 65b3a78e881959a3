//! SHA-256 digests: the identity of every file in a carton (spec/carton-format.md, "MANIFEST").
//!
//! Pure: bytes in, digests out. The crate `sha2` does the hashing.

use std::fmt;
use std::io;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// A SHA-256 digest.
///
/// The text form is 64 lower-case hexadecimal digits, and parsing accepts nothing else: two spellings of one digest would make two
/// different MANIFESTs, and so two different cartons.
///
/// ```
/// use carton_format::digest::Sha256Digest;
///
/// let digest = Sha256Digest::of(b"");
/// assert_eq!(digest.to_string(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
/// assert_eq!(digest.to_string().parse(), Ok(digest));
/// assert!(digest.to_string().to_uppercase().parse::<Sha256Digest>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256Digest([u8; 32]);

/// Why a text is not a SHA-256 digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DigestError {
    /// The text has the wrong length.
    #[error("a SHA-256 is 64 hexadecimal digits, found {found} bytes")]
    Length {
        /// Its length in bytes.
        found: usize,
    },
    /// A character is not one of `0-9a-f`.
    #[error("a SHA-256 is written in lower-case hexadecimal digits, found `{}` at position {position}", found.escape_debug())]
    Character {
        /// The character.
        found: char,
        /// Its byte position in the text.
        position: usize,
    },
}

impl Sha256Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// A digest from its 32 bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Parses the text form from bytes that need not be UTF-8.
    ///
    /// # Errors
    /// Anything but 64 lower-case hexadecimal digits.
    pub fn from_hex(text: &[u8]) -> Result<Self, DigestError> {
        let digits: &[u8; 64] = text.try_into().map_err(|_| DigestError::Length { found: text.len() })?;
        // Without branches, so that it compiles to vector instructions: a MANIFEST may have a hundred thousand digests.
        let values = digits.map(|digit| {
            let (decimal, letter) = (digit.wrapping_sub(b'0'), digit.wrapping_sub(b'a'));
            if decimal < 10 { decimal } else { letter.wrapping_add(10) | if letter < 6 { 0 } else { 0x80 } }
        });
        if values.iter().fold(0, |all, value| all | value) & 0x80 != 0 {
            let position = values.iter().position(|value| value & 0x80 != 0).unwrap_or(0);
            // Of a longer character, only the first byte is shown: enough to see that it is not a digit.
            return Err(DigestError::Character { found: char::from(digits[position]), position });
        }
        Ok(Self(std::array::from_fn(|index| values[2 * index] << 4 | values[2 * index + 1])))
    }

    /// The text form as ASCII bytes, without an allocation.
    pub fn to_hex(&self) -> [u8; 64] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (index, byte) in self.0.iter().enumerate() {
            text[2 * index] = DIGITS[usize::from(byte >> 4)];
            text[2 * index + 1] = DIGITS[usize::from(byte & 15)];
        }
        text
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The digits are ASCII, so this never falls back to the empty string.
        formatter.pad(std::str::from_utf8(&self.to_hex()).unwrap_or_default())
    }
}

impl fmt::Debug for Sha256Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Sha256Digest({self})")
    }
}

impl FromStr for Sha256Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        Self::from_hex(text.as_bytes())
    }
}

impl serde::Serialize for Sha256Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Sha256Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Defines a type for digests that name one sort of thing, so that they are not mixed up with digests of other things. Its text and
/// JSON are those of the digest.
#[doc(hidden)]
#[macro_export]
macro_rules! digest_type {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        $visibility struct $name($crate::digest::Sha256Digest);

        impl $name {
            /// Hashes `bytes`.
            $visibility fn of(bytes: &[u8]) -> Self {
                Self($crate::digest::Sha256Digest::of(bytes))
            }

            /// The plain digest.
            $visibility const fn digest(&self) -> $crate::digest::Sha256Digest {
                self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::digest::DigestError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}

#[doc(hidden)]
pub use digest_type;

/// A running SHA-256.
///
/// ```
/// use carton_format::digest::Sha256Digest;
/// use carton_format::digest::Hasher;
///
/// let mut hasher = Hasher::new();
/// hasher.update(b"two ");
/// hasher.update(b"parts");
/// assert_eq!(hasher.finish(), Sha256Digest::of(b"two parts"));
/// ```
#[derive(Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// A hasher without any input.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.update(bytes);
        self
    }

    /// The digest of everything added.
    pub fn finish(self) -> Sha256Digest {
        Sha256Digest(self.0.finalize().into())
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Hasher")
    }
}

impl io::Write for Hasher {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.update(buffer);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Passes all bytes of a reader to `each`, in order, and returns their digest. `read_error` converts the error of a failed read.
///
/// # Errors
/// A read or `each` fails.
pub fn hash_all<E>(
    reader: &mut dyn io::Read,
    read_error: impl Fn(io::Error) -> E,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<Sha256Digest, E> {
    const CHUNK_LENGTH: usize = 256 * 1024;
    let mut hasher = Hasher::new();
    let mut chunk = vec![0; CHUNK_LENGTH];
    loop {
        match reader.read(&mut chunk) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(n_bytes) => {
                hasher.update(&chunk[..n_bytes]);
                each(&chunk[..n_bytes])?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(read_error(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_64_lower_case_hexadecimal_digits_are_a_digest() {
        let check = |text: &str, expected: Result<(), DigestError>| {
            assert_eq!(text.parse::<Sha256Digest>().map(|digest| assert_eq!(digest.to_string(), text)), expected);
        };
        let good = "0123456789abcdef".repeat(4);
        check(&good, Ok(()));
        check(&"f".repeat(64), Ok(()));
        check("", Err(DigestError::Length { found: 0 }));
        check(&good[1..], Err(DigestError::Length { found: 63 }));
        check(&format!("{good}0"), Err(DigestError::Length { found: 65 }));
        check(&good.replacen('f', "F", 1), Err(DigestError::Character { found: 'F', position: 15 }));
        check(&good.replacen('0', " ", 1), Err(DigestError::Character { found: ' ', position: 0 }));
        check(&good.replacen("01", "+1", 1), Err(DigestError::Character { found: '+', position: 0 }));
        check(&good.replacen("01", "é", 1), Err(DigestError::Character { found: 'Ã', position: 0 }));
    }

    #[test]
    fn a_digest_is_hex_in_serde() {
        let digest = Sha256Digest::of(b"abc");
        let json = serde_json::to_string(&digest).unwrap();
        assert_eq!(json, "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"");
        assert_eq!(serde_json::from_str::<Sha256Digest>(&json).unwrap(), digest);
        assert!(serde_json::from_str::<Sha256Digest>("\"BA\"").is_err());
    }
}
