//! Reads a part of a tensor of a file, and little more than that.

use std::ops::{ControlFlow, Range};

use super::{ElementOrder, Entry, TensorFileError};
use crate::files::{ElementType, RawTensor, SharedBytes, Slice, byte_range};

/// The most bytes that are read at a time, where a file has the elements as they are.
const WINDOW: u64 = 1 << 20;

/// The most bytes between two pieces of a part that are read with them. Over HTTP, a request costs about as much as they do.
const GAP: u64 = 64 << 10;

/// The elements of another file that are decoded at a time.
const DECODED_AT_ONCE: usize = 1 << 18;

impl Entry<'_> {
    /// Reads a part of the tensor that [`dequantize`](Self::dequantize) returns. Of a file that has the elements as they are, only the part is read, and the
    /// gaps of up to 64 KiB between its pieces. Other tensors are decoded up to the end of the part; those whose digest is
    /// compared, and those that are in memory as a whole ([`visit`](Self::visit)), as a whole.
    ///
    /// ```
    /// use carton_tensor::any_file::TensorFile;
    /// use carton_tensor::files::{ElementType, RawTensor, Slice};
    /// use carton_tensor::safetensors::{self, Metadata};
    /// let tensor = RawTensor::new(ElementType::Uint8, vec![2, 3], vec![1_u8, 2, 3, 4, 5, 6].into())?;
    /// let mut bytes = Vec::new();
    /// safetensors::write([("a", &tensor)], &Metadata::default(), &mut bytes)?;
    /// let file = TensorFile::new(bytes, "example")?;
    /// let part = file.entry("a")?.read_slice(&Slice::parse(":, 1:", tensor.shape())?)?;
    /// assert_eq!((part.shape(), &**part.bytes()), (&[2, 2][..], &[2, 3, 5, 6][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`dequantize`](Self::dequantize); [`TensorFileError::NoTensor`] for a slice of another shape, or one that [`Slice::check`] refuses.
    pub fn read_slice(&self, slice: &Slice) -> Result<RawTensor, TensorFileError> {
        let dtype = self.dtype().or_else(|| self.is_quantized().then_some(ElementType::Float32));
        let Some(dtype) = dtype.filter(|_| !self.is_decoded_whole()) else {
            return self.dequantize()?.slice(slice).map_err(|error| self.no_tensor(&error.to_string()));
        };
        let fits = slice.check_shape(self.shape()).and_then(|()| slice.check(dtype));
        fits.map_err(|error| self.no_tensor(&error.to_string()))?;
        let mut part = Vec::new();
        match self.location().filter(|_| !self.is_verified()) {
            Some((file, range)) => {
                let failed = |source| TensorFileError::Io { place: self.place().to_owned(), source };
                let end = slice.runs().last().map_or(0, |run| byte_range(dtype, &run).end as u64);
                if end > range.end - range.start {
                    return Err(self.no_tensor("smaller than the slice"));
                }
                // The bytes that were read last, and where they are in the tensor.
                let (mut window, mut start) = (Vec::new(), 0_u64);
                // The first run that was not looked at for the end of a window.
                let mut ahead = slice.runs().map(|run| byte_range(dtype, &run)).peekable();
                for run in slice.runs() {
                    let mut bytes = byte_range(dtype, &run);
                    while !bytes.is_empty() {
                        let first = bytes.start as u64;
                        if first < start || first >= start + window.len() as u64 {
                            start = first;
                            let most = start + WINDOW;
                            let mut until = most.min(bytes.end as u64);
                            let follows = |run: &Range<usize>, until| {
                                run.start as u64 <= until + GAP && (run.start as u64) < most
                            };
                            while let Some(run) = ahead.next_if(|run| follows(run, until)) {
                                until = until.max(most.min(run.end as u64));
                            }
                            window.resize((until - start) as usize, 0);
                            file.read_into(range.start + start, &mut window).map_err(failed)?;
                        }
                        let from = (first - start) as usize;
                        let length = bytes.len().min(window.len() - from);
                        part.extend_from_slice(window.get(from..from + length).unwrap_or_default());
                        bytes.start += length;
                    }
                }
            }
            None => self.decode_slice(slice, dtype, &mut part)?,
        }
        let made = RawTensor::new(dtype, slice.shape(), SharedBytes::from(part));
        made.map_err(|error| self.no_tensor(&error.to_string()))
    }

    /// Appends the bytes of a part to `part`, from the elements as they are decoded.
    fn decode_slice(&self, slice: &Slice, dtype: ElementType, part: &mut Vec<u8>) -> Result<(), TensorFileError> {
        let mut runs = slice.runs().map(|run| byte_range(dtype, &run));
        let (mut next, mut start) = (runs.next(), 0);
        let is_verified = self.is_verified();
        self.visit_pieces(ElementOrder::C, DECODED_AT_ONCE, &mut |piece| {
            let end = start + piece.len();
            while let Some(run) = next.clone().filter(|run| run.start < end) {
                let from = run.start.max(start) - start;
                part.extend_from_slice(piece.get(from..run.end.min(end) - start).unwrap_or_default());
                if run.end > end {
                    // The rest is in the next piece.
                    break;
                }
                next = runs.next();
            }
            start = end;
            if next.is_none() && !is_verified { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::any_file::TensorFile;
    use crate::files::{FileBytes, ReadAt};
    use crate::npy::{Array, write_array};
    use crate::safetensors::{self, Metadata};
    use crate::ztensor::{Checks, DigestAlgorithm, StoreAs, Writer};

    /// Larger than what is read, and what is decoded, at a time.
    fn large() -> RawTensor {
        let bytes: Vec<u8> = (0..1000 * 1500_u32).flat_map(|number| (number % 65_521).to_le_bytes()).collect();
        let halves: Vec<u8> = bytes.chunks(4).flat_map(|number| [number[0], number[1]]).collect();
        RawTensor::new(ElementType::Uint16, vec![1000, 1500], halves.into()).unwrap()
    }

    #[test]
    fn parts_are_those_of_the_whole_tensor() {
        let tensor = large();
        let mut plain = Vec::new();
        safetensors::write([("data", &tensor)], &Metadata::default(), &mut plain).unwrap();
        let ztensor = |store_as| {
            let mut writer = Writer::new(Vec::new()).unwrap();
            writer.add("data", &tensor, store_as).unwrap();
            writer.finish().unwrap()
        };

        let mut npy = Vec::new();
        write_array(&mut npy, &Array::Numbers(tensor.clone())).unwrap();
        let verified = TensorFile::new(ztensor(StoreAs::RAW.digest(DigestAlgorithm::Sha256)), "verified.zt").unwrap();
        let files = [
            TensorFile::new(plain, "a.safetensors").unwrap(),
            TensorFile::new(ztensor(StoreAs::RAW), "raw.zt").unwrap(),
            TensorFile::new(ztensor(StoreAs::RAW.zstd(1)), "zstd.zt").unwrap(),
            verified.checking(Checks { digests: true, bools: true }),
            TensorFile::new(npy, "a.npy").unwrap(),
        ];
        for file in files {
            for text in ["", "999", "5:900:7, 3", ":, 700:1200", "::, ::1499", "-1, -1", "3:3", ":2, :"] {
                let slice = Slice::parse(text, tensor.shape()).unwrap();
                let found = file.entry("data").unwrap().read_slice(&slice).unwrap();
                assert_eq!(found, tensor.slice(&slice).unwrap(), "{} {text}", file.place());
            }
        }
    }

    /// Records the lengths of what is read.
    struct Recorded(Vec<u8>, Mutex<Vec<usize>>);

    impl ReadAt for Recorded {
        fn len(&self) -> u64 {
            self.0.len() as u64
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
            self.1.lock().unwrap().push(buffer.len());
            buffer.copy_from_slice(&self.0[offset as usize..][..buffer.len()]);
            Ok(())
        }
    }

    #[test]
    fn only_small_gaps_are_read_with_a_part() {
        let check = |shape: [usize; 2], text: &str, expected: &[usize]| {
            let numbers: Vec<u8> = (0..shape[0] * shape[1]).map(|number| (number % 251) as u8).collect();
            let tensor = RawTensor::new(ElementType::Uint8, shape.to_vec(), numbers.into()).unwrap();
            let mut bytes = Vec::new();
            safetensors::write([("data", &tensor)], &Metadata::default(), &mut bytes).unwrap();
            let recorded = Arc::new(Recorded(bytes, Mutex::default()));
            let file = TensorFile::new(FileBytes::from_reader(recorded.clone()), "a.safetensors").unwrap();
            recorded.1.lock().unwrap().clear();
            let slice = Slice::parse(text, &shape).unwrap();
            let part = file.entry("data").unwrap().read_slice(&slice).unwrap();
            assert_eq!(part, tensor.slice(&slice).unwrap(), "{text}");
            assert_eq!(*recorded.1.lock().unwrap(), expected, "{text}");
        };
        // Rows of 200 KB: each number of a column is read alone.
        check([4, 200_000], ":, 7", &[1; 4]);
        check([4, 200_000], ":, :150000", &[750_000]);
        // The gap is exactly the most that is read, and one byte more.
        check([3, 65_537], ":, 9", &[2 * 65_537 + 1]);
        check([3, 65_538], ":, 9", &[1; 3]);
        // A window ends at a run, or within a run that is longer.
        let rows = (1 << 20) / 50_000 + 1;
        check([40, 50_000], ":, 0", &[(rows - 1) * 50_000 + 1, (40 - rows - 1) * 50_000 + 1]);
        check([2, 1_500_000], "1", &[1 << 20, 1_500_000 - (1 << 20)]);
        check([2, 1_500_000], ":, :1100000", &[1 << 20, 1_100_000 - (1 << 20), 1 << 20, 1_100_000 - (1 << 20)]);
        check([2, 10], "2:", &[]);
    }

    #[test]
    fn a_slice_is_for_one_shape() {
        let tensor = large();
        let mut bytes = Vec::new();
        safetensors::write([("data", &tensor)], &Metadata::default(), &mut bytes).unwrap();
        let file = TensorFile::new(bytes, "a.safetensors").unwrap();
        let read = |slice: &Slice| file.entry("data").unwrap().read_slice(slice);
        let error = read(&Slice::parse(":, 0", &[1500, 1000]).unwrap()).unwrap_err().to_string();
        assert!(error.contains("for a tensor of the shape [1500, 1000]"), "{error}");
        let error = read(&Slice::first(3, &[1000])).unwrap_err().to_string();
        assert!(error.contains("for a tensor of 1000 elements"), "{error}");
        assert_eq!(read(&Slice::first(2, &[1500, 1000])).unwrap().bytes()[..], tensor.bytes()[..4]);
    }

    #[test]
    fn a_damaged_tensor_has_no_part() {
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.add("data", &large(), StoreAs::RAW.digest(DigestAlgorithm::Crc32c)).unwrap();
        let mut bytes = writer.finish().unwrap();
        bytes[2_000_000] ^= 1;
        let file = TensorFile::new(bytes, "a.zt").unwrap();
        let slice = Slice::parse("0", &[1000, 1500]).unwrap();
        assert!(file.entry("data").unwrap().read_slice(&slice).is_ok());
        let file = file.checking(Checks { digests: true, bools: false });
        assert!(file.entry("data").unwrap().read_slice(&slice).unwrap_err().is_malformed());
    }
}
