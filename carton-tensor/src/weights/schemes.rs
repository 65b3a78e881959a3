//! Recognizes tensors that are quantized already, by this library or by others, and the scales and tables that belong to them
//! (spec/weights.md §2.3, spec/packed.md §1). Pure: names, element types and shapes in.
//!
//! Such tensors are left as they are. Quantizing them again loses precision, and the programs that know the scheme would no longer find
//! what they need: an `int8` tensor where they expect scales is a wrong answer without an error. `packed` describes what the tensors of a
//! group stand for together.

use std::collections::BTreeMap;

use crate::files::ElementType;

/// How the base of a scheme is stored, which holds the quantized numbers.
#[derive(Clone, Copy)]
enum Base {
    /// Integers of any width, which may hold several numbers each.
    Integers,
    /// Integers of 32 bits without a sign, which hold several numbers each.
    Words,
    /// Numbers of 8 bits or fewer, or bytes that hold several.
    Small,
    /// Any of these.
    IntegersOrSmall,
}

impl Base {
    fn is(self, dtype: ElementType) -> bool {
        match self {
            Self::Integers => is_integer(dtype),
            Self::Words => dtype == ElementType::Uint32,
            Self::Small => is_small(dtype),
            Self::IntegersOrSmall => is_integer(dtype) || is_small(dtype),
        }
    }
}

/// A family of schemes, whose tensors have the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    GptqOrAwq,
    Marlin,
    Bitsandbytes,
    CompressedTensors,
    Hqq,
    Aqlm,
    Exl2,
    Mlx,
    Quanto,
    Torchao,
    /// MXFP4 as GPT-OSS stores it.
    Blocks,
    /// FP8, MX, NVFP4, and int8 of other libraries.
    Small,
}

impl Family {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::GptqOrAwq | Self::Marlin => "GPTQ or AWQ",
            Self::Bitsandbytes => "bitsandbytes",
            Self::CompressedTensors => "compressed-tensors",
            Self::Hqq => "HQQ",
            Self::Aqlm => "AQLM",
            Self::Exl2 => "EXL2",
            Self::Mlx => "MLX",
            Self::Quanto => "quanto",
            Self::Torchao => "torchao",
            Self::Blocks => "MXFP4",
            Self::Small => "8 bits or fewer",
        }
    }
}

/// What [`quantized_already`] calls floats of 8 bits or fewer that have no scales.
pub const WITHOUT_SCALES: &str = "8 bits or fewer, without scales";

/// A scheme that stores a layer as several tensors, whose names differ in their last part.
struct Scheme {
    family: Family,
    /// The last part of the name of the tensor that holds the quantized numbers.
    base: &'static str,
    is_stored_as: Base,
    /// The last parts of the names of the tensors that belong to it.
    companions: &'static [&'static str],
}

const SCHEMES: [Scheme; 11] = [
    Scheme {
        family: Family::GptqOrAwq,
        base: "qweight",
        is_stored_as: Base::Integers,
        companions: &["scales", "qzeros", "zeros", "g_idx"],
    },
    Scheme { family: Family::Marlin, base: "B", is_stored_as: Base::Integers, companions: &["s"] },
    Scheme {
        family: Family::Bitsandbytes,
        base: "weight",
        is_stored_as: Base::Small,
        companions: &["SCB", "weight_format"],
    },
    Scheme {
        family: Family::CompressedTensors,
        base: "weight_packed",
        is_stored_as: Base::Integers,
        companions: &[
            "weight_scale",
            "weight_zero_point",
            "weight_global_scale",
            "weight_g_idx",
            "weight_shape",
            "input_scale",
            "input_zero_point",
            "input_global_scale",
        ],
    },
    Scheme { family: Family::Hqq, base: "W_q", is_stored_as: Base::Integers, companions: &["scale", "zero"] },
    Scheme { family: Family::Aqlm, base: "codes", is_stored_as: Base::Integers, companions: &["codebooks", "scales"] },
    Scheme {
        family: Family::Exl2,
        base: "q_weight",
        is_stored_as: Base::Integers,
        companions: &["q_scale", "q_scale_max"],
    },
    Scheme { family: Family::Mlx, base: "weight", is_stored_as: Base::Words, companions: &["scales", "biases"] },
    Scheme { family: Family::Quanto, base: "_data", is_stored_as: Base::Small, companions: &["_scale", "_shift"] },
    Scheme {
        family: Family::Torchao,
        base: "_weight_qdata",
        is_stored_as: Base::IntegersOrSmall,
        companions: &["_weight_scale", "_weight_zero_point"],
    },
    Scheme {
        family: Family::Small,
        base: "weight",
        is_stored_as: Base::Small,
        companions: &[
            "scale",
            "scales",
            "scale_inv",
            "scale_weight",
            "zero_point",
            "input_scale",
            "input_scale_inv",
            "input_scale_ub",
            "input_zero_point",
            "input_global_scale",
            "scale_input",
            "output_scale",
            "activation_scale",
            "smooth_scale",
            "q_scale",
            "k_scale",
            "v_scale",
        ],
    },
];

/// The end of the name of a tensor of bytes that hold blocks, and that of its scales.
const BLOCKS: (&str, &str) = ("_blocks", "_scales");

/// What the whole name of a tensor of 8 bits or fewer is followed by in the names of its scales and offsets.
const OF_SMALL: [&str; 10] = [
    "_scale",
    "_scales",
    "_scale_inv",
    "_scale_2",
    "_global_scale",
    "_zero_point",
    super::SCALE_SUFFIX,
    ".scales",
    ".scale_inv",
    ".zero_point",
];

/// What the whole name of a tensor is followed by in the names of its tables, if bitsandbytes quantized it. The bytes of the tensor may be
/// stored as if they were floats.
const OF_BITSANDBYTES: [&str; 5] = [".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map", ".SCB"];
/// In a name: what follows says how the tensor before it is quantized.
const QUANT_STATE: &str = ".quant_state.";

/// A tensor as its file describes it.
#[derive(Clone, Copy, Debug)]
pub struct Described<'a> {
    /// The name.
    pub name: &'a str,
    /// The element type; `None` if the entry is not a tensor of numbers.
    pub dtype: Option<ElementType>,
    /// The dimensions.
    pub shape: &'a [usize],
}

/// Tensors by their names.
pub(super) type ByName<'a> = BTreeMap<&'a str, Described<'a>>;

/// The tensors that belong to a quantized one, which the map of groups names.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) family: Family,
    /// Their names, in alphabetical order.
    pub(super) parts: Vec<&'a str>,
}

/// Returns the groups of tensors that are one quantized tensor, by the name of the tensor that holds the quantized numbers.
pub(super) fn groups<'a>(tensors: &ByName<'a>) -> BTreeMap<&'a str, Group<'a>> {
    let mut groups: BTreeMap<&str, Group<'_>> = BTreeMap::new();
    for &name in tensors.keys() {
        if let Some((base, family)) = base_of(name, tensors) {
            groups.entry(base).or_insert(Group { family, parts: Vec::new() }).parts.push(name);
        }
    }
    groups
}

/// Returns the tensors that are quantized already and those that belong to them, each with the name of the scheme.
///
/// ```
/// use carton_tensor::files::ElementType;
/// use carton_tensor::weights::{Described, quantized_already};
/// let tensors = [
///     Described { name: "q_proj.qweight", dtype: Some(ElementType::Int32), shape: &[512, 4096] },
///     Described { name: "q_proj.scales", dtype: Some(ElementType::Float16), shape: &[32, 4096] },
///     Described { name: "norm.weight", dtype: Some(ElementType::Float16), shape: &[4096] },
/// ];
/// let already = quantized_already(tensors);
/// assert_eq!(already.into_iter().collect::<Vec<_>>(), [("q_proj.qweight", "GPTQ or AWQ"), ("q_proj.scales", "GPTQ or AWQ")]);
/// ```
pub fn quantized_already<'a>(tensors: impl IntoIterator<Item = Described<'a>>) -> BTreeMap<&'a str, &'static str> {
    let tensors: ByName<'a> = tensors.into_iter().map(|tensor| (tensor.name, tensor)).collect();
    let mut already = BTreeMap::new();
    for (base, group) in groups(&tensors) {
        already.extend(group.parts.into_iter().map(|part| (part, group.family.name())));
        already.entry(base).or_insert(group.family.name());
    }
    for (&name, tensor) in &tensors {
        if tensor.dtype.is_some_and(|dtype| dtype.is_float() && is_small(dtype)) {
            already.entry(name).or_insert(WITHOUT_SCALES);
        }
    }
    already
}

/// Returns the quantized tensor that this one belongs to by its name, and the family of schemes.
fn base_of<'a>(name: &'a str, tensors: &ByName<'a>) -> Option<(&'a str, Family)> {
    let find = |base: &str| tensors.get(base).and_then(|tensor| Some((tensor.name, tensor.dtype?)));
    let tables = OF_BITSANDBYTES.into_iter().find_map(|suffix| name.strip_suffix(suffix));
    if let Some((base, _)) = tables.or_else(|| Some(name.split_once(QUANT_STATE)?.0)).and_then(find) {
        return Some((base, Family::Bitsandbytes));
    }
    if let Some(tensor) = name.strip_suffix(BLOCKS.1)
        && let Some((base, ElementType::Uint8)) = find(&format!("{tensor}{}", BLOCKS.0))
    {
        return Some((base, Family::Blocks));
    }
    // A tensor outside of a layer has a name of one part.
    let (layer, part) = name.rfind('.').map_or(("", name), |dot| name.split_at(dot + 1));
    let of_layer = |scheme: &Scheme| {
        let is_companion = scheme.companions.contains(&part);
        let (base, dtype) = find(&format!("{layer}{}", scheme.base)).filter(|_| is_companion)?;
        scheme.is_stored_as.is(dtype).then_some((base, scheme.family))
    };
    let of_tensor = || {
        let bases = OF_SMALL.into_iter().filter_map(|suffix| name.strip_suffix(suffix)).filter_map(find);
        let mut small = bases.filter(|(_, dtype)| is_small(*dtype));
        small.next().map(|(base, _)| (base, Family::Small))
    };
    SCHEMES.iter().find_map(of_layer).or_else(of_tensor)
}

const fn is_integer(dtype: ElementType) -> bool {
    use ElementType::{Bool, Complex64, Complex128};
    !dtype.is_float() && !matches!(dtype, Bool | Complex64 | Complex128)
}

/// Whether an element has 8 bits or fewer. A bool is no number.
const fn is_small(dtype: ElementType) -> bool {
    dtype.bits() <= 8 && !matches!(dtype, ElementType::Bool)
}

#[cfg(test)]
mod tests {
    use ElementType::{
        BFloat16, Bool, Float4E2m1, Float8E4m3Fn, Float8E8m0Fnu, Float16, Float32, Float64, Int8, Int32, Int64, Uint8,
        Uint32,
    };

    use super::*;

    const GPTQ: &str = Family::GptqOrAwq.name();
    const BITSANDBYTES: &str = Family::Bitsandbytes.name();
    const SMALL: &str = Family::Small.name();

    /// Checks that of these tensors exactly those with a scheme are quantized already.
    fn check(tensors: &[(&str, ElementType, Option<&str>)]) {
        let described = tensors.iter().map(|(name, dtype, _)| Described { name, dtype: Some(*dtype), shape: &[] });
        let expected: BTreeMap<&str, &str> =
            tensors.iter().filter_map(|(name, _, scheme)| Some((*name, (*scheme)?))).collect();
        assert_eq!(quantized_already(described), expected);
    }

    #[test]
    fn schemes_of_other_libraries() {
        check(&[
            ("l.q.qweight", Int32, Some(GPTQ)),
            ("l.q.qzeros", Int32, Some(GPTQ)),
            ("l.q.scales", Float16, Some(GPTQ)),
            ("l.q.g_idx", Int32, Some(GPTQ)),
            ("l.q.bias", Float16, None),
            ("l.norm.weight", Float16, None),
        ]);
        check(&[("qweight", Int32, Some(GPTQ)), ("scales", Float16, Some(GPTQ))]);
        check(&[
            ("fc.weight", Uint8, Some(BITSANDBYTES)),
            ("fc.weight.absmax", Uint8, Some(BITSANDBYTES)),
            ("fc.weight.quant_map", Float32, Some(BITSANDBYTES)),
            ("fc.weight.nested_absmax", Float32, Some(BITSANDBYTES)),
            ("fc.weight.nested_quant_map", Float32, Some(BITSANDBYTES)),
            ("fc.weight.quant_state.bitsandbytes__nf4", Uint8, Some(BITSANDBYTES)),
            ("fc.bias", BFloat16, None),
        ]);
        // The bytes may be stored as floats.
        check(&[
            ("fc.weight", BFloat16, Some(BITSANDBYTES)),
            ("fc.weight.quant_state.bitsandbytes__fp4", Uint8, Some(BITSANDBYTES)),
        ]);
        check(&[
            ("fc.weight", Int8, Some(BITSANDBYTES)),
            ("fc.SCB", Float32, Some(BITSANDBYTES)),
            ("fc.weight_format", Uint8, Some(BITSANDBYTES)),
        ]);
        check(&[
            ("q.weight_packed", Int32, Some("compressed-tensors")),
            ("q.weight_scale", BFloat16, Some("compressed-tensors")),
            ("q.weight_shape", Int64, Some("compressed-tensors")),
            ("q.input_global_scale", Float32, Some("compressed-tensors")),
        ]);
        check(&[
            ("q.weight", Uint32, Some("MLX")),
            ("q.scales", Float16, Some("MLX")),
            ("q.biases", Float16, Some("MLX")),
        ]);
        check(&[("q.codes", Int8, Some("AQLM")), ("q.codebooks", Float16, Some("AQLM"))]);
        check(&[("q.W_q", Uint8, Some("HQQ")), ("q.scale", Float16, Some("HQQ")), ("q.zero", Float16, Some("HQQ"))]);
        check(&[("q.q_weight", Int32, Some("EXL2")), ("q.q_scale_max", Float16, Some("EXL2"))]);
        check(&[("w._data", Int8, Some("quanto")), ("w._scale", Float16, Some("quanto"))]);
        check(&[("q._weight_qdata", Int8, Some("torchao")), ("q._weight_scale", Float32, Some("torchao"))]);
        check(&[
            ("mlp.down_proj_blocks", Uint8, Some("MXFP4")),
            ("mlp.down_proj_scales", Uint8, Some("MXFP4")),
            ("mlp.down_proj_bias", BFloat16, None),
        ]);
    }

    #[test]
    fn small_floats_and_their_scales() {
        check(&[
            ("q.weight", Float8E4m3Fn, Some(SMALL)),
            ("q.weight_scale", Float32, Some(SMALL)),
            ("q.input_scale", Float32, Some(SMALL)),
            ("k.weight", Float8E4m3Fn, Some(SMALL)),
            ("k.weight_scale_inv", Float32, Some(SMALL)),
            ("k.k_scale", Float32, Some(SMALL)),
            ("v.weight", Float8E4m3Fn, Some(SMALL)),
            ("v.scale", Float32, Some(SMALL)),
            ("norm.weight", BFloat16, None),
        ]);
        // NVFP4, two numbers in a byte.
        check(&[
            ("q.weight", Uint8, Some(SMALL)),
            ("q.weight_scale", Float8E4m3Fn, Some(SMALL)),
            ("q.weight_scale_2", Float32, Some(SMALL)),
        ]);
        check(&[("experts.up_proj", Float8E4m3Fn, Some(SMALL)), ("experts.up_proj_scale", Float32, Some(SMALL))]);
        check(&[("w", Float4E2m1, Some(SMALL)), ("w_scale", Float8E8m0Fnu, Some(SMALL))]);
        check(&[("alone", Float8E4m3Fn, Some(WITHOUT_SCALES))]);
    }

    #[test]
    fn what_this_library_writes() {
        check(&[("w", Int8, Some(SMALL)), ("w.scale", Float64, Some(SMALL))]);
    }

    #[test]
    fn names_alone_do_not_make_a_tensor_quantized() {
        check(&[("norm.weight", Float32, None), ("norm.scale", Float32, None)]);
        check(&[("q.qweight", Float32, None), ("q.scales", Float32, None)]);
        check(&[("scales", Float32, None), ("absmax", Float32, None), (".absmax", Float32, None)]);
        check(&[("w", Int32, None), ("w.scale", Float32, None)]);
        check(&[("w_blocks", Float32, None), ("w_scales", Uint8, None)]);
        check(&[("mask", Bool, None), ("mask.scale", Float32, None)]);
        check(&[("weight", Int8, None), ("other.weight_scale", Float32, None)]);
        check(&[]);
    }
}
