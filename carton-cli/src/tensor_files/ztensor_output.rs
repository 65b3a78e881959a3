//! Writes tensors as objects of a zTensor file: in which version, compressed or not, dense or sparse.

use std::io::Write;

use carton_tensor::files::RawTensor;
use carton_tensor::ztensor::{
    self, Attributes, Checks, Component, Format, Object, QuantizedGroup, StoreAs, Version, density,
};

use super::error::TensorFileError;
use crate::args::SinkArgs;

/// The options for zTensor files.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZtensorOutput {
    pub(super) version: Version,
    store_as: StoreAs,
    sparse_below: Option<f64>,
}

impl ZtensorOutput {
    pub(super) fn new(arguments: &SinkArgs) -> Self {
        Self {
            version: arguments.version.map(Into::into).unwrap_or_default(),
            store_as: StoreAs { zstd: arguments.zstd, digest: arguments.digest.map(Into::into) },
            sparse_below: arguments.sparse_below,
        }
    }

    /// Returns the first given option that applies to zTensor files only.
    pub(super) fn option_of(arguments: &SinkArgs) -> Option<&'static str> {
        let options = [
            ("--zstd", arguments.zstd.is_some()),
            ("--digest", arguments.digest.is_some()),
            ("--version", arguments.version.is_some()),
            ("--sparse-below", arguments.sparse_below.is_some()),
        ];
        options.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }

    fn becomes_sparse(&self, tensor: &RawTensor) -> bool {
        self.sparse_below.is_some_and(|limit| density(tensor).is_some_and(|density| density < limit))
    }

    /// Writes a tensor without attributes.
    pub(super) fn numbers(
        &self,
        writer: &mut ztensor::Writer<impl Write>,
        name: &str,
        tensor: &RawTensor,
    ) -> Result<(), TensorFileError> {
        if self.becomes_sparse(tensor) {
            writer.add_sparse(name, tensor, &Attributes::new(), self.store_as)?;
        } else {
            writer.add(name, tensor, self.store_as)?;
        }
        Ok(())
    }

    /// Writes a group of integers and scales.
    pub(super) fn group(
        &self,
        writer: &mut ztensor::Writer<impl Write>,
        name: &str,
        group: &QuantizedGroup,
    ) -> Result<(), TensorFileError> {
        Ok(writer.quantized_group(name, group, self.store_as)?)
    }

    /// Copies an object of another zTensor file, or writes it as sparse if that is requested and its tensor is all it has.
    pub(super) fn object(
        &self,
        writer: &mut ztensor::Writer<impl Write>,
        reader: &ztensor::Reader,
        object: &Object<'_>,
    ) -> Result<(), TensorFileError> {
        // An existing digest is kept, with another algorithm if one is requested.
        let store_as = |component: &Component<'_>| {
            // One of an algorithm that is not known cannot be made again; the caller has said so.
            let kept = component.known_digest()?.map(|digest| digest.algorithm());
            Ok(StoreAs { digest: self.store_as.digest.or(kept), ..self.store_as })
        };
        if let Some(data) = self.only_data(object) {
            let tensor = reader.clone().checking(Checks { digests: true, bools: false }).read_object(object)?;
            if self.becomes_sparse(&tensor) {
                return Ok(writer.add_sparse(object.name(), &tensor, &object.attributes()?, store_as(&data)?)?);
            }
        }
        Ok(writer.copy(reader, object, Checks { digests: true, bools: false }, store_as)?)
    }

    /// Returns the only component of a dense object that may become sparse.
    fn only_data<'m>(&self, object: &Object<'m>) -> Option<Component<'m>> {
        self.sparse_below?;
        let data = object.component("data")?;
        let is_alone = object.format() == Format::Dense && object.components().len() == 1;
        (is_alone && data.unknown_type().is_none()).then_some(data)
    }
}
