//! Draws tensors: pixels in, PNG out (W3C PNG, RGB of 8 bits). No program's bytes are read here, so no decoder is needed.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// The colors of heat maps from the smallest to the largest value. Their brightness rises evenly, so that they can be told apart
/// without seeing hues.
const COLORS: [[f64; 3]; 5] =
    [[68.0, 1.0, 84.0], [59.0, 82.0, 139.0], [33.0, 145.0, 140.0], [94.0, 201.0, 98.0], [253.0, 231.0, 37.0]];
/// The color of what is no number.
const NO_NUMBER: [u8; 3] = [128, 128, 128];

/// The color of a value from 0 to 1.
pub(crate) fn heat(value: f64) -> [u8; 3] {
    if !value.is_finite() {
        return NO_NUMBER;
    }
    let position = value.clamp(0.0, 1.0) * (COLORS.len() - 1) as f64;
    let before = (position as usize).min(COLORS.len() - 2);
    let part = position - before as f64;
    let mix = |channel: usize| COLORS[before][channel] * (1.0 - part) + COLORS[before + 1][channel] * part;
    [mix(0), mix(1), mix(2)].map(|channel| channel.round() as u8)
}

/// Encodes rows of pixels. `None` if their number is not that of the size.
pub(crate) fn png(width: usize, height: usize, pixels: impl Iterator<Item = [u8; 3]>) -> Option<Vec<u8>> {
    let rgb: Vec<u8> = pixels.flatten().collect();
    if width == 0 || height == 0 || rgb.len() != width.checked_mul(height)?.checked_mul(3)? {
        return None;
    }
    let mut header = Vec::new();
    header.extend(u32::try_from(width).ok()?.to_be_bytes());
    header.extend(u32::try_from(height).ok()?.to_be_bytes());
    // 8 bits a channel, RGB, and the only compression, filters and order of rows that there are.
    header.extend([8, 2, 0, 0, 0]);

    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut png, *b"IHDR", &header)?;
    chunk(&mut png, *b"IDAT", &compressed(&rgb, width * 3).ok()?)?;
    chunk(&mut png, *b"IEND", &[])?;
    Some(png)
}

fn compressed(rgb: &[u8], row_length: usize) -> io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    for row in rgb.chunks(row_length) {
        // The row is not filtered.
        encoder.write_all(&[0])?;
        encoder.write_all(row)?;
    }
    encoder.finish()
}

fn chunk(png: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) -> Option<()> {
    png.extend(u32::try_from(data.len()).ok()?.to_be_bytes());
    let start = png.len();
    png.extend(kind);
    png.extend(data);
    let checksum = crc32fast::hash(&png[start..]);
    png.extend(checksum.to_be_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::media::Media;

    #[test]
    fn heat_maps_are_png() {
        let png = png(2, 1, [0.0, 1.0].into_iter().map(heat)).unwrap();
        assert_eq!(Media::of(&png), Some(Media::Picture("image/png")));
        assert!(png.ends_with(b"\0\0\0\0IEND\xae\x42\x60\x82"));
    }

    #[test]
    fn sizes_must_fit() {
        assert_eq!(png(0, 0, std::iter::empty()), None);
        assert_eq!(png(2, 2, [[0; 3]; 3].into_iter()), None);
        assert_eq!(png(usize::MAX, 2, [[0; 3]; 3].into_iter()), None);
    }

    #[test]
    fn values_have_colors() {
        assert_eq!(heat(-1.0), [68, 1, 84]);
        assert_eq!(heat(0.5), [33, 145, 140]);
        assert_eq!(heat(7.0), [253, 231, 37]);
        assert_eq!(heat(f64::NAN), NO_NUMBER);
    }
}
