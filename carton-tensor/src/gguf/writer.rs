//! Writes a file in one pass: the header, and the bytes of one tensor after another (spec/gguf.md §6).

use std::io::Write;

use super::{Layout, WriteError};

/// Writes a file. Its bytes are those that `GGUFWriter` of the Python package `gguf` writes for the same metadata and tensors.
///
/// ```
/// use carton_tensor::gguf::{EncodedValue, GgmlType, Layout, Reader, Writer};
/// let metadata = vec![("general.name".to_owned(), EncodedValue::text("example"))];
/// let layout = Layout::new(metadata, [("sevens", GgmlType::I8, [2, 2].as_slice())])?;
/// let mut writer = Writer::new(Vec::new(), layout)?;
/// writer.write("sevens", &[7; 4])?;
/// let reader = Reader::new(writer.finish()?, "example")?;
/// let tensor = reader.read(reader.get("sevens")?)?;
/// assert_eq!(tensor.bytes()[..], [7; 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    layout: Layout,
    /// The tensor whose bytes are next, and how many of them were written.
    position: usize,
    done: u64,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// [`WriteError::Io`], [`WriteError::Value`].
    pub fn new(mut out: W, layout: Layout) -> Result<Self, WriteError> {
        layout.visit_header(&mut |part| Ok(out.write_all(part)?))?;
        pad(&mut out, layout.header_length(), layout.alignment)?;
        Ok(Self { out, layout, position: 0, done: 0 })
    }

    /// Writes the next bytes of a tensor. The tensors come in the order of the layout, and each is complete before the next one begins.
    ///
    /// # Errors
    /// [`WriteError::Io`], [`WriteError::Sequence`].
    pub fn write(&mut self, name: &str, bytes: &[u8]) -> Result<(), WriteError> {
        let Some((expected, n_bytes)) = self.layout.tensors.get(self.position) else {
            return Err(WriteError::Sequence { name: name.to_owned() });
        };
        let done = self.done.saturating_add(bytes.len() as u64);
        if expected != name || done > *n_bytes {
            return Err(WriteError::Sequence { name: expected.clone() });
        }
        self.out.write_all(bytes)?;
        self.done = done;
        if done == *n_bytes {
            pad(&mut self.out, done, self.layout.alignment)?;
            self.position += 1;
            self.done = 0;
        }
        Ok(())
    }

    /// Completes the file.
    ///
    /// # Errors
    /// [`WriteError::Io`]; [`WriteError::Sequence`] if bytes of a tensor are missing.
    pub fn finish(mut self) -> Result<W, WriteError> {
        if let Some((name, _)) = self.layout.tensors.get(self.position) {
            return Err(WriteError::Sequence { name: name.clone() });
        }
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Writes zeros after so many bytes, up to the alignment.
fn pad(out: &mut impl Write, n_bytes: u64, alignment: u64) -> Result<(), WriteError> {
    // Less than an alignment, which is at most 64 KiB.
    let n_zeros = n_bytes.next_multiple_of(alignment) - n_bytes;
    Ok(out.write_all(&vec![0; n_zeros as usize])?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::layout::{TensorProblem, check_tensor};
    use super::super::{EncodedValue, GgmlType, Reader};
    use super::*;

    type Pairs = Vec<(String, EncodedValue)>;

    fn layout(metadata: Pairs, shape: &[usize]) -> Result<Layout, WriteError> {
        Layout::new(metadata, [("a", GgmlType::F32, shape)])
    }

    #[test]
    fn tensors_that_ggml_refuses() {
        let check = |name: &str, of, shape: &[usize], expected: Result<u64, TensorProblem>| {
            assert_eq!(check_tensor(name, of, shape), expected, "{name} {shape:?}");
        };
        check(&"n".repeat(63), GgmlType::F32, &[], Ok(4));
        check(&"n".repeat(64), GgmlType::F32, &[], Err(TensorProblem::LongName { found: 64 }));
        check("a\0b", GgmlType::F32, &[1], Err(TensorProblem::NulInName));
        check("a", GgmlType::F16, &[1, 2, 3, 4], Ok(48));
        check("a", GgmlType::F16, &[1; 5], Err(TensorProblem::Dimensions { found: 5 }));
        check("a", GgmlType::F16, &[3, 0], Err(TensorProblem::Empty { shape: vec![3, 0] }));
        check("a", GgmlType::Q8_0, &[3, 64], Ok(6 * 34));
        check("a", GgmlType::Q8_0, &[64, 3], Err(TensorProblem::PartialBlock { of: GgmlType::Q8_0, found: 3 }));
        let shape = vec![usize::MAX / 4, 2];
        check("a", GgmlType::F64, &shape.clone(), Err(TensorProblem::Overflow { shape }));
    }

    #[test]
    fn metadata_that_is_refused() {
        let check = |pairs: &[(&str, &str)], expected: &str| {
            let pairs = pairs.iter().map(|(key, text)| ((*key).to_owned(), EncodedValue::text(text))).collect();
            let error = layout(pairs, &[1]).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&[("", "x")], "the key has 0 bytes");
        check(&[(&"k".repeat(70_000), "x")], "the key has 70000 bytes");
        check(&[("k", "x"), ("k", "y")], "two keys");
        check(&[("general.alignment", "32")], "expected a power of two of at most 65536");
        let twice = Layout::new(vec![], [("a", GgmlType::I8, [1].as_slice()), ("a", GgmlType::I8, &[1])]);
        assert!(twice.unwrap_err().to_string().contains("two tensors"));
    }

    /// Values of any type are copied from another file, and its alignment is kept.
    #[test]
    fn metadata_of_another_file_is_copied() {
        let pair = |key: &str, value: &[u8]| [&(key.len() as u64).to_le_bytes(), key.as_bytes(), value].concat();
        let words: Vec<u8> =
            (0..200_u64).flat_map(|number| [2_u64.to_le_bytes(), [number as u8; 8]].concat()[..10].to_vec()).collect();
        let words = [9_u32.to_le_bytes().as_slice(), &8_u32.to_le_bytes(), &200_u64.to_le_bytes(), &words].concat();
        let alignment = [4_u32, 64].map(u32::to_le_bytes).concat();
        let pairs = [
            pair("general.alignment", &alignment),
            pair("words", &words),
            pair("bool", &[7, 0, 0, 0, 1]),
            pair("wide", &[12, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ];
        let mut source =
            [b"GGUF\x03\0\0\0".as_slice(), &[0_u64, 4].map(u64::to_le_bytes).concat(), &pairs.concat()].concat();
        source.resize(source.len().next_multiple_of(64), 0);
        let reader = Reader::new(source.clone(), "m").unwrap();
        let metadata: Pairs = reader.encoded_metadata().map(|(key, value)| (key.to_owned(), value)).collect();
        let written = Writer::new(Vec::new(), Layout::new(metadata.clone(), []).unwrap()).unwrap().finish().unwrap();
        assert_eq!(written, source);
        let mut writer = Writer::new(Vec::new(), layout(metadata.clone(), &[3]).unwrap()).unwrap();
        writer.write("a", &[1; 12]).unwrap();
        let written = writer.finish().unwrap();
        assert_eq!(written.len() % 64, 0);
        let again = Reader::new(written, "n").unwrap();
        assert!(again.header().tensors().iter().all(|tensor| tensor.range.start % 64 == 0));
        for ((key, value), (_, other)) in metadata.iter().zip(again.encoded_metadata()) {
            assert!(value.is_same(&other).unwrap(), "{key}");
        }
        let texts = ["w0", "w1"].map(EncodedValue::text);
        assert!(!texts[0].is_same(&texts[1]).unwrap() && texts[0].is_same(&EncodedValue::text("w0")).unwrap());
    }

    #[test]
    fn tensors_are_written_as_they_were_described() {
        let begun = || Writer::new(Vec::new(), layout(vec![], &[3]).unwrap()).unwrap();
        assert!(matches!(begun().write("b", &[0; 4]), Err(WriteError::Sequence { .. })));
        assert!(matches!(begun().write("a", &[0; 16]), Err(WriteError::Sequence { .. })));
        let mut writer = begun();
        writer.write("a", &[0; 8]).unwrap();
        assert!(matches!(writer.finish(), Err(WriteError::Sequence { .. })));
    }
}
