//! Writes a file in canonical form (spec/ztensor2.md §8), from front to back. A tensor with the same bytes as an earlier one shares its blob.

use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom, Write};

use super::digest::{Digest, Hasher};
use super::encode::{self, WrittenObject};
use super::footer::{FOOTER, MAGIC, MAX_MANIFEST, VERSION};
use super::manifest::Manifest;
use super::{ZTensor2Error, digest, types};
use crate::files::ElementType;
use crate::ztensor::{Attributes, Name};

/// The alignment of blobs in canonical form.
const CANONICAL: u64 = 65_536;
/// The bytes that are compared at a time.
const PIECE: usize = 1 << 18;

/// Writes dense tensors to a new file. What was written is read again to compare tensors that may be the same.
///
/// ```
/// use std::io::Cursor;
/// use carton_tensor::files::{ElementType, FileBytes};
/// use carton_tensor::ztensor2::{Reader, Writer};
/// let mut writer = Writer::new(Cursor::new(Vec::new()))?;
/// writer.add_with("numbers", ElementType::Uint8, &[3], &Default::default(), |out| out.write_all(&[1, 2, 3]))?;
/// let (file, length) = writer.finish(&Default::default())?;
/// let mut bytes = file.into_inner();
/// bytes.truncate(length as usize);
/// let reader = Reader::new(FileBytes::from(bytes), "numbers.zt", None)?;
/// assert_eq!(&**reader.read(&reader.object("numbers")?, 0)?.bytes(), [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Writer<F> {
    file: F,
    /// Where the next bytes go.
    position: u64,
    /// Where the blobs with an XXH3 and a length are.
    blobs: HashMap<(Digest, u64), Vec<u64>>,
    objects: Vec<WrittenObject>,
}

/// Bytes that are hashed and counted while they are written.
struct Counted<'f, F> {
    file: &'f mut F,
    hasher: Hasher,
    length: u64,
}

impl<F: Write> Write for Counted<'_, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or_default());
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn refused(section: &'static str, name: &str, problem: impl Into<String>) -> ZTensor2Error {
    ZTensor2Error::NotWritten { section, name: Name::new(name), problem: problem.into() }
}

impl<F: Read + Write + Seek> Writer<F> {
    /// Begins a file, at the start of `file`.
    ///
    /// # Errors
    /// [`Io`](ZTensor2Error::Io).
    pub fn new(mut file: F) -> Result<Self, ZTensor2Error> {
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&MAGIC)?;
        Ok(Self { file, position: MAGIC.len() as u64, blobs: HashMap::new(), objects: Vec::new() })
    }

    /// Writes a dense tensor. `write` writes its elements, little-endian and in C order. Names must rise in the order of their bytes.
    ///
    /// # Errors
    /// [`NotWritten`](ZTensor2Error::NotWritten) for names out of order, a type that the format lacks, and another number of bytes than the shape
    /// needs; [`Io`](ZTensor2Error::Io).
    pub fn add_with(
        &mut self,
        name: &str,
        dtype: ElementType,
        shape: &[usize],
        attributes: &Attributes,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), ZTensor2Error> {
        if self.objects.last().is_some_and(|last| last.name.as_str() >= name) {
            return Err(refused("8", name, "its name does not come after that of the last tensor"));
        }
        types::spelling(dtype).ok_or_else(|| refused("3.2", name, format!("the format has no elements of {dtype}")))?;
        let count = shape.iter().try_fold(1_u64, |count, &size| count.checked_mul(size as u64));
        let too_large = || refused("2.3", name, "its size is more than 64 bits can count");
        let expected = count.and_then(|count| types::n_bytes(dtype, count)).ok_or_else(too_large)?;
        let before = self.position;
        let offset = self.pad()?;
        let mut out = Counted { file: &mut self.file, hasher: Hasher::xxh3(), length: 0 };
        write(&mut out)?;
        let (length, digest) = (out.length, out.hasher.finish());
        if length != expected {
            return Err(refused("5.1", name, format!("{length} bytes were written, expected {expected}")));
        }
        self.position = offset.saturating_add(length);
        let offset = match self.same_blob(digest, offset, length)? {
            Some(earlier) => {
                // What comes next is written over the second copy.
                self.position = before;
                self.file.seek(SeekFrom::Start(before))?;
                earlier
            }
            None => {
                self.blobs.entry((digest, length)).or_default().push(offset);
                offset
            }
        };
        self.objects.push(WrittenObject {
            name: name.to_owned(),
            dtype,
            shape: shape.to_vec(),
            attributes: attributes.clone(),
            offset,
            length,
            digest: digest.to_string(),
        });
        Ok(())
    }

    /// Writes zeros up to the place of the next blob.
    fn pad(&mut self) -> Result<u64, ZTensor2Error> {
        const ZEROS: [u8; 4096] = [0; 4096];
        let target = self.position.next_multiple_of(CANONICAL);
        let mut left = target - self.position;
        while left > 0 {
            let n_bytes = left.min(ZEROS.len() as u64);
            self.file.write_all(ZEROS.get(..n_bytes as usize).unwrap_or_default())?;
            left -= n_bytes;
        }
        self.position = target;
        Ok(target)
    }

    /// Finds an earlier blob with the same bytes as the one that was just written.
    fn same_blob(&mut self, digest: Digest, offset: u64, length: u64) -> Result<Option<u64>, ZTensor2Error> {
        let earlier = self.blobs.get(&(digest, length)).cloned().unwrap_or_default();
        for candidate in earlier {
            if self.is_same(candidate, offset, length)? {
                return Ok(Some(candidate));
            }
        }
        self.file.seek(SeekFrom::Start(self.position))?;
        Ok(None)
    }

    /// Whether two blobs have the same bytes: other bytes can have the same XXH3.
    fn is_same(&mut self, first: u64, second: u64, length: u64) -> Result<bool, ZTensor2Error> {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        let mut done = 0;
        while done < length {
            let n_bytes = (length - done).min(PIECE as u64) as usize;
            for (start, buffer) in [(first, &mut one), (second, &mut other)] {
                buffer.resize(n_bytes, 0);
                self.file.seek(SeekFrom::Start(start + done))?;
                self.file.read_exact(buffer)?;
            }
            if one != other {
                return Ok(false);
            }
            done += n_bytes as u64;
        }
        Ok(true)
    }

    /// Writes the manifest, with the attributes of the file, and the footer. Returns the file, and its length: what the file has after that must be cut
    /// off.
    ///
    /// # Errors
    /// [`NotWritten`](ZTensor2Error::NotWritten) for names and attributes that the format cannot hold; [`Io`](ZTensor2Error::Io).
    pub fn finish(mut self, attributes: &Attributes) -> Result<(F, u64), ZTensor2Error> {
        let what = "the manifest";
        let cbor = encode::manifest(attributes, &self.objects).map_err(|problem| refused("2.6", what, problem))?;
        if cbor.len() as u64 > MAX_MANIFEST {
            return Err(refused(
                "1.2",
                what,
                format!("it has {} bytes, at most {MAX_MANIFEST} are allowed", cbor.len()),
            ));
        }
        let offset = self.pad()?;
        let (length, hash) = (cbor.len() as u64, digest::xxh3(&cbor));
        self.file.write_all(&cbor)?;
        // Whatever a reader would refuse is refused here.
        let parsed = Manifest::parse(cbor, offset, offset.saturating_add(length));
        parsed.map_err(|error| refused("8", what, error.to_string()))?;
        for number in [offset, length, hash] {
            self.file.write_all(&number.to_le_bytes())?;
        }
        self.file.write_all(&VERSION.to_le_bytes())?;
        self.file.write_all(&[0; 4])?;
        self.file.write_all(&MAGIC)?;
        self.file.flush()?;
        Ok((self.file, offset.saturating_add(length).saturating_add(FOOTER as u64)))
    }
}
