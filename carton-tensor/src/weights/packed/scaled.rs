//! Numbers of 8 bits, FP8 or int8, with a scale for the tensor, for each row, or for each block; and NVFP4 as ModelOpt stores it (spec/packed.md §7, §9).

use super::grid::{Grid, Values};
use super::tensors::Tensors;
use super::tiles::{Code, Tiles};
use super::{Layout, Logical, is_scale};
use crate::element_count;
use crate::files::ElementType;

/// Scales of the inputs of a layer by which its weight was multiplied.
const OF_INPUTS: [&str; 2] = ["smooth_scale", "pre_quant_scale"];
/// The blocks of DeepSeek's checkpoints.
const BLOCK: [usize; 2] = [128, 128];

/// The numbers of floats of 4 bits as ModelOpt has them: both zeros are positive.
const NVFP4: [f32; 16] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// Describes a tensor with scales. `None` if it is one of this library, whose scales are divided by (spec/weights.md §2.3).
pub(super) fn describe(base: &str, tensors: &Tensors<'_>) -> Option<Result<Logical, String>> {
    let (dtype, _) = tensors.need(base).ok()?;
    let own = format!("{base}{}", super::super::SCALE_SUFFIX);
    if dtype == ElementType::Int8 && tensors.has(&own) {
        return None;
    }
    Some(match dtype {
        ElementType::Uint8 => nvfp4(base, tensors),
        _ => bytes(base, dtype, tensors),
    })
}

/// Refuses what changes the inputs of the layer as well.
fn expect_plain(base: &str, tensors: &Tensors<'_>) -> Result<(), String> {
    let layer = base.rfind('.').map_or("", |dot| &base[..=dot]);
    match OF_INPUTS.into_iter().find(|part| tensors.has(&format!("{layer}{part}"))) {
        Some(part) => Err(format!("its inputs are scaled as well (`{part}`)")),
        None => Ok(()),
    }
}

fn bytes(base: &str, dtype: ElementType, tensors: &Tensors<'_>) -> Result<Logical, String> {
    use ElementType::{Float8E4m3Fn, Float8E5m2, Float8E8m0Fnu, Int8, Uint8};
    expect_plain(base, tensors)?;
    let shape = tensors.shape(base)?;
    let (inverse, plain) = (format!("{base}_scale_inv"), format!("{base}_scale"));
    let (scale, is_inverse) = match (tensors.has(&inverse), tensors.has(&plain)) {
        (true, false) => (inverse, true),
        (false, true) => (plain, false),
        (true, true) => return Err("it has two kinds of scales".to_owned()),
        (false, false) => return Err("its scales have names of no scheme that is dequantized".to_owned()),
    };
    if ["_global_scale", "_scale_2"].into_iter().any(|part| tensors.has(&format!("{base}{part}"))) {
        return Err("its scales have scales of their own, which are only those of NVFP4".to_owned());
    }
    let code = match dtype {
        Float8E4m3Fn | Float8E5m2 => dtype.small_float_values().map(Code::Table),
        // With this name of scales, some libraries store two floats of 4 bits in what they call int8.
        Int8 if !is_inverse => Some(Code::Int8),
        _ => None,
    };
    let code =
        code.ok_or_else(|| format!("{dtype} with scales called `{}` is not dequantized", scale.escape_debug()))?;
    let (scale_dtype, scale_shape) = tensors.need(&scale)?;
    let block = tensors.config.and_then(|config| config.block()).or(is_inverse.then_some(BLOCK));
    let mut grid = grid(&scale, shape, scale_shape, block)?;
    let is_compressed = tensors.method() == Some("compressed-tensors");
    let is_modelopt = tensors.method() == Some("modelopt");
    let result = match scale_dtype {
        Uint8 | Float8E8m0Fnu if dtype != Int8 => {
            if scale_dtype == Uint8 {
                grid.values = Values::Exponents;
            }
            tensors.model_dtype().filter(|_| !is_compressed).unwrap_or(ElementType::BFloat16)
        }
        ElementType::Float32 if !is_compressed => {
            let model = tensors.model_dtype().unwrap_or(ElementType::Float32);
            if is_modelopt {
                grid.values = Values::Rounded(model);
            }
            model
        }
        scale_dtype if is_scale(scale_dtype) => scale_dtype,
        scale_dtype => return Err(format!("its scales are {scale_dtype}, expected float16, bfloat16 or float32")),
    };
    let zero_name = format!("{base}_zero_point");
    let zero = match tensors.has(&zero_name) {
        true if dtype == Int8 => {
            tensors.expect(&zero_name, &[Int8], scale_shape)?;
            Some(Grid { part: zero_name, ..grid.clone() })
        }
        true => return Err("zero points of floats are not dequantized".to_owned()),
        false => None,
    };
    let (rows, columns) = matrix(shape)?;
    let tiles =
        Tiles { base: base.to_owned(), code, rows, columns, row_bytes: columns, scale: grid, zero, factor: None };
    let scheme = if dtype == Int8 { "int8" } else { "FP8" };
    let layout = Layout::Tiles(Box::new(tiles));
    Ok(Logical { name: base.to_owned(), scheme: scheme.to_owned(), dtype: result, shape: shape.to_vec(), layout })
}

/// The rows of all matrices, and their columns.
fn matrix(shape: &[usize]) -> Result<(usize, usize), String> {
    match shape {
        [leading @ .., columns] if !leading.is_empty() => {
            Ok((element_count(leading).ok_or("its shape is too large")?, *columns))
        }
        _ => Err(format!("it has the shape {shape:?}, expected two dimensions or more")),
    }
}

/// Says which part of a matrix has one scale, by the shape of the scales.
fn grid(part: &str, shape: &[usize], scales: &[usize], block: Option<[usize; 2]>) -> Result<Grid, String> {
    let (all_rows, _) = matrix(shape)?;
    let misfit = || format!("its scales have the shape {scales:?}, which does not fit a tensor of {shape:?}");
    let [leading @ .., rows, columns] = shape else { return Err(misfit()) };
    let (rows, columns) = (*rows, *columns);
    if element_count(scales) == Some(1) {
        return Ok(Grid::new(part, all_rows, [1, 1], [all_rows.max(1), columns.max(1)]));
    }
    if rows == 0 || columns == 0 {
        return Err(misfit());
    }
    let (found_rows, found_columns) = match scales {
        [found] if leading.is_empty() && *found == rows => (rows, 1),
        [first @ .., found_rows, found_columns] if first == leading => (*found_rows, *found_columns),
        _ => return Err(misfit()),
    };
    let found = [found_rows, found_columns];
    let is_block = |[height, width]: [usize; 2]| found == [rows.div_ceil(height), columns.div_ceil(width)];
    let block = match block.filter(|block| is_block(*block)) {
        Some(block) => block,
        None if found == [1, 1] => [rows, columns],
        None if found == [1, columns] => [rows, 1],
        None if found_rows == rows && found_columns > 0 && columns.is_multiple_of(found_columns) => {
            [1, columns / found_columns]
        }
        None => {
            return Err(format!(
                "{}; `weight_block_size` of the `quantization_config` says the size of blocks",
                misfit()
            ));
        }
    };
    Ok(Grid::new(part, rows, found, block))
}

fn nvfp4(base: &str, tensors: &Tensors<'_>) -> Result<Logical, String> {
    const GROUP: usize = 16;
    expect_plain(base, tensors)?;
    let (scale, global) = (format!("{base}_scale"), format!("{base}_scale_2"));
    if !tensors.has(&global) {
        return Err("it has bytes whose scales are of no scheme that is dequantized".to_owned());
    }
    tensors.expect_one(&global, &[ElementType::Float32])?;
    let packed = tensors.shape(base)?;
    let (rows, n_bytes) = matrix(packed)?;
    let columns = n_bytes.checked_mul(2).filter(|columns| columns.is_multiple_of(GROUP));
    let columns =
        columns.ok_or_else(|| format!("it has rows of {n_bytes} bytes, expected a multiple of {}", GROUP / 2))?;
    let with_columns = |columns: usize| packed.iter().rev().skip(1).rev().copied().chain([columns]).collect::<Vec<_>>();
    tensors.expect(&scale, &[ElementType::Float8E4m3Fn], &with_columns(columns / GROUP))?;
    let grid = Grid::new(&scale, rows, [rows, columns / GROUP], [1, GROUP]);
    let tiles = Tiles {
        base: base.to_owned(),
        code: Code::LowFirst(&NVFP4),
        rows,
        columns,
        row_bytes: n_bytes,
        scale: Grid { values: Values::Times(global), ..grid },
        zero: None,
        factor: None,
    };
    Ok(Logical {
        name: base.to_owned(),
        scheme: "NVFP4".to_owned(),
        dtype: tensors.model_dtype().unwrap_or(ElementType::Float32),
        shape: with_columns(columns),
        layout: Layout::Tiles(Box::new(tiles)),
    })
}
