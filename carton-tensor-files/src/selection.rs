//! Which tensors are written, and under which names.

use std::collections::HashMap;

use carton_tensor::weights::Filter;

use crate::error::TensorFilesError;
use crate::layout::TensorLayout;
use crate::rename::Rename;
use crate::source::TensorSource;
use crate::tensor_info::TensorInfo;
use crate::text::{shown_name, shown_names};

/// Which tensors of the sources are written, and under which names.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Selection {
    /// Only tensors whose names match one of these patterns, if there are any; `*` stands for any characters, `?` for one.
    pub only: Vec<String>,
    /// No tensors whose names match one of these patterns.
    pub exclude: Vec<String>,
    /// Substitutions in the names, one after another.
    pub rename: Vec<Rename>,
}

/// A tensor that was selected.
pub(crate) struct Selected<'a> {
    /// The name that it gets.
    pub(crate) name: String,
    pub(crate) source: &'a TensorSource,
    pub(crate) listed: &'a TensorInfo,
}

impl Selection {
    /// Selects tensors of the sources, in their order. If they are dequantized, dense ones stand for those that are packed. Lists of tensors in a carton are left out, because their elements have names of their own.
    ///
    /// # Errors
    /// A pattern is not valid; none of `only` matches; nothing is left.
    pub(crate) fn select<'a>(
        &self,
        sources: &[&'a TensorSource],
        dequantize: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<Selected<'a>>, TensorFilesError> {
        let only = if self.only.is_empty() { Filter::ALL } else { Filter::any_glob(&self.only)? };
        let exclude = if self.exclude.is_empty() { None } else { Some(Filter::any_glob(&self.exclude)?) };
        let places = || sources.iter().map(|source| source.place()).collect::<Vec<_>>().join("` or `");
        let mut selected: Vec<Selected<'a>> = Vec::new();
        for source in sources {
            let listed = source.listed(dequantize).iter().filter(|listed| only.accepts(&listed.name));
            selected.extend(listed.map(|listed| Selected { name: self.renamed(&listed.name), source, listed }));
        }
        if selected.is_empty() && !self.only.is_empty() {
            return Err(TensorFilesError::NoneMatches { place: places(), patterns: self.only.clone() });
        }
        let n_selected = selected.len();
        selected.retain(|one| exclude.as_ref().is_none_or(|exclude| !exclude.accepts(&one.listed.name)));
        if exclude.is_some() && selected.len() == n_selected {
            warnings.push(format!("nothing is left out: no tensor matches `{}`", self.exclude.join("` or `")));
        } else if exclude.is_some() && selected.is_empty() {
            return Err(TensorFilesError::NoneLeft { place: places() });
        }
        leave_out_lists(&mut selected, warnings);
        Ok(selected)
    }

    fn renamed(&self, name: &str) -> String {
        self.rename.iter().fold(name.to_owned(), |name, rename| rename.apply(&name))
    }
}

fn leave_out_lists(selected: &mut Vec<Selected<'_>>, warnings: &mut Vec<String>) {
    let is_list = |one: &Selected<'_>| one.listed.format == TensorLayout::Nested;
    let lists: Vec<&str> = selected.iter().filter(|one| is_list(one)).map(|one| one.listed.name.as_str()).collect();
    // A single list is refused later, with a hint.
    if lists.is_empty() || selected.len() == 1 {
        return;
    }
    warnings.push(format!("tensors are written, and lists of them are not: {}", shown_names(lists)));
    selected.retain(|one| !is_list(one));
}

/// Refuses two tensors of one name.
pub(crate) fn check_names(selected: &[Selected<'_>]) -> Result<(), TensorFilesError> {
    let mut seen: HashMap<&str, &Selected<'_>> = HashMap::with_capacity(selected.len());
    for one in selected {
        if let Some(first) = seen.insert(&one.name, one) {
            let described =
                |one: &Selected<'_>| format!("`{}` of `{}`", shown_name(&one.listed.name), one.source.place());
            return Err(TensorFilesError::TwoOfOneName {
                name: shown_name(&one.name),
                first: described(first),
                second: described(one),
            });
        }
    }
    Ok(())
}
