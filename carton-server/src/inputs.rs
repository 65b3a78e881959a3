//! What a call gives, as its model takes it, for both faces.

use std::sync::Arc;

use carton_core::Tensors;

use crate::failure::Failure;
use crate::model::admission::Share;
use crate::model::served::Served;
use crate::protocol::lists;
use crate::work::on_thread_if_large;

/// Casts inputs of shorter types to the declared ones, and makes lists of elements and shapes. What that takes is added to the share.
///
/// # Errors
/// There is no memory for one, or the shapes of a list contradict its elements.
pub(crate) async fn prepared(served: &Served, inputs: Tensors, share: &mut Share) -> Result<Tensors, Failure> {
    let mut inputs = served.widened(inputs, share).await?;
    let declared = Arc::clone(served.input_types());
    let Some(n_bytes) = lists::n_bytes(&declared, &inputs) else { return Ok(inputs) };
    share.grow(n_bytes)?;
    let make = move || {
        lists::make_lists(&declared, &mut inputs)?;
        Ok(inputs)
    };
    on_thread_if_large(n_bytes, make).await
}
