//! Parses the TOML of a description and expands its entries into tensors (spec/weights.md §3). Pure: text in, description out.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::{Description, DescriptionError, ExpectedTensor, MAX_NAMES, MAX_TENSORS, Quantization, ValueRange};
use crate::files::ElementType;
use crate::{MAX_RANK, element_count};

/// The placeholder for the number of the layer in a name.
const LAYER: &str = "{layer}";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDescription {
    version: i64,
    name: String,
    #[serde(default)]
    dtypes: Vec<String>,
    accept_quantized: Option<bool>,
    n_parameters: Option<u64>,
    #[serde(default)]
    sizes: BTreeMap<String, usize>,
    #[serde(default)]
    values: RawValues,
    quantization: Option<RawQuantization>,
    tensors: Vec<RawTensor>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawValues {
    min: Option<f64>,
    max: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawQuantization {
    method: String,
    scale: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTensor {
    name: String,
    shape: Vec<Size>,
    repeat: Option<Size>,
    dtypes: Option<Vec<String>>,
    #[serde(default)]
    quantized: bool,
}

/// A number, or the name of an entry of `sizes`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Size {
    Number(usize),
    Name(String),
}

/// The only field that every version has.
#[derive(Deserialize)]
struct Versioned {
    version: i64,
}

pub(super) fn parse(text: &str, sizes: &BTreeMap<String, usize>) -> Result<Description, DescriptionError> {
    let Versioned { version } = toml::from_str(text).map_err(Box::new)?;
    if version != 1 {
        return Err(DescriptionError::Version { found: version });
    }
    let mut raw: RawDescription = toml::from_str(text).map_err(Box::new)?;
    debug_assert_eq!(raw.version, version);
    for (name, &size) in sizes {
        let Some(replaced) = raw.sizes.get_mut(name) else {
            let names: Vec<String> = raw.sizes.keys().map(|name| name.escape_debug().to_string()).collect();
            let has =
                if names.is_empty() { "it has none".to_owned() } else { format!("it has `{}`", names.join("`, `")) };
            return Err(invalid("sizes", 4, format!("there is no `{}` to replace: {has}", name.escape_debug())));
        };
        *replaced = size;
        // The stated number of parameters does not hold for replaced sizes.
        raw.n_parameters = None;
    }
    let values = values(&raw.values)?;
    let quantization = raw.quantization.as_ref().map(quantization).transpose()?;
    let (mut tensors, mut n_name_bytes) = (BTreeMap::new(), 0);
    for tensor in &raw.tensors {
        expand(tensor, &raw.sizes, quantization, &mut n_name_bytes, &mut tensors)?;
    }
    let mut n_parameters = 0_u64;
    for (name, tensor) in &tensors {
        let count = element_count(&tensor.shape).and_then(|count| n_parameters.checked_add(count as u64));
        n_parameters =
            count.ok_or_else(|| invalid(name, 4, "it has more elements than 64 bits can count".to_owned()))?;
    }
    Ok(Description {
        name: raw.name,
        dtypes: dtypes("dtypes", &raw.dtypes)?,
        accepts_quantized: raw.accept_quantized.unwrap_or(true),
        values,
        quantization,
        n_parameters: raw.n_parameters.unwrap_or(n_parameters),
        sizes: raw.sizes,
        tensors,
    })
}

fn invalid(place: &str, section: u8, problem: String) -> DescriptionError {
    // Names come from a file, so control characters are escaped and long names are cut.
    let place = place.chars().take(100).flat_map(char::escape_debug).collect();
    DescriptionError::Invalid { place, problem, section }
}

fn values(raw: &RawValues) -> Result<ValueRange, DescriptionError> {
    let wrong = |problem| Err(invalid("values", 2, problem));
    for (name, bound) in [("min", raw.min), ("max", raw.max)] {
        if bound.is_some_and(f64::is_nan) {
            return wrong(format!("expected `{name}` to be a number, found NaN"));
        }
    }
    match (raw.min, raw.max) {
        (Some(min), Some(max)) if min > max => {
            wrong(format!("expected `min` to be at most `max`, found {min} and {max}"))
        }
        (min, max) => Ok(ValueRange { min, max }),
    }
}

fn quantization(raw: &RawQuantization) -> Result<Quantization, DescriptionError> {
    let scale = raw.scale;
    if let Some(scale) = scale.filter(|scale| !(scale.is_finite() && *scale > 0.0)) {
        return Err(invalid("quantization.scale", 3, format!("expected a number above 0, found {scale}")));
    }
    match raw.method.as_str() {
        "ternary" => Ok(Quantization::Ternary { scale }),
        "int8" => Ok(Quantization::Int8 { scale }),
        other => {
            let problem = format!("expected `ternary` or `int8`, found `{}`", other.escape_debug());
            Err(invalid("quantization.method", 3, problem))
        }
    }
}

fn dtypes(place: &str, names: &[String]) -> Result<Vec<ElementType>, DescriptionError> {
    let find = |name: &String| {
        ElementType::ALL.into_iter().find(|dtype| dtype.name() == name).ok_or_else(|| {
            let known: Vec<&str> = ElementType::ALL.into_iter().map(ElementType::name).collect();
            let problem = format!("unknown dtype `{}`, expected one of {}", name.escape_debug(), known.join(", "));
            invalid(place, 2, problem)
        })
    };
    names.iter().map(find).collect()
}

/// Adds the tensors that an entry describes.
fn expand(
    raw: &RawTensor,
    sizes: &BTreeMap<String, usize>,
    quantization: Option<Quantization>,
    n_name_bytes: &mut usize,
    tensors: &mut BTreeMap<String, ExpectedTensor>,
) -> Result<(), DescriptionError> {
    let size = |size: &Size| match size {
        Size::Number(number) => Ok(*number),
        Size::Name(name) => sizes
            .get(name)
            .copied()
            .ok_or_else(|| invalid(&raw.name, 4, format!("`{}` is not in `sizes`", name.escape_debug()))),
    };
    if raw.shape.len() > MAX_RANK {
        let problem = format!("expected at most {MAX_RANK} dimensions, found {}", raw.shape.len());
        return Err(invalid(&raw.name, 4, problem));
    }
    let tensor = ExpectedTensor {
        shape: raw.shape.iter().map(size).collect::<Result<_, _>>()?,
        dtypes: raw.dtypes.as_ref().map(|names| dtypes(&raw.name, names).map(Arc::from)).transpose()?,
        quantized: raw.quantized,
    };
    if raw.quantized && quantization.is_none() {
        return Err(invalid(&raw.name, 4, "it is quantized, but there is no `quantization`".to_owned()));
    }
    let count = raw.repeat.as_ref().map(size).transpose()?;
    if count.is_some() != raw.name.contains(LAYER) {
        let problem = format!("expected `repeat` and a name with `{LAYER}`, or neither");
        return Err(invalid(&raw.name, 4, problem));
    }
    let count = count.unwrap_or(1);
    if count > MAX_TENSORS.saturating_sub(tensors.len()) {
        return Err(invalid(&raw.name, 4, format!("expected at most {MAX_TENSORS} tensors in all")));
    }
    // `{layer}` has seven characters and becomes a number of at most seven digits, so that names never grow.
    *n_name_bytes = n_name_bytes.saturating_add(count.saturating_mul(raw.name.len()));
    if *n_name_bytes > MAX_NAMES {
        return Err(invalid(&raw.name, 4, format!("expected at most {MAX_NAMES} bytes of names")));
    }
    for layer in 0..count {
        let name = raw.name.replace(LAYER, &layer.to_string());
        if tensors.contains_key(&name) {
            return Err(invalid(&name, 4, "it is described twice".to_owned()));
        }
        tensors.insert(name, tensor.clone());
    }
    Ok(())
}
