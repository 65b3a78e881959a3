//! What is known of the tensors of a checkpoint when its packed ones are described. Pure.

use super::super::schemes::ByName;
use super::QuantizationConfig;
use crate::element_count;
use crate::files::ElementType;

/// Returns the bytes of a small tensor that describes others.
pub(super) type Values<'a> = dyn Fn(&str) -> Option<Vec<u8>> + 'a;

/// The tensors, the configuration beside them, and the contents of small ones.
pub(super) struct Tensors<'a> {
    pub(super) by_name: &'a ByName<'a>,
    pub(super) config: Option<&'a QuantizationConfig>,
    pub(super) values: &'a Values<'a>,
}

impl<'a> Tensors<'a> {
    pub(super) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The element type and shape of a tensor that is needed.
    pub(super) fn need(&self, name: &str) -> Result<(ElementType, &'a [usize]), String> {
        let found = self.by_name.get(name).ok_or_else(|| format!("there is no `{}`", name.escape_debug()))?;
        let dtype = found.dtype.ok_or_else(|| format!("`{}` is no tensor of numbers", name.escape_debug()))?;
        Ok((dtype, found.shape))
    }

    pub(super) fn shape(&self, name: &str) -> Result<&'a [usize], String> {
        Ok(self.need(name)?.1)
    }

    /// Checks element type and shape of a tensor that is needed, and returns the type.
    pub(super) fn expect(&self, name: &str, dtypes: &[ElementType], shape: &[usize]) -> Result<ElementType, String> {
        let (dtype, found) = self.need(name)?;
        if found != shape {
            return Err(format!("`{}` has the shape {found:?}, expected {shape:?}", name.escape_debug()));
        }
        self.expect_dtype(name, dtype, dtypes)
    }

    /// Checks that a tensor has one element, of any number of dimensions.
    pub(super) fn expect_one(&self, name: &str, dtypes: &[ElementType]) -> Result<ElementType, String> {
        let (dtype, found) = self.need(name)?;
        if element_count(found) != Some(1) {
            return Err(format!("`{}` has the shape {found:?}, expected one element", name.escape_debug()));
        }
        self.expect_dtype(name, dtype, dtypes)
    }

    fn expect_dtype(&self, name: &str, dtype: ElementType, dtypes: &[ElementType]) -> Result<ElementType, String> {
        if dtypes.contains(&dtype) {
            return Ok(dtype);
        }
        let expected: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
        Err(format!("`{}` is {dtype}, expected {}", name.escape_debug(), expected.join(" or ")))
    }

    /// The method that the configuration names.
    pub(super) fn method(&self) -> Option<&'a str> {
        self.config.and_then(QuantizationConfig::method)
    }

    /// The element type of the model, if the configuration names it.
    pub(super) fn model_dtype(&self) -> Option<ElementType> {
        self.config.and_then(QuantizationConfig::model_dtype)
    }
}
