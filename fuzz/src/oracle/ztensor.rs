//! Arbitrary bytes as a zTensor file. Reading gives an error or tensors, without a panic or an endless loop, and with limited memory.
//! What can be read is the same after writing and reading it again.

use carton_tensor::files::RawTensor;
use carton_tensor::ztensor::{Attributes, Checks, Format, Object, Reader, StoreAs, Writer, ZTensorError};

/// The most bytes of dense forms of sparse tensors, and of the weights of quantized ones, because a few bytes can represent any number.
const MAX_DENSE: usize = 1 << 20;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(reader) = Reader::new(bytes.to_vec().into()) else { return false };
    let _ = reader.manifest().attributes();
    let _ = reader.verify_all();
    let mut writer = Writer::new(Vec::new()).unwrap();
    let mut written = Vec::new();
    for object in reader.objects() {
        assert_eq!(reader.object(object.name()).unwrap().name(), object.name());
        let _ = reader.clone().checking(Checks::ALL).read_object(&object);
        formats(&reader, &object);
        if let Ok((attributes, parts)) = parts(&reader, &object) {
            let parts: Vec<_> = parts.iter().map(|(role, tensor)| (*role, tensor, StoreAs::RAW)).collect();
            let (name, shape, format) = (object.name(), object.shape(), object.format().name());
            if writer.object(name, shape, format, &attributes, &parts).is_ok() {
                written.push((object, attributes, parts.iter().map(|part| part.1.clone()).collect::<Vec<_>>()));
            }
        }
    }
    let again = Reader::new(writer.finish().unwrap().into()).unwrap();
    assert_eq!(again.objects().len(), written.len());
    for (object, attributes, tensors) in written {
        let found = again.object(object.name()).unwrap();
        assert_eq!((found.shape(), found.format()), (object.shape(), object.format()));
        // NaN is not equal to itself, but its text is.
        assert_eq!(format!("{:?}", found.attributes().unwrap()), format!("{attributes:?}"));
        for (component, tensor) in object.components().zip(tensors) {
            assert_eq!(*again.component(object.name(), component.role()).unwrap(), **tensor.bytes());
        }
    }
    true
}

/// Reads an object according to its format.
fn formats(reader: &Reader, object: &Object<'_>) {
    let is_small = object.shape().iter().try_fold(1_usize, |size, dimension| size.checked_mul(*dimension));
    let is_small = is_small.is_some_and(|size| size <= MAX_DENSE);
    match object.format() {
        Format::SparseCsr => {
            if let Ok(csr) = reader.csr(object.name())
                && is_small
            {
                let _ = csr.to_dense();
            }
        }
        Format::SparseCoo => {
            if let Ok(coo) = reader.coo(object.name())
                && is_small
            {
                let _ = coo.to_dense();
            }
        }
        Format::QuantizedGroup => {
            if let Ok(group) = reader.quantized_group(object.name())
                && is_small
            {
                group.dequantize().unwrap();
            }
        }
        _ => {}
    }
}

type Parts<'m> = (Attributes, Vec<(&'m str, RawTensor)>);

/// Returns the components of an object as tensors that can be written.
fn parts<'m>(reader: &Reader, object: &Object<'m>) -> Result<Parts<'m>, ZTensorError> {
    let mut parts = Vec::new();
    for component in object.components() {
        let bytes = reader.read_component(&component, Checks::default())?;
        let dtype = component.element_type();
        let shape = match object.format() {
            Format::Dense if component.role() == "data" => object.shape().to_vec(),
            _ => vec![bytes.len() * 8 / dtype.bits()],
        };
        let tensor = RawTensor::new(dtype, shape, bytes);
        let at = || ZTensorError::Io(std::io::Error::other("no tensor"));
        parts.push((component.role(), tensor.map_err(|_| at())?));
    }
    Ok((object.attributes()?, parts))
}
