//! `__metadata__`: the strings that describe a file (spec/safetensors.md §3).

use super::HeaderError;
use super::string_table::StringTable;

/// The strings of `__metadata__`, in the order of the file. Keys are distinct.
///
/// ```
/// use carton_tensor::safetensors::Metadata;
/// let metadata = Metadata::new([("format", "pt")])?;
/// assert_eq!(metadata.get("format"), Some("pt"));
/// assert!(Metadata::default().is_absent() && !metadata.is_absent());
/// # Ok::<(), carton_tensor::safetensors::HeaderError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    keys: StringTable,
    values: StringTable,
    is_present: bool,
    is_null: bool,
}

impl Metadata {
    /// Makes metadata of these keys and values, which are written in this order.
    ///
    /// # Errors
    /// [`HeaderError::DuplicateMetadataKey`]; [`HeaderError::TooLong`] for more text than a header can have.
    pub fn new<K: AsRef<str>, V: AsRef<str>>(pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self, HeaderError> {
        let mut metadata = Self::present();
        for (key, value) in pairs {
            metadata.push_key(key.as_ref())?;
            metadata.push_value(value.as_ref())?;
        }
        metadata.index()?;
        Ok(metadata)
    }

    /// Makes metadata without keys.
    pub(super) fn present() -> Self {
        Self { is_present: true, ..Self::default() }
    }

    /// Makes metadata of which the file has null.
    pub(super) fn null() -> Self {
        Self { is_null: true, ..Self::default() }
    }

    pub(super) fn push_key(&mut self, key: &str) -> Result<(), HeaderError> {
        self.keys.push(key).ok_or(HeaderError::TooLong { length: u64::from(u32::MAX) })
    }

    pub(super) fn push_value(&mut self, value: &str) -> Result<(), HeaderError> {
        self.values.push(value).ok_or(HeaderError::TooLong { length: u64::from(u32::MAX) })
    }

    pub(super) fn index(&mut self) -> Result<(), HeaderError> {
        match self.keys.index() {
            Ok(()) => Ok(()),
            Err(position) => Err(HeaderError::DuplicateMetadataKey { key: self.keys.get(position).to_owned() }),
        }
    }

    /// Whether the header has no `__metadata__` at all, or null in its place. An empty `__metadata__` is not absent.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        !self.is_present
    }

    /// Whether the header has null in place of `__metadata__`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.is_null
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.keys.find(key).map(|position| self.values.get(position))
    }

    /// The keys and values, in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        (0..self.len()).map(|position| (self.keys.get(position), self.values.get(position)))
    }
}
