//! Reads what examples and self-tests refer to, if it is here and small: a page must appear at once, whatever the carton holds.

use std::collections::BTreeMap;

use carton_core::metadata::Reference;
use carton_core::package::{ExampleValue, Info};
use carton_core::tensor::TensorEntry;
use carton_core::{Package, Tensor};

use crate::budget::Budget;
use crate::text;

/// All values that are read for a page are this large at most, together.
const MAX_BYTES: u64 = 32 << 20;
/// The largest file that a value is read from. A tensor's file may hold many, and is verified as a whole.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Reads values of a carton within a budget.
pub(crate) struct Reader<'a> {
    package: &'a Package,
    /// The sizes of the files that are in the carton; `None` for a file that is elsewhere.
    sizes: BTreeMap<&'a str, Option<u64>>,
    budget: Budget,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(package: &'a Package, info: &'a Info) -> Self {
        let files = info.files.iter();
        let sizes = files.map(|file| (file.path.as_str(), file.size.filter(|_| !file.linked))).collect();
        Self { package, sizes, budget: Budget::new(MAX_BYTES) }
    }

    /// Reads a value.
    ///
    /// # Errors
    /// Why it is not shown, as a text for people.
    pub(crate) fn value(&mut self, reference: &Reference) -> Result<ExampleValue, String> {
        let size = match reference {
            Reference::Misc(path) => self.file_size(&format!("misc/{path}"))?,
            Reference::TensorData(name) => self.tensor_size(name)?,
        };
        if !self.budget.take(size) {
            return Err(format!("{}, too large to show", text::byte_size(size)));
        }
        self.package.value(reference).map_err(|error| format!("cannot be read: {error}"))
    }

    /// Reads a file of `misc/` for which there is still this much room in the page.
    pub(crate) fn misc_within(&mut self, path: &str, room: &Budget) -> Option<Vec<u8>> {
        let size = self.file_size(&format!("misc/{path}")).ok()?;
        let is_small = room.has(size) && self.budget.take(size);
        is_small.then(|| self.package.misc(path).ok()).flatten()
    }

    /// Reads a tensor of at most this many bytes.
    pub(crate) fn tensor_within(&mut self, name: &str, n_bytes: u64) -> Option<Tensor> {
        let size = self.tensor_size(name).ok()?;
        let is_small = size <= n_bytes && self.budget.take(size);
        is_small.then(|| self.package.tensor(name).ok()).flatten()
    }

    fn file_size(&self, path: &str) -> Result<u64, String> {
        let size = self.sizes.get(path).copied().flatten().ok_or_else(|| "not in the carton itself".to_owned())?;
        match size {
            ..=MAX_FILE_BYTES => Ok(size),
            _ => Err(format!("{}, too large to show", text::byte_size(size))),
        }
    }

    fn tensor_size(&self, name: &str) -> Result<u64, String> {
        let index = self.package.tensors();
        let file_size = |file: &str| self.file_size(&format!("tensor_data/{file}"));
        match index.get(name) {
            Some(TensorEntry::Plain { file, .. }) => file_size(file),
            Some(TensorEntry::Member { dtype, shape, file, .. }) => {
                file_size(file)?;
                let n_elements = shape.iter().try_fold(1_u64, |product, &size| product.checked_mul(size as u64));
                let size = n_elements.and_then(|n_elements| n_elements.checked_mul(dtype.size()? as u64));
                size.ok_or_else(|| "too large to show".to_owned())
            }
            Some(TensorEntry::Nested { inner }) => inner.iter().try_fold(0_u64, |sum, name| {
                // Inner tensors are never nested.
                Ok(sum.saturating_add(self.tensor_size(name)?))
            }),
            _ => Err("there is no such tensor".to_owned()),
        }
    }
}
