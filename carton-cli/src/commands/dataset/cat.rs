//! `carton dataset cat`: prints the elements of a tensor.

use carton_dataset::{Dataset, DatasetError};
use carton_tensor::files::RawTensor;
use carton_tensor::safetensors::dtype_name;

use carton_tensor_files::{TensorFilesError, Value};

use super::{Context, failure};
use crate::args::DatasetCatArgs;
use crate::commands::elements::{part_of, print};
use crate::failure::{Exit, Failure};
use crate::interrupt;

#[derive(Debug, thiserror::Error)]
enum CatError {
    #[error("`{place}` has no tensor `{}`", key.escape_debug())]
    NoTensor { place: String, key: String },
    #[error("`{place}` has no shard `{}`", shard.escape_debug())]
    NoShard { place: String, shard: String },
}

pub(super) async fn run(arguments: DatasetCatArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let DatasetCatArgs { dataset, key, shard, elements } = arguments;
    let (key, dtype, value, elements) = interrupt::blocking(move |_| {
        // The shard is not mapped, because a shard that is truncated meanwhile would end the command by a signal.
        let dataset = Dataset::open_copying(&dataset.dataset).map_err(failure)?;
        let tensor = find(&dataset, &key, shard.as_deref())?;
        // The dtype as safetensors spells it, like in the index and in `ls`.
        let dtype = dtype_name(tensor.dtype());
        let part = part_of(&elements, tensor.shape(), |slice| tensor.slice(slice).map_err(TensorFilesError::from))?;
        let value = Value::Numbers(part.unwrap_or(tensor));
        Ok((key, dtype, value, elements))
    })
    .await?;
    output.progress().finish();
    print(&key, dtype, value, &elements, output)
}

/// Finds the tensor of this name, in the shard with this name or number if one is given.
fn find(dataset: &Dataset, key: &str, shard: Option<&str>) -> Result<RawTensor, Failure> {
    let place = || dataset.folder().display().to_string();
    let found = match shard {
        None => dataset.get(key).map_err(|error| {
            let is_ambiguous = matches!(error, DatasetError::Ambiguous { .. });
            let failure = failure(error);
            if is_ambiguous { failure.hint("--shard N chooses one; `carton dataset ls` shows them") } else { failure }
        })?,
        Some(shard) => {
            let position = position(dataset, shard).ok_or_else(|| {
                let error = CatError::NoShard { place: place(), shard: shard.to_owned() };
                Failure::new(error).hint("`carton dataset ls` shows them")
            })?;
            dataset.batch(position).and_then(|batch| batch.get(key)).map_err(failure)?
        }
    };
    found.ok_or_else(|| {
        let error = CatError::NoTensor { place: place(), key: key.to_owned() };
        Failure::new(error).hint("`carton dataset ls --tensors` shows their names")
    })
}

fn position(dataset: &Dataset, shard: &str) -> Option<usize> {
    let shards = dataset.manifest().shards();
    let by_name = shards.iter().position(|known| known.shard_path == shard);
    by_name.or_else(|| shard.parse().ok().filter(|number| *number < shards.len()))
}
