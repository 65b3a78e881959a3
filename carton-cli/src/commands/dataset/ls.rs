//! `carton dataset ls`: lists the shards of a dataset, or its tensors.

use carton_dataset::index::IndexRow;
use carton_dataset::{Dataset, Shard};
use serde::Serialize;

use super::{Context, contents, failure};
use crate::args::DatasetLsArgs;
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::{Align, Output, Role, Table};

/// The output of `--json`.
#[derive(Serialize)]
struct Listing<'a> {
    samples: u64,
    bytes: u64,
    shards: &'a [Shard],
    #[serde(skip_serializing_if = "Option::is_none")]
    tensors: Option<Vec<Tensor>>,
}

/// A tensor of a shard.
#[derive(Serialize)]
struct Tensor {
    name: String,
    dtype: String,
    shape: Vec<u64>,
    shard: String,
}

impl From<&IndexRow> for Tensor {
    fn from(row: &IndexRow) -> Self {
        let (name, dtype, shard) = (row.tensor_key.to_string(), row.dtype.to_string(), row.file_name.to_string());
        Self { name, dtype, shape: row.shape.to_vec(), shard }
    }
}

pub(super) async fn run(arguments: DatasetLsArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let (dataset, tensors) = interrupt::blocking(move |_| {
        let dataset = Dataset::open_copying(&arguments.dataset.dataset).map_err(failure)?;
        let tensors = match arguments.tensors {
            true => Some(dataset.index().map_err(failure)?.rows().iter().map(Tensor::from).collect::<Vec<_>>()),
            false => None,
        };
        Ok((dataset, tensors))
    })
    .await?;
    let manifest = dataset.manifest();
    let (samples, bytes, shards) = (manifest.total_samples(), manifest.total_bytes(), manifest.shards());
    if output.is_json() {
        output.json(&Listing { samples, bytes, shards, tensors })?;
        return Ok(Exit::Ok);
    }
    match tensors {
        Some(tensors) => print(&tensor_table(tensors), output)?,
        None => print(&shard_table(shards), output)?,
    }
    output.note(&contents(samples, bytes, shards.len()));
    Ok(Exit::Ok)
}

fn shard_table(shards: &[Shard]) -> Table {
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Right, Align::Left]);
    table.row(["SHARD", "SAMPLES", "BYTES", "NAME"]);
    for (number, shard) in shards.iter().enumerate() {
        let (samples, bytes) = (shard.samples_count.to_string(), shard.bytes.to_string());
        table.row([number.to_string(), samples, bytes, shard.shard_path.clone()]);
    }
    table
}

fn tensor_table(tensors: Vec<Tensor>) -> Table {
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Left, Align::Left]);
    table.row(["DTYPE", "SHAPE", "SHARD", "NAME"]);
    for tensor in tensors {
        table.row([tensor.dtype, format!("{:?}", tensor.shape), tensor.shard, tensor.name]);
    }
    table
}

fn print(table: &Table, output: &Output) -> Result<(), Failure> {
    output.text(&table.lines(&|row, _, cell| if row == 0 { output.paint(Role::Heading, &cell) } else { cell }))
}
