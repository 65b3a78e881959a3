//! The tensors that are quantized already, which are written as they are.

use std::collections::{BTreeMap, BTreeSet};

use carton_tensor::weights::{self, Described};

use crate::layout::TensorLayout;
use crate::source::TensorSource;
use crate::text::shown_names;

/// Returns the tensors that are quantized already, with what belongs to them, each with the name of its scheme (spec/weights.md §2.3).
pub(crate) fn quantized_already(source: &TensorSource) -> BTreeMap<&str, &'static str> {
    // A scale belongs to its tensor even if only one of them is asked for.
    let mut already = match source.file() {
        Some(file) => weights::quantized_already(file.entries().map(|entry| Described::of(&entry))),
        None => {
            let described = source.tensors().iter();
            let described = described.map(|listed| Described {
                name: &listed.name,
                dtype: listed.element_type,
                shape: listed.shape.as_deref().unwrap_or_default(),
            });
            weights::quantized_already(described)
        }
    };
    let listed: BTreeSet<&str> = source.tensors().iter().map(|listed| listed.name.as_str()).collect();
    already.retain(|name, _| listed.contains(name));
    let groups = source.tensors().iter().filter(|listed| listed.format == TensorLayout::QuantizedGroup);
    already.extend(groups.map(|listed| (listed.name.as_str(), "in groups")));
    let blocks = source.tensors().iter().filter(|listed| listed.format == TensorLayout::Ggml);
    already.extend(blocks.map(|listed| (listed.name.as_str(), "in blocks")));
    already
}

/// Says of each scheme which tensors are written as they are because of it.
pub(crate) fn left_as_they_are(already: &BTreeMap<&str, &'static str>) -> Vec<String> {
    let mut by_scheme: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, scheme) in already {
        by_scheme.entry(scheme).or_default().push(name);
    }
    let warning = |(scheme, names)| {
        format!("written as they are, because they are quantized already ({scheme}): {}", shown_names::<'_>(names))
    };
    by_scheme.into_iter().map(warning).collect()
}
