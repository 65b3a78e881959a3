//! What both sides say of a model: its tensors, its options.

use std::collections::BTreeMap;

use carton_tensor::{DataType, SymbolicShape, Tensor};
use serde::{Deserialize, Serialize};

/// Named tensors, in order of name.
pub type Tensors = BTreeMap<String, Tensor>;

/// The value of an option: any JSON value. This type stays what it is for as long as the protocol is JSON.
pub type OptionValue = serde_json::Value;

/// Options of a model (`[runner.opts]`, overridden at load), by name.
pub type Options = BTreeMap<String, OptionValue>;

/// One declared input or output of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorSpec {
    /// The name callers use.
    pub name: String,
    /// The element type.
    pub dtype: DataType,
    /// The shapes it may have.
    pub shape: SymbolicShape,
    /// The name inside the model, where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal_name: Option<String>,
}

impl TensorSpec {
    /// The name that the model itself uses.
    #[must_use]
    pub fn model_name(&self) -> &str {
        self.internal_name.as_deref().unwrap_or(&self.name)
    }
}
