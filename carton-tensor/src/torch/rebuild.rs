//! What calls of the functions that a checkpoint may name make (spec/torch.md §3). Nothing is called: arguments are checked as PyTorch checks
//! them, and a tensor is described.

use super::error::{Problem, malformed, quoted, refused};
use super::globals::{Global, Rebuild};
use super::strides::extent;
use super::values::{CHARACTERS, Collection, Dict, Made, TensorParts, Value, spend};
use crate::MAX_RANK;
use crate::files::ElementType;

/// The classes of devices that PyTorch knows.
const DEVICES: [&str; 8] = ["cpu", "cuda", "mps", "xpu", "hpu", "xla", "mtia", "meta"];

/// The longest name of a device, in bytes.
const MAX_DEVICE: usize = 16;

/// Attributes of a tensor that are more than a note on it: PyTorch changes the tensor when they are set, or refuses to set them.
const ATTRIBUTES: [&str; 44] = [
    "data",
    "real",
    "imag",
    "names",
    "grad",
    "requires_grad",
    "_grad",
    "_backward_hooks",
    "shape",
    "dtype",
    "device",
    "layout",
    "grad_fn",
    "is_leaf",
    "retains_grad",
    "output_nr",
    "name",
    "ndim",
    "itemsize",
    "nbytes",
    "volatile",
    "T",
    "H",
    "mT",
    "mH",
    "_version",
    "_base",
    "_cdata",
    "is_cpu",
    "is_cuda",
    "is_xpu",
    "is_mps",
    "is_ipu",
    "is_xla",
    "is_mtia",
    "is_maia",
    "is_vulkan",
    "is_sparse",
    "is_sparse_csr",
    "is_mkldnn",
    "is_quantized",
    "is_meta",
    "is_nested",
    "is_ort",
];

/// Returns what a call of `function` with these arguments makes. `offset` is where the pickle calls it. Each item that is copied is taken from
/// `budget`.
pub(super) fn call<'p>(
    made: &mut Made<'p>,
    function: Global,
    arguments: &[Value<'p>],
    offset: usize,
    budget: &mut u64,
) -> Result<Value<'p>, Problem> {
    match (function, arguments) {
        (Global::OrderedDict, []) => made.add(Collection::Dict(Dict::ordered())),
        // As Python 2 wrote it.
        (Global::OrderedDict, [pairs]) => {
            let dict = ordered_dict_of(made, *pairs, offset, budget)?;
            made.add(Collection::Dict(dict))
        }
        (Global::Counter, []) => made.add(Collection::Dict(Dict::default())),
        (Global::Counter, [items]) if made.dict(*items).is_some() => {
            let mut counter = Dict::default();
            let items = made.dict(*items).map(|dict| dict.entries.as_slice()).unwrap_or_default();
            spend(budget, items.len())?;
            for &(key, value) in items {
                counter.set(key.into(), value, offset, budget)?;
            }
            made.add(Collection::Dict(counter))
        }
        (Global::Set, []) => Ok(Value::Other("a set")),
        (Global::Set, [items]) => {
            let Some(items) = made.list(*items) else { return wrong("a set", offset) };
            spend(budget, items.len())?;
            match items.iter().all(|item| is_plain(*item)) {
                true => Ok(Value::Other("a set")),
                false => wrong("a set", offset),
            }
        }
        (Global::Encode, [text, Value::Text("latin1" | "latin-1")]) => is_latin_1(*text, "bytes", offset, budget),
        (Global::ByteArray, [] | [Value::Bytes]) => Ok(Value::Bytes),
        (Global::ByteArray, [text, Value::Text("latin1" | "latin-1")]) => {
            is_latin_1(*text, "a bytearray", offset, budget)
        }
        (Global::Complex, [Value::Float | Value::Int(_), Value::Float | Value::Int(_)]) => {
            Ok(Value::Other("a complex number"))
        }
        (Global::Size, [sizes]) => {
            let Some(values) = made.tuple(*sizes) else { return wrong("a torch.Size", offset) };
            spend(budget, values.len())?;
            match values.iter().all(|value| matches!(value, Value::Int(_))) {
                true => Ok(*sizes),
                false => wrong("a torch.Size", offset),
            }
        }
        (Global::Device, [Value::Text(device)]) if device.len() <= MAX_DEVICE => {
            let (class, number) = device.split_once(':').unwrap_or((device, "0"));
            let is_number = matches!(number.len(), 1 | 2) && number.bytes().all(|byte| byte.is_ascii_digit());
            let is_number = is_number && (number.len() == 1 || !number.starts_with('0'));
            match DEVICES.contains(&class) && is_number {
                true => Ok(Value::Other("a device")),
                false => wrong("a device", offset),
            }
        }
        (Global::Device, [Value::Text(class), Value::Int(0..=99)]) if DEVICES.contains(class) => {
            Ok(Value::Other("a device"))
        }
        (Global::Rebuild(function), arguments) => rebuild(made, function, arguments, offset, budget),
        (function, _) => refused(format!("its pickle calls {function:?} at byte {offset}, which is not followed")),
    }
}

fn wrong<T>(what: &str, offset: usize) -> Result<T, Problem> {
    malformed(format!("{what} at byte {offset} of the pickle has other arguments than PyTorch writes"))
}

fn is_plain(value: Value<'_>) -> bool {
    matches!(
        value,
        Value::None | Value::Bool(_) | Value::Int(_) | Value::LongInt | Value::Float | Value::Text(_) | Value::Bytes
    )
}

fn is_latin_1<'p>(text: Value<'p>, what: &str, offset: usize, budget: &mut u64) -> Result<Value<'p>, Problem> {
    if let Value::Text(text) = text {
        spend(budget, text.len() / CHARACTERS)?;
    }
    match text {
        Value::Text(text) if text.chars().all(|char| u32::from(char) < 0x100) => Ok(Value::Bytes),
        _ => wrong(what, offset),
    }
}

fn ordered_dict_of<'p>(
    made: &Made<'p>,
    pairs: Value<'p>,
    offset: usize,
    budget: &mut u64,
) -> Result<Dict<'p>, Problem> {
    const WHAT: &str = "an OrderedDict";
    let mut dict = Dict::ordered();
    let Some(pairs) = made.list(pairs) else { return wrong(WHAT, offset) };
    spend(budget, pairs.len())?;
    for pair in pairs {
        match made.list(*pair).or_else(|| made.tuple(*pair)) {
            Some(&[key, value]) => dict.set(key, value, offset, budget)?,
            _ => return wrong(WHAT, offset),
        }
    }
    Ok(dict)
}

/// Returns the tensor that a function of PyTorch makes.
fn rebuild<'p>(
    made: &mut Made<'p>,
    function: Rebuild,
    arguments: &[Value<'p>],
    offset: usize,
    budget: &mut u64,
) -> Result<Value<'p>, Problem> {
    match (function, arguments) {
        (Rebuild::Tensor, &[Value::Storage(storage, dtype), start, shape, strides]) => {
            tensor(made, dtype, storage, [start, shape, strides], offset)
        }
        (Rebuild::TensorV2, &[Value::Storage(storage, dtype), start, shape, strides, grad, hooks, ref rest @ ..])
            if rest.len() <= 1 =>
        {
            check_metadata(made, rest, offset)?;
            check_gradient(made, dtype, grad, hooks, offset)?;
            tensor(made, dtype, storage, [start, shape, strides], offset)
        }
        (
            Rebuild::TensorV3,
            &[
                Value::Storage(storage, _),
                start,
                shape,
                strides,
                grad,
                hooks,
                Value::Global(Global::Dtype(dtype)),
                ref rest @ ..,
            ],
        ) if rest.len() <= 1 => {
            check_metadata(made, rest, offset)?;
            let Some(element_type) = dtype.element_type else {
                let name = dtype.name;
                return refused(format!("it has a tensor of {name} (byte {offset} of its pickle), which is not read"));
            };
            check_gradient(made, element_type, grad, hooks, offset)?;
            tensor(made, element_type, storage, [start, shape, strides], offset)
        }
        (Rebuild::Parameter, &[Value::Tensor(tensor), grad, hooks]) => {
            check_parameter(made, tensor, grad, hooks, offset)
        }
        (Rebuild::ParameterWithState, &[Value::Tensor(tensor), grad, hooks, state]) => {
            check_state(made, state, offset, budget)?;
            check_parameter(made, tensor, grad, hooks, offset)
        }
        (
            Rebuild::FromTypeV2,
            &[Value::Global(Global::Rebuild(function)), Value::Global(Global::TensorClass), arguments, state],
        ) if function != Rebuild::FromTypeV2 => {
            let Some(arguments) = made.tuple(arguments).filter(|arguments| arguments.len() <= 8) else {
                return wrong("a tensor", offset);
            };
            let arguments = arguments.to_vec();
            check_state(made, state, offset, budget)?;
            rebuild(made, function, &arguments, offset, budget)
        }
        _ => wrong("a tensor", offset),
    }
}

/// The bits that say that elements are to be conjugated or negated. They are written only where one is set.
fn check_metadata(made: &Made<'_>, metadata: &[Value<'_>], offset: usize) -> Result<(), Problem> {
    match metadata {
        [] | [Value::None] => Ok(()),
        [dict] if made.dict(*dict).is_some_and(|dict| dict.entries.is_empty()) => Ok(()),
        _ => refused(format!(
            "it has a tensor whose elements are to be conjugated or negated (byte {offset} of its pickle), which is not done"
        )),
    }
}

/// Whether a gradient is wanted, and functions that wait for it, which `torch.save` does not write.
fn check_gradient(
    made: &Made<'_>,
    dtype: ElementType,
    grad: Value<'_>,
    hooks: Value<'_>,
    offset: usize,
) -> Result<(), Problem> {
    let has_gradients = dtype.is_float() || matches!(dtype, ElementType::Complex64 | ElementType::Complex128);
    match grad {
        Value::Bool(true) if !has_gradients => {
            malformed(format!("a tensor of {dtype} with a gradient at byte {offset} of the pickle"))
        }
        Value::Bool(_) if hooks == Value::None || made.dict(hooks).is_some_and(|dict| dict.entries.is_empty()) => {
            Ok(())
        }
        _ => wrong("a tensor", offset),
    }
}

fn check_parameter<'p>(
    made: &Made<'p>,
    tensor: usize,
    grad: Value<'p>,
    hooks: Value<'p>,
    offset: usize,
) -> Result<Value<'p>, Problem> {
    let Some(parts) = made.tensors.get(tensor) else { return wrong("a parameter", offset) };
    check_gradient(made, parts.dtype, grad, hooks, offset)?;
    Ok(Value::Tensor(tensor))
}

/// Checks attributes of a tensor, which are left out.
fn check_state(made: &Made<'_>, state: Value<'_>, offset: usize, budget: &mut u64) -> Result<(), Problem> {
    let halves = match made.tuple(state) {
        Some(&[attributes, slots]) => [attributes, slots],
        _ => [state, Value::None],
    };
    for half in halves {
        let entries = match made.dict(half) {
            Some(dict) => dict.entries.as_slice(),
            None if half == Value::None => &[],
            None => return wrong("the state of a tensor", offset),
        };
        spend(budget, entries.len())?;
        for (key, _) in entries {
            match (*key).into() {
                Value::Text(name) if !ATTRIBUTES.contains(&name) && !name.starts_with("__") => {}
                _ => {
                    return refused(format!(
                        "it sets the attribute {} of a tensor (byte {offset} of its pickle), which is not followed",
                        quoted(&key.to_string())
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Describes a tensor: `place` is its first element, its shape and its strides.
fn tensor<'p>(
    made: &mut Made<'p>,
    dtype: ElementType,
    storage: usize,
    place: [Value<'p>; 3],
    at: usize,
) -> Result<Value<'p>, Problem> {
    let [start, shape, strides] = place;
    let number = |value: &Value<'p>| match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    let numbers = |value: Value<'p>| -> Result<Vec<u64>, Problem> {
        let Some(values) = made.tuple(value) else { return wrong("a tensor", at) };
        if values.len() > MAX_RANK {
            return refused(format!("a tensor of {} dimensions at byte {at} of its pickle", values.len()));
        }
        match values.iter().map(number).collect() {
            Some(numbers) => Ok(numbers),
            None => malformed(format!("a size or stride that is no number or below 0 at byte {at} of the pickle")),
        }
    };
    let (Some(offset), shape, strides) = (number(&start), numbers(shape)?, numbers(strides)?) else {
        return malformed(format!("the offset of a tensor at byte {at} of the pickle is no number or below 0"));
    };
    if shape.len() != strides.len() {
        return malformed(format!(
            "a tensor at byte {at} of the pickle has {} dimensions and {} strides",
            shape.len(),
            strides.len()
        ));
    }
    let shape: Option<Vec<usize>> = shape.iter().map(|&size| usize::try_from(size).ok()).collect();
    let Some(shape) = shape.filter(|shape| n_bytes(dtype, shape).is_some()) else {
        return malformed(format!("a tensor at byte {at} of the pickle is larger than any memory"));
    };
    let Some(owner) = made.storages.get(storage) else { return wrong("a tensor", at) };
    let width = dtype.bits() as u64 / 8;
    let end = extent(&shape, &strides).and_then(|extent| match extent {
        0 => Some(0),
        extent => offset.checked_add(extent)?.checked_mul(width),
    });
    // The position of the first element is a number that PyTorch can multiply even where there is none.
    let first = offset.checked_mul(width).filter(|first| i64::try_from(*first).is_ok());
    if first.is_none() || end.is_none_or(|end| end > owner.n_bytes) {
        return malformed(format!(
            "a tensor at byte {at} of the pickle, of shape {shape:?} with strides {strides:?} from element {offset} on, is not inside of \
             storage {} of {} bytes",
            quoted(&owner.key),
            owner.n_bytes
        ));
    }
    made.add_tensor(TensorParts { dtype, storage, offset, shape, strides })
}

/// The size of a tensor in bytes, if it is one that PyTorch and this machine can count.
pub(super) fn n_bytes(dtype: ElementType, shape: &[usize]) -> Option<u64> {
    // PyTorch also multiplies the sizes of a tensor without elements.
    let factors = shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size.max(1)))?;
    i64::try_from(dtype.n_bytes(factors)?).ok()?;
    let n_elements = if shape.contains(&0) { 0 } else { factors };
    u64::try_from(dtype.n_bytes(n_elements)?).ok()
}
