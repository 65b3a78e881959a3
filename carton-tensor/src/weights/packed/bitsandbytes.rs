//! bitsandbytes (spec/packed.md §5): NF4 and FP4 with their tables, and int8 with `SCB`.

use serde_json::Value;

use super::config::dense_dtype;
use super::grid::{Grid, Values};
use super::tensors::Tensors;
use super::tiles::{Code, Tiles};
use super::{Layout, Logical};
use crate::element_count;
use crate::files::ElementType;

/// The numbers of NF4, which are quantiles of the normal distribution.
const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];
/// The numbers of FP4: a sign, and one of eight, all divided by the largest.
const FP4: [f32; 16] = [
    0.0,
    0.005_208_333_5,
    0.666_666_7,
    1.0,
    0.333_333_34,
    0.5,
    0.166_666_67,
    0.25,
    -0.0,
    -0.005_208_333_5,
    -0.666_666_7,
    -1.0,
    -0.333_333_34,
    -0.5,
    -0.166_666_67,
    -0.25,
];

/// The sizes of blocks that the library has.
const BLOCKS: [usize; 8] = [32, 64, 128, 256, 512, 1024, 2048, 4096];
/// 1 / 127 as the library rounds it.
const OF_127: f32 = 7.874_016e-3;

pub(super) fn describe(base: &str, tensors: &Tensors<'_>) -> Result<Logical, String> {
    let layer = base.strip_suffix("weight").unwrap_or(base);
    let scb = format!("{layer}SCB");
    match tensors.has(&scb) {
        true => int8(base, layer, scb, tensors),
        false => four_bits(base, tensors),
    }
}

fn int8(base: &str, layer: &str, scb: String, tensors: &Tensors<'_>) -> Result<Logical, String> {
    let (dtype, shape) = tensors.need(base)?;
    let &[rows, columns] = shape else { return Err(format!("it has the shape {shape:?}, expected two dimensions")) };
    if dtype != ElementType::Int8 {
        return Err(format!("it is {dtype}, expected int8"));
    }
    tensors.expect(&scb, &[ElementType::Float32], &[rows])?;
    let format = format!("{layer}weight_format");
    if tensors.has(&format) {
        tensors.expect_one(&format, &[ElementType::Uint8])?;
        match (tensors.values)(&format).as_deref() {
            Some([0]) => {}
            Some(_) => return Err("its rows are reordered for a kind of GPU (`weight_format`)".to_owned()),
            None => return Err(format!("`{}` cannot be read", format.escape_debug())),
        }
    }
    let tiles = Tiles {
        base: base.to_owned(),
        code: Code::Int8,
        rows,
        columns,
        row_bytes: columns,
        scale: Grid::new(&scb, rows, [rows, 1], [1, columns.max(1)]),
        zero: None,
        factor: Some(OF_127),
    };
    Ok(Logical {
        name: base.to_owned(),
        scheme: "bitsandbytes int8".to_owned(),
        dtype: tensors.model_dtype().unwrap_or(ElementType::Float32),
        shape: shape.to_vec(),
        layout: Layout::Tiles(Box::new(tiles)),
    })
}

fn four_bits(base: &str, tensors: &Tensors<'_>) -> Result<Logical, String> {
    let part = |name: &str| format!("{base}.{name}");
    let states = ["nf4", "fp4"].map(|of| part(&format!("quant_state.bitsandbytes__{of}")));
    let found: Vec<&String> = states.iter().filter(|name| tensors.has(name)).collect();
    let &[state] = found.as_slice() else {
        return Err(format!("it has {} `quant_state`, expected one, of NF4 or FP4", found.len()));
    };
    let text = (tensors.values)(state).ok_or_else(|| format!("`{}` cannot be read", state.escape_debug()))?;
    let state: Value =
        serde_json::from_slice(&text).map_err(|error| format!("its `quant_state` is not JSON: {error}"))?;
    let wrong = |key: &str| format!("`{key}` of its `quant_state` is {}", shown(state.get(key)));
    let length = |key: &str| state.get(key).and_then(Value::as_u64).and_then(|value| usize::try_from(value).ok());
    let text = |key: &str| state.get(key).and_then(Value::as_str);
    let (kind, code) = match text("quant_type") {
        Some("nf4") => ("NF4", &NF4),
        Some("fp4") => ("FP4", &FP4),
        _ => return Err(wrong("quant_type")),
    };
    let dtype = text("dtype").and_then(dense_dtype).ok_or_else(|| wrong("dtype"))?;
    let block = length("blocksize").filter(|size| BLOCKS.contains(size)).ok_or_else(|| wrong("blocksize"))?;
    let shape = state.get("shape").and_then(Value::as_array).ok_or_else(|| wrong("shape"))?;
    let shape: Option<Vec<usize>> = shape.iter().map(|length| usize::try_from(length.as_u64()?).ok()).collect();
    let shape = shape.ok_or_else(|| wrong("shape"))?;
    let n_elements = element_count(&shape).ok_or_else(|| wrong("shape"))?;

    let (stored, stored_shape) = tensors.need(base)?;
    let n_bytes = element_count(stored_shape).and_then(|n_elements| stored.n_bytes(n_elements));
    let row_bytes = n_elements.div_ceil(2);
    if n_bytes != Some(row_bytes) {
        return Err(format!("it is {stored} {stored_shape:?}, expected {row_bytes} bytes for a tensor of {shape:?}"));
    }
    // The library returns a tensor that is stored like this transposed.
    if stored_shape.first() == Some(&1) && n_elements > 2 {
        return Err(format!("it is stored as {stored_shape:?}, transposed, as old versions did"));
    }
    let n_blocks = n_elements.div_ceil(block);
    let absmax = part("absmax");
    let mut scale = Grid::new(&absmax, 1, [1, n_blocks], [1, block]);
    if tensors.has(&part("nested_absmax")) {
        tensors.expect(&absmax, &[ElementType::Uint8], &[n_blocks])?;
        let outer = length("nested_blocksize").filter(|size| *size > 0).ok_or_else(|| wrong("nested_blocksize"))?;
        if text("nested_dtype") != Some(ElementType::Float32.name()) {
            return Err(wrong("nested_dtype"));
        }
        let offset = state.get("nested_offset").and_then(Value::as_f64).ok_or_else(|| wrong("nested_offset"))?;
        let (outer_absmax, table) = (part("nested_absmax"), part("nested_quant_map"));
        let n_outer = n_blocks.div_ceil(outer);
        tensors.expect(&outer_absmax, &[ElementType::Float32], &[n_outer])?;
        tensors.expect(&table, &[ElementType::Float32], &[256])?;
        scale.values =
            Values::Nested { table, absmax: outer_absmax, block: outer, n_blocks: n_outer, offset: offset as f32 };
    } else {
        tensors.expect(&absmax, &[ElementType::Float32], &[n_blocks])?;
    }
    let tiles = Tiles {
        base: base.to_owned(),
        code: Code::HighFirst(code),
        rows: 1,
        columns: n_elements,
        row_bytes,
        scale,
        zero: None,
        factor: None,
    };
    let scheme = format!("bitsandbytes {kind}");
    Ok(Logical { name: base.to_owned(), scheme, dtype, shape, layout: Layout::Tiles(Box::new(tiles)) })
}

/// A value in a message, shortened.
fn shown(value: Option<&Value>) -> String {
    const MOST: usize = 40;
    value.map_or_else(
        || "missing".to_owned(),
        |value| format!("`{}`", value.to_string().chars().take(MOST).collect::<String>()),
    )
}
