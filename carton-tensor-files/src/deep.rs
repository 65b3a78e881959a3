//! What [`verify()`](crate::verify()) looks for in the numbers of tensors, if it is asked to: what is odd though no file is damaged.

use std::collections::BTreeMap;

use carton_core::ErrorKind;
use carton_tensor::any_file::Entry;
use carton_tensor::context::Context;
use carton_tensor::files::ElementType;
use carton_tensor::parallel::{available_threads, par_map};
use carton_tensor::weights::{Examined, examine, examine_entry};
use serde::Serialize;

use crate::error::TensorFilesError;
use crate::source::TensorSource;
use crate::tensor_info::TensorInfo;
use crate::text::{count, shown_name, shown_names};

/// What the numbers of tensors have that a person may want to know.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct DeepFindings {
    /// The number of tensors whose numbers were read.
    pub examined: usize,
    /// Tensors with numbers that are not finite.
    pub not_finite: Vec<NotFinite>,
    /// Tensors of more than one element, all of which are equal.
    pub constant: Vec<Constant>,
    /// Tensors of one dtype with the same bytes. Constant ones, and those of one element, are left out: equal ones are no coincidence.
    pub copies: Vec<Copies>,
    /// Tensors whose numbers were not read, one line each, with the reason.
    pub not_examined: Vec<String>,
}

/// A tensor with numbers that are not finite.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct NotFinite {
    /// Its name.
    pub name: String,
    /// The number of NaNs; of complex numbers, that of their parts.
    pub nan: u64,
    /// The number of infinities of either sign.
    pub infinite: u64,
    /// The number of its elements.
    pub elements: u64,
}

/// A tensor whose elements are all equal.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Constant {
    /// Its name.
    pub name: String,
    /// The element. `None` for a complex number; `null` in JSON also for an infinite one.
    pub value: Option<f64>,
    /// The number of its elements.
    pub elements: u64,
}

/// Tensors with the same bytes.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Copies {
    /// Their names, in the order of the file.
    pub names: Vec<String>,
    /// The size of each in bytes.
    pub bytes: u64,
    /// Whether all of them are one place in the file. Otherwise their bytes are stored several times.
    pub is_shared: bool,
}

impl DeepFindings {
    /// The findings, one line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let not_finite = self.not_finite.iter().map(|found| {
            let (name, elements) = (shown_name(&found.name), count(found.elements, "element"));
            let infinities = if found.infinite == 1 { "infinity" } else { "infinities" };
            format!("`{name}` has {} NaN and {} {infinities} among {elements}", found.nan, found.infinite)
        });
        let constant = self.constant.iter().map(|found| {
            let value = found.value.map(|value| format!(", {value:?}")).unwrap_or_default();
            format!("the {} of `{}` are all equal{value}", count(found.elements, "element"), shown_name(&found.name))
        });
        let copies = self.copies.iter().map(|found| {
            let stored = if found.is_shared { "stored once" } else { "each stored" };
            format!("{} have the same bytes, {stored}", shown_names(found.names.iter().map(String::as_str)))
        });
        let not_examined = self.not_examined.iter().map(|line| format!("not examined: {line}"));
        not_finite.chain(constant).chain(copies).chain(not_examined).collect()
    }
}

/// Reads the numbers of all tensors, each once and in pieces. What is damaged is left to other checks.
///
/// # Errors
/// The file cannot be read; the work was cancelled.
pub(crate) fn examine_all(source: &TensorSource, context: &Context) -> Result<DeepFindings, TensorFilesError> {
    let listed = source.tensors();
    let meter = context.meter("examining", source.total());
    let examined = par_map(
        listed.len(),
        available_threads(),
        || (),
        |(), position| {
            let Some(info) = listed.get(position) else { return Ok(None) };
            let result = examine_one(source, info, &|n_bytes| meter.advance(n_bytes));
            match result {
                Err(error) if error.kind() == ErrorKind::Integrity => Ok(None),
                Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(Some(Err(error.to_string()))),
                Err(error) => Err(error),
                Ok(examined) => Ok(Some(examined)),
            }
        },
    )?;
    let mut found = DeepFindings::default();
    let mut by_digest: BTreeMap<(ElementType, u64, [u8; 32]), Vec<&TensorInfo>> = BTreeMap::new();
    for (info, examined) in listed.iter().zip(examined) {
        let name = info.name.clone();
        let examined = match examined {
            None => continue,
            Some(Err(reason)) => {
                found.not_examined.push(format!("`{}`: {reason}", shown_name(&name)));
                continue;
            }
            Some(Ok(examined)) => examined,
        };
        found.examined += 1;
        let Examined { n_nan: nan, n_infinite: infinite, n_elements: elements, .. } = examined;
        if nan > 0 || infinite > 0 {
            found.not_finite.push(NotFinite { name: name.clone(), nan, infinite, elements });
        }
        if elements < 2 {
            continue;
        }
        if examined.is_constant {
            found.constant.push(Constant { name, value: examined.first, elements });
        } else {
            by_digest.entry((examined.dtype, examined.n_bytes, examined.sha256)).or_default().push(info);
        }
    }
    found.copies = copies(source, by_digest)?;
    Ok(found)
}

/// The numbers of a tensor, or why they are not examined.
fn examine_one(
    source: &TensorSource,
    info: &TensorInfo,
    advance: &(dyn Fn(u64) -> Result<(), carton_tensor::context::Cancelled> + Sync),
) -> Result<Result<Examined, String>, TensorFilesError> {
    if let Some(reason) = &info.unusable {
        return Ok(Err(reason.clone()));
    }
    let Some(entry) = source.entry(&info.name)? else {
        advance(info.bytes.unwrap_or(0))?;
        return match source.read(&info.name)?.into_numbers() {
            Some(tensor) => Ok(Ok(examine(&tensor)?)),
            None => Ok(Err("it has no numbers".to_owned())),
        };
    };
    match entry.not_numbers() {
        Some(what) => Ok(Err(format!("it is {what}"))),
        None => Ok(Ok(examine_entry(&entry, advance)?)),
    }
}

/// Groups of more than one tensor, by the first of each in the order of the file.
fn copies(
    source: &TensorSource,
    by_digest: BTreeMap<(ElementType, u64, [u8; 32]), Vec<&TensorInfo>>,
) -> Result<Vec<Copies>, TensorFilesError> {
    let order: BTreeMap<&str, usize> =
        source.tensors().iter().enumerate().map(|(position, info)| (info.name.as_str(), position)).collect();
    let mut all = Vec::new();
    for ((_, bytes, _), group) in by_digest.into_iter().filter(|(_, group)| group.len() > 1) {
        let names: Vec<String> = group.iter().map(|info| info.name.clone()).collect();
        let mut places = Vec::new();
        for name in &names {
            places.push(
                source
                    .entry(name)?
                    .as_ref()
                    .and_then(Entry::location)
                    .map(|(file, range)| (std::ptr::from_ref(file), range)),
            );
        }
        let is_shared = places.iter().all(|place| place.is_some() && Some(place) == places.first());
        all.push(Copies { names, bytes, is_shared });
    }
    all.sort_by_key(|copies| copies.names.first().and_then(|name| order.get(name.as_str())).copied());
    Ok(all)
}
