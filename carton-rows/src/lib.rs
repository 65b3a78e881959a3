//! Runs models over tables (spec/rows.md): each row of an Arrow table is one element of the first dimension of the model's inputs, and
//! the outputs become columns of a new table.
//!
//! ```no_run
//! use carton_core::Carton;
//! use carton_dataset::Input;
//! use carton_rows::MapRows;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Carton::load("digits.carton").await?;
//! let mut rows = Input::open("images.parquet")?;
//! let mut mapped = MapRows::new(&model, &rows.schema()).input("image", "pixels").await?;
//! while let Some(batch) = mapped.next_of(&mut rows).await {
//!     println!("{} rows", batch?.num_rows());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | map record batches from anywhere | [`MapRows`], then [`MappedRows`] |
//! | write the results of a whole table to a file or a pipe | [`write_mapped`] |
//! | choose what missing values become, and what dates and times are counted in | [`Nulls`], [`MapRows::times`] |
//! | choose the format of a file that is written | [`RowFormat`] |
//!
//! Rows stay in order. Memory is bounded by the number of calls in flight, not by the number of rows. Reading files is left to
//! `carton-dataset`, running models to `carton-core`.
//!
//! # Modules
//!
//! Each uses only those before it.
//!
//! - `error`, `row_shape`, `strings`: the error; the declared shape of one row; columns of text and bytes.
//! - `input`, `plan`, `cut`: columns as pieces of tensors; which columns are inputs, which outputs become columns, and which columns
//!   are kept; calls made of the pieces of many record batches, or of one. Pure.
//! - `output`, `call`: columns of what the model returns, with a check of sizes that only the model claims; one call, made again if the
//!   runner dies.
//! - `format`, `map`, `write`: record batches as Parquet or Arrow IPC; calls in flight on all workers, whose results are in order; the
//!   thread that writes.

mod call;
mod cut;
mod error;
mod format;
mod input;
mod map;
mod output;
mod plan;
mod row_shape;
mod strings;
mod write;

pub use error::RowsError;
pub use format::{RowFormat, RowWriter};
pub use input::{Nulls, decoded, type_advice};
pub use map::{MAX_WORKERS, MapRows, MappedRows};
pub use output::arrow_type;
pub use plan::Keep;
pub use write::{MapCounts, write_mapped};
