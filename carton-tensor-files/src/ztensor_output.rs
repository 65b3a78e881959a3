//! Writes tensors as objects of a zTensor file: in which version, compressed or not, dense or sparse.

use std::io::Write;

use carton_tensor::files::RawTensor;
use carton_tensor::ztensor::{
    self, Attributes, Checks, Component, Format, Object, QuantizedGroup, StoreAs, Version, density,
};

use crate::error::TensorFilesError;
use crate::numbers::{Numbers, copy_to};
use crate::write_options::{WriteOptions, ZtensorVersion};

/// The options for zTensor files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ZtensorOutput {
    pub(crate) version: Version,
    store_as: StoreAs,
    sparse_below: Option<f64>,
}

impl ZtensorOutput {
    pub(crate) fn new(options: &WriteOptions) -> Self {
        Self {
            version: match options.version {
                Some(ZtensorVersion::V1(version)) => version,
                Some(ZtensorVersion::V2) | None => Version::default(),
            },
            store_as: StoreAs { zstd: options.zstd, digest: options.digest },
            sparse_below: options.sparse_below,
        }
    }

    fn becomes_sparse(&self, tensor: &RawTensor) -> bool {
        self.sparse_below.is_some_and(|limit| density(tensor).is_some_and(|density| density < limit))
    }

    /// Writes a tensor without attributes.
    pub(crate) fn numbers(
        &self,
        writer: &mut ztensor::Writer<impl Write>,
        name: &str,
        numbers: &dyn Numbers,
    ) -> Result<(), TensorFilesError> {
        if self.is_sparse(numbers)? {
            return Ok(writer.add_sparse(name, &numbers.whole()?, &Attributes::new(), self.store_as)?);
        }
        copy_to(numbers, |copy| {
            writer.add_with(name, numbers.dtype(), numbers.shape(), self.store_as, |out, _| copy(out))
        })
    }

    /// Whether few enough elements are not 0. All are read for that.
    fn is_sparse(&self, numbers: &dyn Numbers) -> Result<bool, TensorFilesError> {
        let (Some(limit), dtype) = (self.sparse_below, numbers.dtype()) else { return Ok(false) };
        let (mut n_stored, mut n_elements) = (0_u64, 0_u64);
        numbers.visit(&mut |piece| {
            n_stored += ztensor::count_stored(dtype, piece).unwrap_or(0);
            n_elements += (piece.len() * 8 / dtype.bits()) as u64;
            Ok(())
        })?;
        // No sparse format holds elements smaller than a byte.
        Ok(n_elements > 0 && dtype.bits() >= 8 && (n_stored as f64 / n_elements as f64) < limit)
    }

    /// Writes a group of integers and scales.
    pub(crate) fn group(
        &self,
        writer: &mut ztensor::Writer<impl Write>,
        name: &str,
        group: &QuantizedGroup,
    ) -> Result<(), TensorFilesError> {
        Ok(writer.quantized_group(name, group, self.store_as)?)
    }

    /// Copies an object of another zTensor file, or writes it as sparse if that is requested and its tensor is all it has.
    pub(crate) fn object(
        &self,
        writer: &mut ztensor::Writer<impl Write>,
        name: &str,
        reader: &ztensor::Reader,
        object: &Object<'_>,
    ) -> Result<(), TensorFilesError> {
        // An existing digest is kept, with another algorithm if one is requested.
        let store_as = |component: &Component<'_>| {
            // One of an algorithm that is not known cannot be made again; the caller has said so.
            let kept = component.known_digest()?.map(|digest| digest.algorithm());
            Ok(StoreAs { digest: self.store_as.digest.or(kept), ..self.store_as })
        };
        if let Some(data) = self.only_data(object) {
            let tensor = reader.clone().checking(Checks { digests: true, bools: false }).read_object(object)?;
            if self.becomes_sparse(&tensor) {
                return Ok(writer.add_sparse(name, &tensor, &object.attributes()?, store_as(&data)?)?);
            }
        }
        Ok(writer.copy(name, reader, object, Checks { digests: true, bools: false }, store_as)?)
    }

    /// Returns the only component of a dense object that may become sparse.
    fn only_data<'m>(&self, object: &Object<'m>) -> Option<Component<'m>> {
        self.sparse_below?;
        let data = object.component("data")?;
        let is_alone = object.format() == Format::Dense && object.components().len() == 1;
        (is_alone && data.unknown_type().is_none()).then_some(data)
    }
}
