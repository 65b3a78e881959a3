//! Quantizes matrices in groups of rows, for the quantized groups of zTensor (spec/weights.md §2.5).

use super::WeightsError;
use super::kernels::Deviation;
use super::quantization_error::QuantizationError;
use super::quantize::QuantizeOptions;
use crate::files::{ElementType, RawTensor};
use crate::parallel::{available_threads, par_map};

/// A matrix that is quantized in groups.
#[derive(Clone, Debug)]
pub struct QuantizedMatrix {
    /// The integers, of type `int8`, from -127 to 127. Their shape *[K, N]* is that of the original.
    pub integers: RawTensor,
    /// The factors for the integers, one for each group and column: of type `float32` and shape *[G, N]*. A factor is 0 if all numbers
    /// are 0, or so small that float32 has no scale for them.
    pub scales: RawTensor,
    /// The number of NaNs and infinities, which became 0.
    pub n_non_finite: u64,
    /// The error of the quantization, if it was requested.
    pub error: Option<QuantizationError>,
}

/// One quantized group.
struct Group {
    integers: Vec<i8>,
    scales: Vec<f32>,
    n_non_finite: u64,
    error: QuantizationError,
}

/// Quantizes a matrix to int8 in groups of `group_size` rows, on all cores. Each column of a group has its own scale. In addition to
/// the matrix, memory holds the integers, for a moment twice, and a row of float64 for each thread.
///
/// ```
/// use carton_tensor::files::{ElementType, RawTensor};
/// use carton_tensor::weights::{QuantizeOptions, quantize_groups};
/// let bytes: Vec<u8> = [1.0_f32, -254.0, -0.5, 127.0].into_iter().flat_map(f32::to_le_bytes).collect();
/// let matrix = RawTensor::new(ElementType::Float32, vec![2, 2], bytes.into())?;
/// let quantized = quantize_groups(&matrix, 2, &QuantizeOptions::default())?;
/// assert_eq!(quantized.integers.view::<i8>()?.as_slice(), Some([127, -127, -64, 64].as_slice()));
/// assert_eq!(quantized.scales.to_f32(), Some(vec![1.0 / 127.0, 2.0]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`WeightsError::Groups`] if the tensor is not a matrix with elements, if `group_size` is 0, or if the scale of some numbers
/// overflows float32; [`WeightsError::Complex`], [`WeightsError::Memory`].
pub fn quantize_groups(
    matrix: &RawTensor,
    group_size: usize,
    options: &QuantizeOptions,
) -> Result<QuantizedMatrix, WeightsError> {
    let refused = |problem: String| WeightsError::Groups { problem };
    let dtype = matrix.dtype();
    let &[rows, columns] = matrix.shape() else {
        return Err(refused(format!("expected a matrix, found shape {:?}", matrix.shape())));
    };
    if group_size == 0 || rows == 0 || columns == 0 {
        return Err(refused(format!(
            "expected rows and columns, found {rows} and {columns} in groups of {group_size}"
        )));
    }
    // If rows may end within a byte, the elements are widened first.
    let widened;
    let (dtype, bytes) = if (columns % 8 * dtype.bits()).is_multiple_of(8) {
        (dtype, &**matrix.bytes())
    } else {
        let wide = dtype.to_f32(matrix.bytes());
        widened = wide.ok_or(WeightsError::Complex { dtype })?;
        (ElementType::Float32, bytemuck::cast_slice(&widened))
    };
    let row_size = columns / 8 * dtype.bits() + columns % 8 * dtype.bits() / 8;
    let group_size = group_size.min(rows);
    let groups = par_map(
        rows.div_ceil(group_size),
        available_threads(),
        || (),
        |(), group| {
            let (start, end) = (group * group_size, rows.min((group + 1).saturating_mul(group_size)));
            let bytes = bytes.get(start * row_size..end * row_size).unwrap_or_default();
            quantize_group(dtype, bytes, row_size, columns, options.measure)
        },
    )?;
    let n_groups = groups.len();
    let n_bytes = (rows * columns) as u64;
    let memory = |_| WeightsError::Memory { n_bytes };
    let (mut integers, mut scales): (Vec<i8>, Vec<f32>) = (Vec::new(), Vec::new());
    integers.try_reserve_exact(rows * columns).map_err(|_| WeightsError::Memory { n_bytes })?;
    let (mut n_non_finite, mut error) = (0, QuantizationError::default());
    for group in groups {
        integers.extend(group.integers);
        scales.extend(group.scales);
        n_non_finite += group.n_non_finite;
        error = error.merge(group.error);
    }
    Ok(QuantizedMatrix {
        integers: RawTensor::new(ElementType::Int8, vec![rows, columns], integers.into()).map_err(memory)?,
        scales: RawTensor::new(ElementType::Float32, vec![n_groups, columns], scales.into()).map_err(memory)?,
        n_non_finite,
        error: options.measure.then_some(error),
    })
}

/// Quantizes the rows of a group.
fn quantize_group(
    dtype: ElementType,
    bytes: &[u8],
    row_size: usize,
    columns: usize,
    measure: bool,
) -> Result<Group, WeightsError> {
    let rows = || bytes.chunks(row_size).map(|row| dtype.to_f64(row).ok_or(WeightsError::Complex { dtype }));
    let mut largest = vec![0.0_f64; columns];
    let mut n_non_finite = 0;
    for row in rows() {
        for (largest, number) in largest.iter_mut().zip(row?) {
            let magnitude = number.abs();
            let is_finite = magnitude < f64::INFINITY;
            n_non_finite += u64::from(!is_finite);
            *largest = if is_finite && magnitude > *largest { magnitude } else { *largest };
        }
    }
    let scales: Vec<f32> = largest.iter().map(|largest| (largest / 127.0) as f32).collect();
    if let Some(column) = scales.iter().position(|scale| scale.is_infinite()) {
        let problem = format!("column {column} has numbers whose scale is beyond float32");
        return Err(WeightsError::Groups { problem });
    }
    let n_integers = bytes.len() / row_size * columns;
    let mut integers = Vec::new();
    integers.try_reserve_exact(n_integers).map_err(|_| WeightsError::Memory { n_bytes: n_integers as u64 })?;
    // Squares are summed in units of the largest number, because those of very small or large numbers are outside the range of float64.
    let largest = largest.into_iter().fold(0.0, f64::max);
    let unit = if largest > 0.0 { largest } else { 1.0 };
    let mut deviation = Deviation::default();
    for row in rows() {
        for (number, &scale) in row?.into_iter().zip(&scales) {
            // A scale of 0 means that the column has only zeros, or numbers too small for a float32 scale.
            let step = if number.is_finite() && scale > 0.0 { number / f64::from(scale) } else { 0.0 };
            let integer = step.round().clamp(-127.0, 127.0) as i8;
            integers.push(integer);
            if measure && number.is_finite() {
                // Multiplies in float32, as readers do.
                let difference = number - f64::from(scale * f32::from(integer));
                let (difference, number) = (difference / unit, number / unit);
                deviation = deviation.merge(Deviation {
                    squared_error: difference * difference,
                    squares: number * number,
                    max_absolute: difference.abs(),
                });
            }
        }
    }
    Ok(Group { integers, scales, n_non_finite, error: QuantizationError::in_units_of(unit, deviation) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn errors_are_right_where_squares_are_beyond_float64() {
        let relative = |number: f64| {
            let bytes: Vec<u8> = [number, number / 200.0].into_iter().flat_map(f64::to_le_bytes).collect();
            let matrix = RawTensor::new(ElementType::Float64, vec![2, 1], bytes.into()).unwrap();
            let error = quantize_groups(&matrix, 2, &QuantizeOptions::default().measured()).unwrap().error.unwrap();
            error.relative()
        };
        let expected = relative(1.0);
        assert!(expected > 0.0, "{expected}");
        assert!((relative(1e30) - expected).abs() < 1e-6, "{}", relative(1e30));
        assert!((relative(1e-30) - expected).abs() < 1e-6, "{}", relative(1e-30));
        // Float32 has no scale for these numbers, so they are lost.
        assert_eq!(relative(1e-200), 1.0);
        // The reciprocal of this number overflows float64.
        assert_eq!(relative(1e-310), 1.0);
    }
}
