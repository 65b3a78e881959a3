//! Parses the TOML files of `tensor_data`.

use serde::de::DeserializeOwned;

use super::TensorDataError;

/// Parses a TOML file of `tensor_data`.
pub(super) fn parse_toml<T: DeserializeOwned>(file: &str, bytes: &[u8]) -> Result<T, TensorDataError> {
    let text = str::from_utf8(bytes)
        .map_err(|error| TensorDataError::NotUtf8 { file: file.to_owned(), offset: error.valid_up_to() })?;
    toml::from_str(text)
        .map_err(|source| TensorDataError::Malformed { file: file.to_owned(), source: Box::new(source) })
}
