//! GPTQ and AWQ (spec/packed.md §3, §4): LAYER.`qweight`, `qzeros` and `scales`, and for GPTQ `g_idx`.

use super::columns::{Columns, Packing, is_scale};
use super::tensors::Tensors;
use super::{Layout, Logical};
use crate::files::ElementType;

/// The widths of numbers that are read.
const BITS: [u32; 4] = [2, 3, 4, 8];

pub(super) fn describe(base: &str, tensors: &Tensors<'_>) -> Result<Logical, String> {
    let layer = base.strip_suffix("qweight").unwrap_or(base);
    let part = |name: &str| format!("{layer}{name}");
    let (qzeros, scales, g_idx) = (part("qzeros"), part("scales"), part("g_idx"));
    let (dtype, shape) = tensors.need(base)?;
    let &[rows, columns] = shape else { return Err(format!("it has the shape {shape:?}, expected two dimensions")) };
    if dtype != ElementType::Int32 {
        return Err(format!("it is {dtype}, expected int32"));
    }
    let (scale_dtype, scale_shape) = tensors.need(&scales)?;
    if !is_scale(scale_dtype) {
        return Err(format!("its scales are {scale_dtype}, expected float16, bfloat16 or float32"));
    }
    let &[groups, outputs] = scale_shape else {
        return Err(format!("its scales have the shape {scale_shape:?}, expected two dimensions"));
    };
    let (zero_dtype, zero_shape) = tensors.need(&qzeros)?;
    if zero_dtype != ElementType::Int32 {
        return Err(format!("its zero points are {zero_dtype}, expected int32"));
    }
    let is_awq = columns.checked_mul(8) == Some(outputs);
    if !is_awq && columns != outputs {
        return Err(format!("it has {columns} columns, expected {outputs}, or an eighth of that"));
    }
    expect_method(tensors, if is_awq { "awq" } else { "gptq" })?;
    let indices = tensors.has(&g_idx).then(|| tensors.need(&g_idx)).transpose()?;
    if let Some((dtype, _)) = indices.filter(|(dtype, _)| *dtype != ElementType::Int32) {
        return Err(format!("its groups (`g_idx`) are {dtype}, expected int32"));
    }
    let (packing, inputs) = if is_awq { (awq(tensors)?, rows) } else { gptq(tensors, rows, outputs, zero_shape)? };
    let group_size = match indices {
        Some(_) => 0,
        None => in_order(tensors, inputs, groups, is_awq)?,
    };
    let columns = Columns {
        qweight: base.to_owned(),
        qzeros,
        scales,
        g_idx: indices.map(|_| g_idx),
        packing,
        inputs,
        outputs,
        groups,
        group_size,
    };
    if let Some(misfit) = columns.misfit(scale_shape, zero_shape, indices.map(|(_, shape)| shape)) {
        return Err(misfit);
    }
    let scheme = match packing {
        Packing::Gptq { bits, .. } => format!("GPTQ {bits} bit"),
        Packing::Awq => "AWQ 4 bit".to_owned(),
    };
    let (name, shape) = (part("weight"), vec![outputs, inputs]);
    Ok(Logical { name, scheme, dtype: scale_dtype, shape, layout: Layout::Columns(columns) })
}

/// Refuses a method whose tensors have the same names.
fn expect_method(tensors: &Tensors<'_>, expected: &str) -> Result<(), String> {
    match tensors.method() {
        Some(method) if !method.eq_ignore_ascii_case(expected) => Err(format!(
            "its shapes are those of {expected}, but the method of `quantization_config` is `{}`",
            method.escape_debug()
        )),
        _ => Ok(()),
    }
}

fn awq(tensors: &Tensors<'_>) -> Result<Packing, String> {
    let config = tensors.config;
    if let Some(version) = config.and_then(|config| config.text("version"))
        && !version.eq_ignore_ascii_case("gemm")
    {
        return Err(format!("the layout `{}` of AWQ is not dequantized, only `gemm`", version.escape_debug()));
    }
    let bits = config.and_then(|config| config.integer("bits").or_else(|| config.integer("w_bit")));
    match bits {
        Some(bits) if bits != 4 => Err(format!("AWQ of {bits} bits is not dequantized, only of 4")),
        _ => Ok(Packing::Awq),
    }
}

/// Returns how numbers are packed, and the number of inputs.
fn gptq(tensors: &Tensors<'_>, rows: usize, outputs: usize, zeros: &[usize]) -> Result<(Packing, usize), String> {
    let fits = |bits: &u32| {
        let n_bits = outputs.checked_mul(*bits as usize);
        n_bits.is_some_and(|n_bits| zeros.get(1) == Some(&n_bits.div_ceil(32)))
    };
    let config = tensors.config.filter(|config| !config.is_empty());
    // Layers may have widths of their own, which `dynamic` lists by patterns.
    let stated = config.filter(|config| !config.has("dynamic")).and_then(|config| config.integer("bits"));
    let mut fitting =
        BITS.into_iter().filter(fits).filter(|bits| stated.is_none_or(|stated| stated == i64::from(*bits)));
    let bits = match (fitting.next(), fitting.next(), stated) {
        (Some(bits), None, _) => bits,
        (Some(_), Some(_), _) => return Err("its shapes do not say how many bits a number has".to_owned()),
        (None, _, Some(stated)) => {
            return Err(format!("its zero points have the shape {zeros:?}, which is not that of {stated} bits"));
        }
        (None, ..) => {
            return Err(format!("its zero points have the shape {zeros:?}, which is not that of 2, 3, 4 or 8 bits"));
        }
    };
    let n_bits = rows.checked_mul(32).ok_or("its shape is too large")?;
    let (inputs, words) = (n_bits / bits as usize, if bits == 3 { 3 } else { 1 });
    if !rows.is_multiple_of(words) {
        return Err(format!("it has {rows} rows, expected a multiple of {words} for {bits} bits"));
    }
    let Some(config) = config else { return Err(NO_CONFIG.to_owned()) };
    let is_less_one = match config.text("checkpoint_format") {
        // What libraries assume of files that are older than the field.
        None | Some("gptq") => true,
        Some("gptq_v2") => false,
        Some(other) => return Err(format!("the layout `{}` of GPTQ is not dequantized", other.escape_debug())),
    };
    Ok((Packing::Gptq { bits, is_less_one }, inputs))
}

/// Why zero points of GPTQ are ambiguous.
const NO_CONFIG: &str = "its zero points are stored with 1 subtracted or without, which only `checkpoint_format` in the \
    `quantization_config` of the model's config.json says, and there is none beside the file";

/// The number of inputs in a group, where groups are in order.
fn in_order(tensors: &Tensors<'_>, inputs: usize, groups: usize, is_awq: bool) -> Result<usize, String> {
    let config = tensors.config.filter(|config| !config.is_empty());
    if !is_awq && config.and_then(|config| config.flag("desc_act")) != Some(false) {
        return Err(
            "there is no `g_idx`, and `desc_act` of the `quantization_config` does not say that groups are in order"
                .to_owned(),
        );
    }
    let stated = config.and_then(|config| config.integer("group_size").or_else(|| config.integer("q_group_size")));
    match stated {
        Some(-1) if groups == 1 => Ok(inputs),
        Some(stated) => usize::try_from(stated)
            .ok()
            .filter(|size| *size > 0 && inputs.div_ceil(*size) == groups)
            .ok_or_else(|| format!("{inputs} inputs are not {groups} groups of `group_size`, {stated}")),
        None if groups > 0 && inputs.is_multiple_of(groups) => Ok(inputs / groups),
        None => Err(format!("{inputs} inputs are not {groups} groups of one size")),
    }
}
