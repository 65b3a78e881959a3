//! compressed-tensors with packed numbers (spec/packed.md §6): LAYER.`weight_packed` with integers of any width, NVFP4 or MXFP4. What it does not pack
//! is in `scaled`.

use super::grid::{Grid, Values};
use super::tensors::Tensors;
use super::tiles::{Code, Tiles};
use super::{FP4, Layout, Logical, is_scale};
use crate::files::ElementType;

pub(super) fn describe(base: &str, tensors: &Tensors<'_>) -> Result<Logical, String> {
    let layer = base.strip_suffix("weight_packed").unwrap_or(base);
    let (dtype, shape) = tensors.need(base)?;
    let &[rows, columns] = shape else { return Err(format!("it has the shape {shape:?}, expected two dimensions")) };
    if tensors.has(&format!("{layer}weight_g_idx")) {
        return Err("its columns are in groups of their own (`weight_g_idx`), which is not dequantized".to_owned());
    }
    match dtype {
        ElementType::Int32 => integers(base, layer, rows, columns, tensors),
        ElementType::Uint8 => floats(base, layer, rows, columns, tensors),
        dtype => Err(format!("it is {dtype}, expected int32 or uint8")),
    }
}

fn integers(base: &str, layer: &str, rows: usize, words: usize, tensors: &Tensors<'_>) -> Result<Logical, String> {
    let part = |name: &str| format!("{layer}{name}");
    let columns = columns_of(&part("weight_shape"), rows, tensors)?;
    let is_width = |bits: &u32| columns.checked_mul(*bits as usize).map(|bits| bits.div_ceil(32)) == Some(words);
    let mut widths = (1..=8).filter(is_width);
    let (Some(bits), None) = (widths.next(), widths.next()) else {
        return Err(format!(
            "its shape, {rows} rows of {words} words for {columns} columns, does not say how many bits a number has"
        ));
    };
    let scale = part("weight_scale");
    let (dtype, scale_shape) = tensors.need(&scale)?;
    if !is_scale(dtype) {
        return Err(format!("its scales are {dtype}, expected float16, bfloat16 or float32"));
    }
    let scale = match *scale_shape {
        [] | [1] => Grid::new(&scale, rows, [1, 1], [rows.max(1), columns.max(1)]),
        [found, groups] if found == rows && groups > 0 && columns.is_multiple_of(groups) && columns > 0 => {
            Grid::new(&scale, rows, [rows, groups], [1, columns / groups])
        }
        _ => return Err(format!("its scales have the shape {scale_shape:?}, expected [{rows}, groups]")),
    };
    let zero_name = part("weight_zero_point");
    let zero = tensors.has(&zero_name).then(|| zero_points(&zero_name, bits, &scale, rows, tensors)).transpose()?;
    let tiles = Tiles {
        base: base.to_owned(),
        code: Code::Bits(bits),
        rows,
        columns,
        row_bytes: words.checked_mul(size_of::<u32>()).ok_or("its shape is too large")?,
        scale,
        zero,
        factor: None,
    };
    Ok(Logical {
        name: part("weight"),
        scheme: format!("compressed-tensors {bits} bit"),
        dtype,
        shape: vec![rows, columns],
        layout: Layout::Tiles(Box::new(tiles)),
    })
}

/// The number of columns, which a tensor of two integers states.
fn columns_of(name: &str, rows: usize, tensors: &Tensors<'_>) -> Result<usize, String> {
    let dtype = tensors.expect(name, &[ElementType::Int64, ElementType::Int32], &[2])?;
    let bytes = (tensors.values)(name).ok_or_else(|| format!("`{}` cannot be read", name.escape_debug()))?;
    let lengths: Vec<i64> = match dtype {
        ElementType::Int64 => bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect(),
        _ => bytes.as_chunks().0.iter().map(|bytes| i64::from(i32::from_le_bytes(*bytes))).collect(),
    };
    match *lengths.as_slice() {
        [found, columns] if usize::try_from(found) == Ok(rows) => usize::try_from(columns).ok(),
        _ => None,
    }
    .ok_or_else(|| format!("`{}` is {lengths:?}, expected [{rows}, columns]", name.escape_debug()))
}

/// Zero points of the blocks that have scales: packed along the rows for groups and channels, otherwise as they are.
fn zero_points(name: &str, bits: u32, scale: &Grid, rows: usize, tensors: &Tensors<'_>) -> Result<Grid, String> {
    let (dtype, shape) = tensors.need(name)?;
    let grid = [scale.grid_rows, scale.columns];
    let packed = rows.checked_mul(bits as usize).map(|bits| [bits.div_ceil(32), scale.columns]);
    let mut zero = Grid { part: name.to_owned(), ..scale.clone() };
    match (dtype, shape) {
        (ElementType::Int32, shape) if packed.is_some_and(|packed| shape == packed) && scale.grid_rows == rows => {
            zero.values = Values::PackedRows(bits);
            Ok(zero)
        }
        (ElementType::Int8, shape) if shape == grid || (grid == [1, 1] && matches!(shape, [] | [1])) => Ok(zero),
        _ => Err(format!("its zero points are {dtype} {shape:?}, which does not fit scales of {grid:?}")),
    }
}

/// NVFP4, whose scales have a scale of their own, or MXFP4, whose scales are powers of two.
fn floats(base: &str, layer: &str, rows: usize, n_bytes: usize, tensors: &Tensors<'_>) -> Result<Logical, String> {
    let part = |name: &str| format!("{layer}{name}");
    let (scale, global) = (part("weight_scale"), part("weight_global_scale"));
    if tensors.has(&part("weight_zero_point")) {
        return Err("its zero points are not dequantized".to_owned());
    }
    let columns = n_bytes.checked_mul(2).ok_or("its shape is too large")?;
    let (scheme, group, values) = if tensors.has(&global) {
        tensors.expect_one(&global, &[ElementType::Float32])?;
        // PyTorch promotes the scales to the type of a tensor that has dimensions, but not to that of a single number.
        let rounded = tensors.shape(&global)?.is_empty().then_some(ElementType::BFloat16);
        ("NVFP4", 16, Values::DividedBy(global, rounded))
    } else {
        ("MXFP4", 32, Values::Exponents)
    };
    let dtype = if group == 16 { ElementType::Float8E4m3Fn } else { ElementType::Uint8 };
    if !columns.is_multiple_of(group) {
        return Err(format!("it has {columns} columns, expected a multiple of {group}"));
    }
    tensors.expect(&scale, &[dtype], &[rows, columns / group])?;
    let grid = Grid::new(&scale, rows, [rows, columns / group], [1, group]);
    let tiles = Tiles {
        base: base.to_owned(),
        code: Code::LowFirst(&FP4),
        rows,
        columns,
        row_bytes: n_bytes,
        scale: Grid { values, ..grid },
        zero: None,
        factor: None,
    };
    Ok(Logical {
        name: part("weight"),
        scheme: format!("compressed-tensors {scheme}"),
        dtype: ElementType::BFloat16,
        shape: vec![rows, columns],
        layout: Layout::Tiles(Box::new(tiles)),
    })
}
