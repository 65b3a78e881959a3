//! A TorchScript module, loaded and run through the shim. Everything unsafe about libtorch is here.

use std::ffi::c_void;
use std::ptr::{NonNull, null, null_mut};
use std::sync::Arc;

use carton_runner_interface::runner::RunnerError;
use carton_tensor::{DataType, NumericTensor, Storage};

use crate::error::from_libtorch;
use crate::shim;

/// What an argument of forward takes, or a dictionary that it takes holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tensor,
    Any,
    String,
    StringList,
    TensorList,
    Int,
    Float,
    Bool,
    Dictionary,
    Other,
}

impl Kind {
    fn from_number(number: i32) -> Self {
        match number {
            0 => Self::Tensor,
            1 => Self::Any,
            2 => Self::String,
            3 => Self::StringList,
            4 => Self::TensorList,
            5 => Self::Int,
            6 => Self::Float,
            7 => Self::Bool,
            8 => Self::Dictionary,
            _ => Self::Other,
        }
    }
}

/// An argument of forward, without `self`.
#[derive(Clone, Debug)]
pub(crate) struct Argument {
    pub(crate) name: String,
    /// As TorchScript writes it.
    pub(crate) type_name: String,
    /// Of `T` for an `Optional[T]`.
    pub(crate) kind: Kind,
    /// What a dictionary holds.
    pub(crate) element: Kind,
    /// Whether it may be left out, because it has a default or may be `None`.
    pub(crate) may_be_missing: bool,
}

/// Where a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    Cpu,
    /// The GPU with this index among those that CUDA shows.
    Cuda(i32),
}

/// What forward is given for an argument or a key.
#[derive(Debug)]
pub(crate) enum Value<'a> {
    Tensor(Held),
    String(&'a str),
    StringList(&'a [String]),
    TensorList(Vec<Held>),
    Int(i64),
    Float(f64),
    Bool(bool),
    /// The argument's default, or `None`.
    Default,
}

/// A tensor whose memory libtorch may use for as long as it likes.
#[derive(Debug)]
pub(crate) struct Held {
    tensor: Arc<NumericTensor>,
    shape: Vec<i64>,
}

impl Held {
    /// A tensor as libtorch can use it; a copy where its elements do not lie at multiples of their size.
    ///
    /// # Errors
    /// A dtype that this libtorch lacks, or a dimension that it cannot count.
    pub(crate) fn new(tensor: &NumericTensor) -> Result<Self, RunnerError> {
        let dtype = tensor.dtype();
        if !is_supported(dtype) {
            return Err(RunnerError::new(format!("libtorch {} has no tensors of {dtype}", crate::LIBTORCH_VERSION)));
        }
        let shape = tensor.shape().iter().map(|&size| i64::try_from(size));
        let shape = shape.collect::<Result<_, _>>().map_err(|_| RunnerError::new("a dimension that is too large"))?;
        let aligned = tensor.bytes().as_ptr().addr().is_multiple_of(dtype.size().unwrap_or(1));
        let tensor = if aligned {
            tensor.clone()
        } else {
            NumericTensor::copy_from_bytes(dtype, tensor.shape().to_vec(), tensor.bytes())?
        };
        Ok(Self { tensor: Arc::new(tensor), shape })
    }

    fn value(&self) -> shim::Value {
        shim::Value {
            dtype: dtype_number(self.tensor.dtype()),
            data: self.tensor.bytes().as_ptr().cast(),
            shape: self.shape.as_ptr(),
            rank: self.shape.len(),
            owner: owner(&self.tensor),
            ..empty_value(shim::VALUE_TENSOR)
        }
    }
}

/// Whether this libtorch has tensors of a dtype.
pub(crate) fn is_supported(dtype: DataType) -> bool {
    shim::carton_supports(dtype_number(dtype))
}

fn dtype_number(dtype: DataType) -> i32 {
    DataType::ALL.iter().position(|&known| known == dtype).and_then(|index| i32::try_from(index).ok()).unwrap_or(-1)
}

fn dtype_from_number(number: i32) -> Option<DataType> {
    DataType::ALL.get(usize::try_from(number).ok()?).copied()
}

/// The functions by which C++ shares an object with us.
fn owner<T: Send + Sync>(object: &Arc<T>) -> shim::Owner {
    unsafe extern "C" fn retain<T>(object: *const c_void) {
        // SAFETY: the pointer came from `Arc::as_ptr` of an `Arc<T>` that is alive: our caller keeps it for the call, and
        // afterwards the counts that `retain` adds do.
        unsafe { Arc::increment_strong_count(object.cast::<T>()) }
    }
    unsafe extern "C" fn release<T>(object: *const c_void) {
        // SAFETY: as above; each call takes back what one call of `retain` added.
        unsafe { Arc::decrement_strong_count(object.cast::<T>()) }
    }
    shim::Owner { object: Arc::as_ptr(object).cast(), retain: retain::<T>, release: release::<T> }
}

fn empty_value(kind: i32) -> shim::Value {
    unsafe extern "C" fn nothing(_: *const c_void) {}
    shim::Value {
        kind,
        dtype: -1,
        data: null(),
        shape: null(),
        rank: 0,
        owner: shim::Owner { object: null(), retain: nothing, release: nothing },
        texts: null(),
        n_texts: 0,
        elements: null(),
        n_elements: 0,
        integer: 0,
        real: 0.0,
    }
}

fn text(text: &str) -> shim::Text {
    shim::Text { data: text.as_ptr(), length: text.len() }
}

/// The bytes of a text of C++.
///
/// # Safety
/// It must live as long as `'a`.
unsafe fn bytes_of<'a>(text: shim::Text) -> &'a [u8] {
    // SAFETY: C++ gives pointer and length of a string that, as our caller promises, lives long enough.
    unsafe { slice_of(text.data, text.length) }
}

/// The elements at a pointer that may be null where there are none.
///
/// # Safety
/// There must be `length` of them, for as long as `'a`.
unsafe fn slice_of<'a, T>(data: *const T, length: usize) -> &'a [T] {
    if length == 0 {
        return &[];
    }
    // SAFETY: as our caller promises.
    unsafe { std::slice::from_raw_parts(data, length) }
}

/// Takes over an error of the shim.
fn check(error: *mut shim::Error) -> Result<(), RunnerError> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the shim returned an error, which is ours until we free it, once.
    let text = unsafe {
        let text = String::from_utf8_lossy(bytes_of(shim::carton_error_text(error))).into_owned();
        shim::carton_error_free(error);
        text
    };
    Err(from_libtorch(&text))
}

/// What forward may write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effects {
    /// Memory of its inputs, in the same call or, because it keeps them, in a later one.
    pub(crate) writes_inputs: bool,
    /// Attributes of its module, so that two calls must not run at once.
    pub(crate) changes_module: bool,
}

impl Effects {
    /// What has to be believed of a module that could not be analysed.
    pub(crate) const ALL: Self = Self { writes_inputs: true, changes_module: true };
}

/// A loaded module with a method forward.
pub(crate) struct Module(NonNull<shim::Module>);

// SAFETY: libtorch's modules belong to no thread; what is specific to one is set up by `carton_run`.
unsafe impl Send for Module {}
// SAFETY: as above, and libtorch runs one module in several threads at once as long as forward does not change it. Where
// `effects` says that it may, `TorchScript` lets one call run at a time, which the host keeps to and a lock makes sure of.
unsafe impl Sync for Module {}

impl Module {
    /// Loads the archive in `bytes`, which libtorch copies once, into the tensors.
    ///
    /// # Errors
    /// Whatever libtorch says of it.
    pub(crate) fn load(bytes: Arc<dyn Storage>, device: Device) -> Result<Self, RunnerError> {
        let bytes = Arc::new(bytes);
        let cuda = match device {
            Device::Cpu => -1,
            Device::Cuda(index) => index,
        };
        let mut module = null_mut();
        let archive = bytes.bytes();
        // SAFETY: the bytes are kept by their owner for as long as the shim keeps it; `module` may be written to.
        let error = unsafe { shim::carton_load(archive.as_ptr(), archive.len(), owner(&bytes), cuda, &raw mut module) };
        check(error)?;
        NonNull::new(module).map(Self).ok_or_else(|| RunnerError::new("libtorch loaded nothing"))
    }

    /// The arguments of forward without `self`.
    pub(crate) fn arguments(&self) -> Vec<Argument> {
        let mut arguments = null();
        // SAFETY: the module is alive, and so are its arguments while we copy them.
        let arguments = unsafe {
            let n_arguments = shim::carton_arguments(self.0.as_ptr(), &raw mut arguments);
            slice_of(arguments, n_arguments)
        };
        // SAFETY: as above.
        let text = |text| String::from_utf8_lossy(unsafe { bytes_of(text) }).into_owned();
        let argument = |argument: &shim::Argument| Argument {
            name: text(argument.name),
            type_name: text(argument.type_name),
            kind: Kind::from_number(argument.kind),
            element: Kind::from_number(argument.element),
            may_be_missing: argument.optional || argument.has_default,
        };
        arguments.iter().map(argument).collect()
    }

    /// What forward may write to.
    ///
    /// # Errors
    /// libtorch could not find out.
    pub(crate) fn effects(&self) -> Result<Effects, RunnerError> {
        let mut effects = Effects::ALL;
        let Effects { writes_inputs, changes_module } = &mut effects;
        // SAFETY: the module is alive; both flags may be written to.
        check(unsafe { shim::carton_effects(self.0.as_ptr(), writes_inputs, changes_module) })?;
        Ok(effects)
    }

    /// Runs forward on `values`: its arguments in order, or with `keys` one dictionary. With `copy` tensors are copied
    /// first; without it forward must not write to them.
    ///
    /// # Errors
    /// Whatever libtorch or the model says.
    pub(crate) fn run(&self, values: &[Value<'_>], keys: Option<&[&str]>, copy: bool) -> Result<Results, RunnerError> {
        if keys.is_some_and(|keys| keys.len() != values.len()) {
            return Err(RunnerError::new("not as many keys as values"));
        }
        let keys: Option<Vec<shim::Text>> = keys.map(|keys| keys.iter().map(|key| text(key)).collect());
        let texts: Vec<Vec<shim::Text>> = values.iter().map(texts_of).collect();
        let elements: Vec<Vec<shim::Value>> = values.iter().map(elements_of).collect();
        let shared: Vec<shim::Value> = values
            .iter()
            .zip(&texts)
            .zip(&elements)
            .map(|((value, texts), elements)| share(value, texts, elements))
            .collect();
        let mut results = null_mut();
        // A dictionary without keys is not the same as no dictionary.
        let keys = keys.as_ref().map_or(null(), Vec::as_ptr);
        // SAFETY: the module is alive, and so is everything that the values point to until the call is over; what libtorch
        // keeps longer it retains through its owner. Results may be written to.
        let error =
            unsafe { shim::carton_run(self.0.as_ptr(), shared.as_ptr(), shared.len(), keys, copy, &raw mut results) };
        check(error)?;
        NonNull::new(results).map(Results).ok_or_else(|| RunnerError::new("libtorch returned nothing"))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: the module is ours, and this is its end.
        unsafe { shim::carton_module_free(self.0.as_ptr()) }
    }
}

fn texts_of(value: &Value<'_>) -> Vec<shim::Text> {
    match value {
        Value::String(element) => vec![text(element)],
        Value::StringList(elements) => elements.iter().map(|element| text(element)).collect(),
        _ => Vec::new(),
    }
}

fn elements_of(value: &Value<'_>) -> Vec<shim::Value> {
    match value {
        Value::TensorList(tensors) => tensors.iter().map(Held::value).collect(),
        _ => Vec::new(),
    }
}

fn share(value: &Value<'_>, texts: &[shim::Text], elements: &[shim::Value]) -> shim::Value {
    let of_kind = |kind| shim::Value {
        texts: texts.as_ptr(),
        n_texts: texts.len(),
        elements: elements.as_ptr(),
        n_elements: elements.len(),
        ..empty_value(kind)
    };
    match value {
        Value::Tensor(tensor) => tensor.value(),
        Value::String(_) => of_kind(shim::VALUE_STRING),
        Value::StringList(_) => of_kind(shim::VALUE_STRING_LIST),
        Value::TensorList(_) => of_kind(shim::VALUE_TENSOR_LIST),
        Value::Int(integer) => shim::Value { integer: *integer, ..empty_value(shim::VALUE_INT) },
        Value::Float(real) => shim::Value { real: *real, ..empty_value(shim::VALUE_FLOAT) },
        Value::Bool(flag) => shim::Value { integer: i64::from(*flag), ..empty_value(shim::VALUE_BOOL) },
        Value::Default => empty_value(shim::VALUE_DEFAULT),
    }
}

/// How the outputs of a call belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Structure {
    /// Forward returned one value.
    One,
    /// A tuple.
    Sequence,
    /// A named tuple.
    NamedTuple,
    /// A dictionary of strings.
    Map,
}

/// What a call returned.
pub(crate) struct Results(NonNull<shim::Results>);

/// One output of a call.
pub(crate) struct Output<'a>(&'a shim::Output);

/// What an output holds.
pub(crate) enum OutputValue<'a> {
    Tensor { dtype: DataType, shape: Vec<usize> },
    String(&'a [u8]),
    StringList(Vec<&'a [u8]>),
    TensorList(Vec<Output<'a>>),
}

impl Results {
    /// The outputs in order, and how they belong together.
    pub(crate) fn outputs(&self) -> (Structure, Vec<Output<'_>>) {
        let (mut outputs, mut n_outputs) = (null(), 0);
        // SAFETY: the results are alive, and what they point to lives as long.
        let (structure, outputs) = unsafe {
            let structure = shim::carton_outputs(self.0.as_ptr(), &raw mut outputs, &raw mut n_outputs);
            (structure, slice_of(outputs, n_outputs))
        };
        let structure = match structure {
            0 => Structure::One,
            1 => Structure::Sequence,
            2 => Structure::NamedTuple,
            _ => Structure::Map,
        };
        (structure, outputs.iter().map(Output).collect())
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        // SAFETY: the results are ours, and this is their end.
        unsafe { shim::carton_result_free(self.0.as_ptr()) }
    }
}

impl<'a> Output<'a> {
    /// Its key or field; empty where it has none.
    pub(crate) fn name(&self) -> String {
        // SAFETY: the results, which are borrowed for `'a`, hold the text.
        String::from_utf8_lossy(unsafe { bytes_of(self.0.name) }).into_owned()
    }

    /// What it holds.
    ///
    /// # Errors
    /// A dtype or a shape that tensors do not have.
    pub(crate) fn value(&self) -> Result<OutputValue<'a>, RunnerError> {
        // SAFETY: the results, which are borrowed for `'a`, hold everything that their outputs point to.
        let (texts, elements, shape) = unsafe {
            (
                slice_of(self.0.texts, self.0.n_texts),
                slice_of(self.0.elements, self.0.n_elements),
                slice_of(self.0.shape, self.0.rank),
            )
        };
        // SAFETY: as above.
        let mut texts = texts.iter().map(|&text| unsafe { bytes_of(text) });
        Ok(match self.0.kind {
            shim::OUTPUT_STRING => OutputValue::String(texts.next().unwrap_or_default()),
            shim::OUTPUT_STRING_LIST => OutputValue::StringList(texts.collect()),
            shim::OUTPUT_TENSOR_LIST => OutputValue::TensorList(elements.iter().map(Output).collect()),
            _ => {
                let dtype = dtype_from_number(self.0.dtype).ok_or_else(|| RunnerError::new("an unknown dtype"))?;
                let shape = shape.iter().map(|&size| usize::try_from(size)).collect::<Result<_, _>>();
                OutputValue::Tensor { dtype, shape: shape.map_err(|_| RunnerError::new("a negative dimension"))? }
            }
        })
    }

    /// Writes the elements of a tensor to `target`, which has room for exactly them.
    ///
    /// # Errors
    /// Whatever libtorch says.
    pub(crate) fn copy_to(&self, target: &mut [u8]) -> Result<(), RunnerError> {
        if self.0.tensor.is_null() {
            return Err(RunnerError::new("this output is no tensor"));
        }
        // SAFETY: the output holds a tensor, and the shim compares the size of the target with what it will write.
        check(unsafe { shim::carton_copy_output(self.0, target.as_mut_ptr().cast(), target.len()) })
    }
}
