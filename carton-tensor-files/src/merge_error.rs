//! Why models cannot be merged.

use carton_tensor::files::ElementType;
use carton_tensor::weights::BlendError;

use crate::text::shown_names;

/// The reason that models cannot be merged, or an adapter with its model. Names of tensors are as messages show them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The method does not fit the models, or one of its numbers is wrong.
    #[error(transparent)]
    Method(BlendError),
    /// The tensors of one name cannot be blended.
    #[error("tensor `{name}` cannot be blended")]
    Tensor {
        /// The tensor.
        name: String,
        /// The cause.
        source: BlendError,
    },
    /// The method has no such option.
    #[error("`{option}` is no option of the method {method}")]
    NoOption {
        /// The option, as a field of [`MergeOptions`](crate::MergeOptions), or `base`.
        option: &'static str,
        /// The method.
        method: &'static str,
    },
    /// The method needs an option.
    #[error("the method {method} needs `{option}`")]
    NeedsOption {
        /// The option.
        option: &'static str,
        /// The method.
        method: &'static str,
    },
    /// The tensors of a carton's self-tests are no model.
    #[error("`{place}` is no tensor file, so it is no model to merge")]
    NoModel {
        /// The place.
        place: String,
    },
    /// A tensor has no numbers that are merged.
    #[error("tensor `{name}` of `{place}` {what}")]
    NotMerged {
        /// The model.
        place: String,
        /// The tensor.
        name: String,
        /// What it is or why it cannot be read.
        what: String,
    },
    /// A model is quantized. Blending its integers and scales would not blend the weights that they stand for.
    #[error("tensor `{name}` of `{place}` is quantized ({scheme})")]
    Quantized {
        /// The model.
        place: String,
        /// The tensor.
        name: String,
        /// How it is quantized.
        scheme: &'static str,
    },
    /// A model lacks tensors that another has.
    #[error("`{place}` does not have {} of `{other}`", shown_names(names.iter().map(String::as_str)))]
    Missing {
        /// The model that lacks them.
        place: String,
        /// The other one.
        other: String,
        /// The names of the tensors.
        names: Vec<String>,
    },
    /// A tensor has another dtype or shape in another model.
    #[error("tensor `{name}` is {expected} in `{place}`, and {found} in `{other}`")]
    Unlike {
        /// The tensor.
        name: String,
        /// A model.
        place: String,
        /// The dtype and the shape there.
        expected: String,
        /// Another model.
        other: String,
        /// The dtype and the shape there.
        found: String,
    },
    /// A tensor that is not blended has other elements in another model.
    #[error("tensor `{name}` differs between the models, and numbers of {dtype} are not blended")]
    NotAlike {
        /// The tensor.
        name: String,
        /// Its type.
        dtype: ElementType,
    },
    /// An adapter cannot be merged with its model.
    #[error("the adapter `{place}` cannot be merged: {problem}")]
    Adapter {
        /// The file of the adapter's tensors, or of its settings.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// Adapters are merged into one model.
    #[error("adapters are merged into one model, and {found} were given")]
    OneModel {
        /// The number of models.
        found: usize,
    },
    /// Another number of factors than adapters.
    #[error("{expected} scales are needed, one for each adapter, and {found} were given")]
    Scales {
        /// The number of adapters.
        expected: usize,
        /// The number of factors.
        found: usize,
    },
}
