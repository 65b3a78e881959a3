//! carton.toml as serde reads it: the types are right, the values are not checked. Unknown tables and fields are ignored, so that later
//! writers can add some without a new `spec_version`; drafts are searched for them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::MetadataError;
use super::table::Table;
use crate::model_card;
use crate::unknown_keys::Known;

/// The whole file except `spec_version`, which is read first.
#[derive(Deserialize)]
pub(super) struct RawMetadata {
    pub(super) model_name: Option<String>,
    pub(super) short_description: Option<String>,
    pub(super) model_description: Option<String>,
    pub(super) license: Option<String>,
    pub(super) repository: Option<String>,
    pub(super) homepage: Option<String>,
    #[serde(default)]
    pub(super) required_platforms: Vec<String>,
    pub(super) input: Option<Vec<Table<RawTensorSpec>>>,
    pub(super) output: Option<Vec<Table<RawTensorSpec>>>,
    #[serde(default)]
    pub(super) self_test: Vec<Table<RawSelfTest>>,
    #[serde(default)]
    pub(super) example: Vec<Table<RawExample>>,
    pub(super) runner: Option<Table<RawRunner>>,
    pub(super) sandbox: Option<Table<RawSandbox>>,
    /// Of any type, because a card is never a reason not to open a carton.
    pub(super) card: Option<toml::Value>,
}

#[derive(Deserialize)]
pub(super) struct RawTensorSpec {
    pub(super) name: String,
    pub(super) dtype: String,
    /// Of any type, because later versions may say more here.
    pub(super) element: Option<toml::Value>,
    /// A string, or a list of strings and integers. It is checked later, with a better message than serde's for untagged enums.
    pub(super) shape: toml::Value,
    pub(super) description: Option<String>,
    pub(super) internal_name: Option<String>,
    pub(super) optional: Option<bool>,
    /// Of any type, as `element`.
    pub(super) default: Option<toml::Value>,
}

#[derive(Deserialize)]
pub(super) struct RawSelfTest {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) inputs: BTreeMap<String, String>,
    pub(super) expected_out: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
pub(super) struct RawExample {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    #[serde(default)]
    pub(super) inputs: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) sample_out: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
pub(super) struct RawRunner {
    pub(super) runner_name: Option<String>,
    pub(super) required_framework_version: Option<String>,
    pub(super) runner_compat_version: Option<u64>,
    #[serde(default)]
    pub(super) opts: toml::Table,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
}

#[derive(Deserialize)]
pub(super) struct RawSandbox {
    #[serde(default)]
    pub(super) network: bool,
    #[serde(default)]
    pub(super) read: Vec<String>,
}

/// Whether a file must have `spec_version`: a carton's must, a draft need not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Required,
    Optional,
}

impl RawMetadata {
    /// The keys of this version of the format. The keys in `[runner.opts]` belong to the runner, those in `[runner.env]` to the
    /// model.
    pub(super) fn known() -> Known {
        Known::fields::<Self>()
            .key("spec_version")
            .table("input", Known::fields::<RawTensorSpec>())
            .table("output", Known::fields::<RawTensorSpec>().without("default"))
            .table("self_test", Known::fields::<RawSelfTest>())
            .table("example", Known::fields::<RawExample>())
            .table("runner", Known::fields::<RawRunner>())
            .table("sandbox", Known::fields::<RawSandbox>())
            .table("card", model_card::known_keys())
    }

    /// Reads the file. Checks `spec_version` first: the rest of a file of another version is not checked.
    pub(super) fn parse(text: &str, version: Version) -> Result<Self, MetadataError> {
        let syntax = |error| MetadataError::syntax(text, error);
        let table: toml::Table = toml::from_str(text).map_err(syntax)?;
        match table.get("spec_version") {
            Some(toml::Value::Integer(1)) => {}
            Some(toml::Value::Integer(found)) => {
                return Err(MetadataError::UnsupportedVersion { found: found.to_string() });
            }
            Some(other) => {
                let detail = format!("expected an integer, found {}", described(other));
                return Err(MetadataError::WrongType { field: "spec_version".to_owned(), detail });
            }
            None if version == Version::Optional => {}
            None => return Err(MetadataError::missing("spec_version", "1")),
        }
        // Parses the text again instead of converting the table, which would turn dates into strings.
        let deserializer = toml::Deserializer::parse(text).map_err(syntax)?;
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            let field = error.path().to_string();
            let detail = error.into_inner().message().trim_end().to_owned();
            MetadataError::WrongType { field, detail }
        })
    }
}

/// The type of a TOML value, for messages.
pub(super) fn described(value: &toml::Value) -> &'static str {
    match value {
        toml::Value::String(_) => "a string",
        toml::Value::Integer(_) => "an integer",
        toml::Value::Float(_) => "a float",
        toml::Value::Boolean(_) => "a boolean",
        toml::Value::Datetime(_) => "a date or time",
        toml::Value::Array(_) => "a list",
        toml::Value::Table(_) => "a table",
    }
}
