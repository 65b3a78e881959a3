//! One call of the model: pieces in, columns out.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, FieldRef};
use carton_core::{Carton, DataType, ErrorKind, NumericTensor, Tensor, Tensors};
use carton_tensor::{VariableElement, VariableTensor};
use tokio::sync::RwLock;

use crate::cut::Batch;
use crate::error::{RowsError, escaped};
use crate::input::{Elements, Piece};
use crate::output;
use crate::plan::{OutputPlan, Plan};
use crate::strings::{blobs, texts};

/// What all calls of a table have in common.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) plan: Plan,
    /// The inputs that have one value for all rows.
    pub(crate) constants: Tensors,
}

/// The result of a call: the columns that it adds, and the kept columns of the same rows.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) kept: Vec<ArrayRef>,
    pub(crate) outputs: Vec<(OutputPlan, FieldRef, ArrayRef)>,
    pub(crate) n_rows: usize,
}

impl Caller {
    /// Calls the model. If its runner dies, the call is made once more, on a fresh runner.
    ///
    /// A runner that dies takes all its calls along. Each of them is then made while no other one of the worker runs, so that an error
    /// names the rows that kill the runner.
    pub(crate) async fn call(&self, model: &Carton, calls: &RwLock<()>, batch: Batch) -> Result<Answer, RowsError> {
        let among_others = calls.read().await;
        let outputs = match self.infer(model, &batch).await {
            Err(error) if error.kind() == ErrorKind::RunnerCrashed => {
                drop(among_others);
                let _alone = calls.write().await;
                let (first, last) = (batch.first_row, batch.last_row());
                tracing::warn!("rows {first} to {last} are given to the model again, whose runner died: {error}");
                self.infer(model, &batch).await
            }
            other => other,
        };
        let outputs = match outputs {
            Ok(outputs) => outputs,
            Err(source) => return Err(self.narrowed(model, batch, source).await),
        };
        let n_rows = batch.n_rows;
        let mut columns = Vec::new();
        for plan in self.outputs(&outputs)? {
            let array = match outputs.get(&plan.name) {
                Some(tensor) => output::column(&plan, tensor, n_rows, self.called_rows(&batch))?,
                None => output::missing(&plan, n_rows)?,
            };
            let field = Arc::new(Field::new(&plan.column, arrow_array::Array::data_type(&array).clone(), true));
            columns.push((plan, field, array));
        }
        Ok(Answer { kept: joined(&batch.kept)?, outputs: columns, n_rows })
    }

    /// Returns the error of a failed call for as few of its rows as possible. What a model refuses is often one row of many: halves of the
    /// call are made until one row is left, or until neither half fails.
    async fn narrowed(&self, model: &Carton, mut batch: Batch, mut source: carton_core::Error) -> RowsError {
        let rows = |batch: &Batch| (batch.first_row, batch.last_row());
        let (mut first, mut last) = rows(&batch);
        while batch.n_rows > 1 && source.is_of_model() {
            let first_half = batch.split_to(batch.n_rows / 2);
            for half in [first_half, std::mem::take(&mut batch)] {
                if let Err(error) = self.infer(model, &half).await {
                    (first, last) = rows(&half);
                    (batch, source) = (half, error);
                    break;
                }
            }
        }
        RowsError::Call { first, last, source }
    }

    /// The outputs that become columns: the declared ones, or those that the model returned.
    fn outputs(&self, returned: &Tensors) -> Result<Vec<OutputPlan>, RowsError> {
        if let Some(declared) = &self.plan.outputs {
            return Ok(declared.clone());
        }
        match self.plan.output_columns.keys().find(|name| !returned.contains_key(*name)) {
            Some(name) => Err(RowsError::NotReturned { output: escaped(name) }),
            None => Ok(returned.keys().filter_map(|name| self.plan.undeclared(name)).collect()),
        }
    }

    /// The number of rows that the model is called with.
    fn called_rows(&self, batch: &Batch) -> usize {
        self.plan.fixed_rows.unwrap_or(batch.n_rows)
    }

    async fn infer(&self, model: &Carton, batch: &Batch) -> Result<Tensors, carton_core::Error> {
        let mut inputs = self.constants.clone();
        let called_rows = self.called_rows(batch);
        for (input, pieces) in self.plan.inputs.iter().zip(&batch.inputs) {
            let Some(first) = pieces.first() else { continue };
            let mut shape = vec![called_rows];
            shape.extend(&first.row_shape);
            let tensor = match first.dtype {
                DataType::String => Tensor::from(gathered(texts, pieces, batch.n_rows, called_rows, shape)?),
                DataType::Bytes => Tensor::from(gathered(blobs, pieces, batch.n_rows, called_rows, shape)?),
                dtype => Tensor::Numeric(filled(model.alloc_dtype(dtype, &shape).await?, pieces)),
            };
            inputs.insert(input.name().to_owned(), tensor);
        }
        Ok(model.infer(inputs).await?.into_tensors())
    }
}

impl Batch {
    fn last_row(&self) -> u64 {
        self.first_row + (self.n_rows as u64).saturating_sub(1)
    }

    /// Takes the first rows out of the inputs, at most `n_rows`.
    fn split_to(&mut self, n_rows: usize) -> Self {
        let n_rows = n_rows.min(self.n_rows);
        let split = |pieces: &mut Vec<Piece>| {
            let mut left = n_rows;
            let mut taken = Vec::new();
            while left > 0
                && let Some(piece) = pieces.first_mut()
            {
                let first = piece.split_to(left);
                left -= first.n_rows;
                taken.push(first);
                if piece.n_rows == 0 {
                    pieces.remove(0);
                }
            }
            taken
        };
        let inputs = self.inputs.iter_mut().map(split).collect();
        let first = Self { first_row: self.first_row, n_rows, inputs, kept: Vec::new() };
        self.first_row += n_rows as u64;
        self.n_rows -= n_rows;
        first
    }
}

/// Copies the pieces into shared memory. Where the carton declares more rows than there are, the rest become copies of the last row.
fn filled(mut tensor: NumericTensor, pieces: &[Piece]) -> NumericTensor {
    let Some(mut rest) = tensor.bytes_mut() else { return tensor };
    let mut last_row: &[u8] = &[];
    for piece in pieces {
        let Elements::Numbers(bytes) = &piece.elements else { continue };
        // The tensor has room for all pieces: its shape was made from them.
        let n_bytes = bytes.len().min(rest.len());
        let (filled, after) = rest.split_at_mut(n_bytes);
        filled.copy_from_slice(&bytes[..n_bytes]);
        last_row = &bytes[bytes.len() - piece.row_bytes..];
        rest = after;
    }
    if !last_row.is_empty() {
        for row in rest.chunks_exact_mut(last_row.len()) {
            row.copy_from_slice(last_row);
        }
    }
    tensor
}

/// The strings or bytes of all pieces. Rows that the carton declares and the table lacks are as in [`filled`].
fn gathered<T: VariableElement>(
    elements_of: fn(&ArrayRef) -> Vec<T>,
    pieces: &[Piece],
    n_rows: usize,
    called_rows: usize,
    shape: Vec<usize>,
) -> Result<VariableTensor<T>, carton_core::Error> {
    let mut elements: Vec<T> = Vec::new();
    for piece in pieces {
        if let Elements::Strings(leaf) = &piece.elements {
            elements.extend(elements_of(leaf));
        }
    }
    let row_elements = elements.len() / n_rows.max(1);
    if row_elements > 0 {
        let last_row = elements[elements.len() - row_elements..].to_vec();
        for _ in n_rows..called_rows {
            elements.extend(last_row.iter().cloned());
        }
    }
    VariableTensor::new(elements, shape).map_err(|error| carton_core::Error::internal(error.to_string()))
}

/// Joins the columns of record batches.
fn joined(batches: &[RecordBatch]) -> Result<Vec<ArrayRef>, RowsError> {
    let (Some(first), n_batches) = (batches.first(), batches.len()) else { return Ok(Vec::new()) };
    if n_batches == 1 {
        return Ok(first.columns().to_vec());
    }
    let column = |position| {
        let parts: Vec<&dyn arrow_array::Array> =
            batches.iter().filter_map(|batch| batch.columns().get(position).map(AsRef::as_ref)).collect();
        arrow_select::concat::concat(&parts)
    };
    (0..first.num_columns()).map(column).collect::<Result<_, _>>().map_err(RowsError::write)
}
