//! What the message of a tensor says: its name, type and shape, and where its elements are. They are not read, but for text.

use std::collections::HashMap;
use std::ops::Range;

use super::error::{Problem, malformed, quoted, refused};
use super::external_path;
use super::onnx_type::{OnnxType, Values};
use super::source::{Field, text};
use crate::element_count;
use crate::files::ElementType;

/// The most dimensions of a tensor.
const MAX_RANK: usize = 64;

/// The longest name of a tensor or of a file, in bytes.
pub(super) const MAX_NAME: u64 = 64 << 10;

/// The most files of external data.
const MAX_FILES: usize = 4096;

/// A tensor, as its model describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) onnx_type: Option<OnnxType>,
    /// The bytes of the elements that are read; of a sparse tensor, those of its values and indices.
    pub(super) n_bytes: u64,
    pub(super) stored: u64,
    pub(super) data: Data,
    pub(super) unsupported: Option<String>,
}

/// Where the elements of a tensor are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// There are none.
    Nothing,
    /// The model has them as `raw_data` holds them.
    Raw(Range<u64>),
    /// A file of external data has them so, from `offset` on.
    External { file: usize, offset: u64, length: Option<u64> },
    /// They are values in a field of the message that the model has here.
    Values(Range<u64>),
    /// They are 0 but for these values, at these indices.
    Sparse(Box<[TensorInfo; 2]>),
}

impl TensorInfo {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The dimensions.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The element type in the model; `None` if it is not known.
    #[must_use]
    pub fn onnx_type(&self) -> Option<OnnxType> {
        self.onnx_type
    }

    /// The type of the elements that are read; `None` for strings, and for a tensor that is not read.
    #[must_use]
    pub fn dtype(&self) -> Option<ElementType> {
        if self.unsupported.is_some() { None } else { self.onnx_type?.element_type() }
    }

    /// Whether the elements are strings.
    #[must_use]
    pub fn is_strings(&self) -> bool {
        self.unsupported.is_none() && self.onnx_type == Some(OnnxType::String)
    }

    /// Whether only the values that are not 0 are stored.
    #[must_use]
    pub fn is_sparse(&self) -> bool {
        matches!(self.data, Data::Sparse(_))
    }

    /// The bytes of the elements that are read; of a sparse tensor, those of its values and indices.
    #[must_use]
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// The bytes that hold the elements in the file.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.stored
    }

    /// Why the tensor is not read, if it is not.
    #[must_use]
    pub fn unsupported(&self) -> Option<&str> {
        self.unsupported.as_deref()
    }

    /// The number of elements, which fits: the reading of the message has checked it.
    pub(super) fn n_elements(&self) -> u64 {
        element_count(&self.shape).unwrap_or_default() as u64
    }
}

/// The paths of the files of external data that tensors name, in the order of the model.
#[derive(Debug, Default)]
pub(super) struct Locations {
    pub(super) paths: Vec<String>,
    positions: HashMap<String, usize>,
}

impl Locations {
    fn position(&mut self, path: String) -> Result<usize, Problem> {
        if let Some(position) = self.positions.get(&path) {
            return Ok(*position);
        }
        let position = self.paths.len();
        if position == MAX_FILES {
            return refused(format!("its data is in more than {MAX_FILES} files"));
        }
        self.paths.push(path.clone());
        self.positions.insert(path, position);
        Ok(position)
    }
}

/// The fields of a tensor's message.
#[derive(Default)]
struct Fields {
    name: Option<String>,
    shape: Vec<usize>,
    number: Option<i64>,
    has_segment: bool,
    raw: Option<Range<u64>>,
    values: Option<Found>,
    location: Option<i64>,
    external: External,
}

/// What a field of values has.
struct Found {
    of: Values,
    /// Where it is, if all of it is at one place.
    once: Option<Range<u64>>,
    /// The bytes of numbers.
    n_bytes: u64,
    /// How often the field is there.
    count: u64,
}

#[derive(Default)]
struct External {
    location: Option<String>,
    offset: Option<String>,
    length: Option<String>,
}

/// Sets what a message has at most once.
pub(super) fn once<T>(place: &mut Option<T>, value: T, field: &Field<'_>, what: &str) -> Result<(), Problem> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => malformed(format!("{what} is there twice, at byte {}", field.offset())),
    }
}

/// Reads a text that a message has at most once.
pub(super) fn text_once(place: &mut Option<String>, field: &Field<'_>, what: &str, most: u64) -> Result<(), Problem> {
    once(place, text(field, what, most)?, field, what)
}

/// Reads dimensions.
pub(super) fn dimensions(field: &Field<'_>, shape: &mut Vec<usize>) -> Result<(), Problem> {
    field.integers(|size| match usize::try_from(size) {
        _ if shape.len() == MAX_RANK => {
            refused(format!("the tensor at byte {} has more than {MAX_RANK} dimensions", field.offset()))
        }
        Ok(size) => {
            shape.push(size);
            Ok(())
        }
        Err(_) => malformed(format!("a dimension at byte {} is {size}, expected at least 0", field.offset())),
    })
}

/// Reads the message of a tensor.
pub(super) fn tensor(field: &Field<'_>, locations: &mut Locations) -> Result<TensorInfo, Problem> {
    let mut fields = Fields::default();
    for part in field.message()? {
        let part = part?;
        match part.number() {
            1 => dimensions(&part, &mut fields.shape)?,
            2 => once(&mut fields.number, part.integer()?, &part, "the element type of a tensor")?,
            3 => fields.has_segment = true,
            8 => text_once(&mut fields.name, &part, "the name of a tensor", MAX_NAME)?,
            9 => once(&mut fields.raw, part.range()?, &part, "`raw_data`")?,
            13 => external_entry(&part, &mut fields.external)?,
            14 => once(&mut fields.location, part.integer()?, &part, "`data_location`")?,
            number => {
                if let Some(of) = Values::of_field(number) {
                    fields.add_values(of, &part)?;
                }
            }
        }
    }
    fields.into_tensor(field, locations)
}

/// The elements of a shape, and their bytes in `raw_data`; `None` if no memory can hold them. As for NumPy, the dimensions that are not 0 count, also where there
/// is no element.
fn sizes(shape: &[usize], onnx_type: Option<OnnxType>) -> Option<(u64, u64)> {
    let not_zero: Vec<usize> = shape.iter().copied().filter(|size| *size > 0).collect();
    let raw_bytes = |n_elements: u64| onnx_type.map_or(Some(n_elements), |of| of.raw_bytes(n_elements));
    let _ =
        raw_bytes(u64::try_from(element_count(&not_zero)?).ok()?).and_then(|n_bytes| i64::try_from(n_bytes).ok())?;
    let n_elements = u64::try_from(element_count(shape)?).ok()?;
    Some((n_elements, raw_bytes(n_elements)?))
}

fn external_entry(field: &Field<'_>, external: &mut External) -> Result<(), Problem> {
    let (mut key, mut value) = (None, None);
    for part in field.message()? {
        let part = part?;
        match part.number() {
            1 => text_once(&mut key, &part, "a key of external data", MAX_NAME)?,
            2 => text_once(&mut value, &part, "a value of external data", MAX_NAME)?,
            _ => {}
        }
    }
    let value = value.unwrap_or_default();
    match key.unwrap_or_default().as_str() {
        "location" => once(&mut external.location, value, field, "the location of external data"),
        "offset" => once(&mut external.offset, value, field, "the offset of external data"),
        "length" => once(&mut external.length, value, field, "the length of external data"),
        _ => Ok(()),
    }
}

impl Fields {
    fn add_values(&mut self, of: Values, field: &Field<'_>) -> Result<(), Problem> {
        let range = match of.size() {
            Some(size) => field.fixed(size)?,
            None if of == Values::String => field.range()?,
            // A number that is not packed takes at least a byte.
            None => field.range().or_else(|_| field.integer().map(|_| 0..1))?,
        };
        if range.is_empty() && of != Values::String {
            return Ok(());
        }
        match &mut self.values {
            None => {
                let n_bytes = range.end - range.start;
                self.values = Some(Found { of, once: Some(range), n_bytes, count: 1 });
            }
            Some(found) if found.of == of => {
                found.once = None;
                found.n_bytes = found.n_bytes.saturating_add(range.end - range.start);
                found.count = found.count.saturating_add(1);
            }
            Some(found) => {
                return malformed(format!(
                    "the tensor at byte {} has both `{}` and `{}`",
                    field.offset(),
                    found.of.field().1,
                    of.field().1
                ));
            }
        }
        Ok(())
    }

    fn into_tensor(self, field: &Field<'_>, locations: &mut Locations) -> Result<TensorInfo, Problem> {
        let name = self.name.clone().unwrap_or_default();
        let named = format!("tensor {} at byte {}", quoted(&name), field.offset());
        let number = self.number.unwrap_or_default();
        let onnx_type = OnnxType::of_number(number);
        let Some((n_elements, raw_bytes)) = sizes(&self.shape, onnx_type) else {
            return malformed(format!("{named} has the shape {:?}, which no memory can hold", self.shape));
        };
        let made = |n_bytes, stored, data, unsupported| {
            let (name, shape) = (name.clone(), self.shape.clone());
            Ok(TensorInfo { name, shape, onnx_type, n_bytes, stored, data, unsupported })
        };
        let Some(of) = onnx_type else {
            let reason = match number {
                0 => "it has no element type".to_owned(),
                number => format!("the element type {number} is not known"),
            };
            return made(0, 0, Data::Nothing, Some(reason));
        };
        if self.has_segment {
            return made(0, 0, Data::Nothing, Some("it is a segment of a larger tensor".to_owned()));
        }
        let n_bytes = match of.element_type() {
            None => 0,
            Some(dtype) => match element_count(&self.shape).and_then(|count| dtype.n_bytes(count)) {
                Some(n_bytes) => n_bytes as u64,
                // The tensors of other files have whole bytes alone.
                None => {
                    let reason = format!("{n_elements} elements of {} are no whole number of bytes", of.name());
                    return made(0, 0, Data::Nothing, Some(reason));
                }
            },
        };
        if !matches!(self.location, None | Some(0 | 1)) {
            return malformed(format!("`data_location` of {named} is {}, expected 0 or 1", self.location.unwrap_or(0)));
        }
        let data = if self.location == Some(1) {
            self.external(&named, of, raw_bytes, locations)?
        } else {
            self.inside(&named, of, (n_elements, raw_bytes), field)?
        };
        let stored = match (&data, &self.values) {
            (Data::Values(_), Some(found)) => found.n_bytes,
            _ => raw_bytes,
        };
        made(n_bytes, stored, data, None)
    }

    /// Finds the elements in the model.
    fn inside(
        &self,
        named: &str,
        of: OnnxType,
        (n_elements, raw_bytes): (u64, u64),
        field: &Field<'_>,
    ) -> Result<Data, Problem> {
        let (_, expected_field) = of.values().field();
        match (&self.raw, &self.values) {
            (Some(_), Some(found)) => malformed(format!("{named} has both `raw_data` and `{}`", found.of.field().1)),
            (Some(_), None) if of == OnnxType::String => {
                malformed(format!("{named} is of strings, and has `raw_data`, expected `string_data`"))
            }
            (Some(raw), None) if raw.end - raw.start == raw_bytes => Ok(Data::Raw(raw.clone())),
            (Some(raw), None) => malformed(format!(
                "`raw_data` of {named} has {} bytes, expected {raw_bytes} for {n_elements} elements of {}",
                raw.end - raw.start,
                of.name()
            )),
            (None, None) if n_elements == 0 => Ok(Data::Nothing),
            (None, None) => malformed(format!("{named} has no data, expected {n_elements} elements of {}", of.name())),
            (None, Some(found)) if found.of != of.values() => malformed(format!(
                "{named} is of {} and has `{}`, expected `{expected_field}`",
                of.name(),
                found.of.field().1
            )),
            (None, Some(found)) => {
                let expected = of.n_values(n_elements).unwrap_or(u64::MAX);
                let is_right = match (found.of, found.of.size()) {
                    (_, Some(size)) => found.n_bytes / size == expected,
                    (Values::String, None) => found.count == expected,
                    // A number has from one to ten bytes. Reading counts them.
                    (_, None) => (expected..=expected.saturating_mul(10)).contains(&found.n_bytes),
                };
                if !is_right {
                    let has = match (found.of, found.of.size()) {
                        (_, Some(size)) => format!("{} values", found.n_bytes / size),
                        (Values::String, None) => format!("{} values", found.count),
                        (_, None) => format!("{} bytes of values", found.n_bytes),
                    };
                    return malformed(format!("`{expected_field}` of {named} has {has}, expected {expected} values"));
                }
                // Packed floats are as `raw_data` has them.
                match &found.once {
                    Some(range) if found.of.size().is_some() => Ok(Data::Raw(range.clone())),
                    _ => Ok(Data::Values(field.range()?)),
                }
            }
        }
    }

    /// Finds the elements in a file of external data, whose length is not known yet.
    fn external(&self, named: &str, of: OnnxType, raw_bytes: u64, locations: &mut Locations) -> Result<Data, Problem> {
        if of == OnnxType::String {
            return malformed(format!("{named} is of strings, and its data is external"));
        }
        let inside = self.values.as_ref().map(|found| found.of.field().1);
        if let Some(field) = self.raw.as_ref().map(|_| "raw_data").or(inside) {
            return malformed(format!("the data of {named} is external, and it has `{field}` too"));
        }
        let Some(location) = &self.external.location else {
            return malformed(format!("the data of {named} is external, and it has no location"));
        };
        let path = external_path(location)
            .map_err(|why| Problem::Refused(format!("the location {} of {named} {why}", quoted(location))))?;
        let number = |key: &str, value: &Option<String>| {
            let Some(value) = value else { return Ok(None) };
            let is_plain = value.bytes().all(|byte| byte.is_ascii_digit());
            match value.parse::<u64>().ok().filter(|_| is_plain) {
                Some(number) => Ok(Some(number)),
                None => malformed(format!("the {key} of {named} is {}, expected a number", quoted(value))),
            }
        };
        let (offset, length) = (number("offset", &self.external.offset)?, number("length", &self.external.length)?);
        if let Some(length) = length.filter(|length| *length != raw_bytes) {
            return malformed(format!("the length of the external data of {named} is {length}, expected {raw_bytes}"));
        }
        Ok(Data::External { file: locations.position(path)?, offset: offset.unwrap_or(0), length })
    }
}
