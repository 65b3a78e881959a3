//! What differs between the tensors of two sources, which may have other formats and be at other places. Elements are compared by
//! [`carton_tensor::difference`].

use carton_tensor::context::{Cancelled, Context};
use carton_tensor::difference::{
    Compared, DifferenceOptions, TensorForm, TensorsDifference, compare_entries, compare_lists, compare_pair,
    compare_tensors,
};
use carton_tensor::weights::Filter;

use crate::error::TensorFilesError;
use crate::source::TensorSource;
use crate::tensor_info::TensorInfo;

/// How two sources are compared.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DiffOptions {
    /// How elements are compared.
    pub elements: DifferenceOptions,
    /// Only tensors whose names match one of these patterns; all if there are none.
    pub only: Vec<String>,
}

/// Compares the tensors of two sources by their names. Where both are one tensor, because it was asked for or is an `.npy` file, it is
/// compared whatever its names are.
///
/// Tensors of files are read in pieces ([`compare_entries`] says which are not), those of cartons one at a time.
///
/// # Errors
/// A tensor cannot be read, or is damaged; a pattern is not valid, or matches no tensor of either source; the work was cancelled.
pub fn diff(
    a: &TensorSource,
    b: &TensorSource,
    options: &DiffOptions,
    context: &Context,
) -> Result<TensorsDifference, TensorFilesError> {
    let (list_a, list_b) = (forms(a, &options.only)?, forms(b, &options.only)?);
    if !options.only.is_empty() && list_a.is_empty() && list_b.is_empty() {
        let place = format!("{}` or `{}", a.place(), b.place());
        return Err(TensorFilesError::NoneMatches { place, patterns: options.only.clone() });
    }
    let meter = context.meter("comparing", a.total().saturating_add(b.total()));
    let advance = |n_bytes: u64| meter.advance(n_bytes);
    let compare = |of_a: &TensorForm, of_b: &TensorForm| {
        context.check()?;
        compare_one((a, &of_a.name), (b, &of_b.name), &options.elements, &advance)
    };
    match (a.only_one(), b.only_one(), list_a.as_slice(), list_b.as_slice()) {
        (Some(_), Some(_), [of_a], [of_b]) => compare_pair(of_a, of_b, compare),
        _ => compare_lists(&list_a, &list_b, compare),
    }
}

fn forms(source: &TensorSource, patterns: &[String]) -> Result<Vec<TensorForm>, TensorFilesError> {
    let filter = match patterns {
        [] => Filter::ALL,
        patterns => Filter::any_glob(patterns)?,
    };
    source.tensors().iter().filter(|info| filter.accepts(&info.name)).map(|info| form(source, info)).collect()
}

fn form(source: &TensorSource, info: &TensorInfo) -> Result<TensorForm, TensorFilesError> {
    Ok(match source.entry(&info.name)? {
        // The array of an .npy file is listed under the name of the file.
        Some(entry) => {
            let form = TensorForm::of_entry(&entry);
            TensorForm::new(info.name.clone(), form.dtype, form.shape)
        }
        None => TensorForm::new(info.name.clone(), info.dtype.clone(), info.shape.clone()),
    })
}

fn compare_one(
    (a, name_a): (&TensorSource, &str),
    (b, name_b): (&TensorSource, &str),
    options: &DifferenceOptions,
    advance: &(dyn Fn(u64) -> Result<(), Cancelled> + Sync),
) -> Result<Compared, TensorFilesError> {
    if let (Some(entry_a), Some(entry_b)) = (a.entry(name_a)?, b.entry(name_b)?) {
        return compare_entries(&entry_a, &entry_b, options, advance);
    }
    for (source, name) in [(a, name_a), (b, name_b)] {
        if let Some(reason) = source.get(name).and_then(|info| info.unusable.clone()) {
            return Ok(Compared::No(reason));
        }
        advance(source.get(name).and_then(|info| info.bytes).unwrap_or(0))?;
    }
    match (a.tensor(name_a)?, b.tensor(name_b)?) {
        (Some(of_a), Some(of_b)) => Ok(compare_tensors(&of_a, &of_b, options)),
        _ => Ok(Compared::No("one has elements that tensors of cartons cannot have".to_owned())),
    }
}
