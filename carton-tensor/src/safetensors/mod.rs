//! Reads and writes safetensors files (spec/safetensors.md).
//!
//! ```text
//! 0           8                      8 + N                                              end
//! ├─ N (u64) ─┼─ header: N bytes ────┼─ data: tensor after tensor, no gaps ─────────────┤
//!              {"name":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},…}␠␠
//! ```
//!
//! [`Header`] is the format itself: bytes in, validated tensors and their byte ranges out. It knows no files. [`Reader`] reads tensors
//! by name. [`write()`] and [`Writer`] write files that are byte-identical to those of the `safetensors` library. The element types,
//! and what the bytes of a tensor mean, are in [`files`](crate::files).

mod dtype;
mod error;
mod header;
mod header_json;
mod header_plain;
mod index;
mod layout;
mod metadata;
mod reader;
mod sharded_writer;
mod string_table;
mod writer;

pub use dtype::{dtype_name, parse_dtype};
pub use error::{HeaderError, SafetensorsError};
pub use header::{Header, TensorInfo};
pub use index::{ShardIndex, ShardIndexError};
pub use layout::Layout;
pub use metadata::Metadata;
pub use reader::Reader;
pub use sharded_writer::write_sharded;
pub use writer::{Writer, write};

use crate::files::ElementType;

/// The only key of the header that is not the name of a tensor (§3).
const METADATA_KEY: &str = "__metadata__";

/// Returns the number of bytes that dtype and shape need (§4.3). Like all other readers, multiplies from the first dimension to the
/// last, so that the product can overflow even if a later dimension is 0.
fn n_bytes(dtype: ElementType, shape: &[usize], name: impl Fn() -> String) -> Result<u64, HeaderError> {
    let n_elements = shape.iter().try_fold(1_u64, |product, &size| product.checked_mul(size as u64));
    let Some(n_bits) = n_elements.and_then(|count| count.checked_mul(dtype.bits() as u64)) else {
        return Err(HeaderError::Overflow { tensor: name(), shape: shape.to_vec() });
    };
    if n_bits.is_multiple_of(8) {
        Ok(n_bits / 8)
    } else {
        Err(HeaderError::PartialByte { tensor: name(), shape: shape.to_vec(), n_bits })
    }
}
