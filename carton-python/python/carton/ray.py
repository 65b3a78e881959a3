"""Predictions over datasets of Ray.

    import carton.ray

    dataset.map_batches(
        carton.ray.Predictor,
        fn_constructor_kwargs={"model": "digits.carton", "inputs": {"image": "pixels"}},
        batch_format="numpy",
        compute=ray.data.ActorPoolStrategy(size=2),
    )

Ray does the distributing: each actor loads the model once, with a runner of its own. The package carton must be installed on all machines.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any, Mapping, Sequence, TypeVar

from . import _arrow, _carton, _columns
from ._errors import InvalidInputError
from ._paths import AnyPath

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

__all__ = ["Predictor"]

Batch = TypeVar("Batch", "dict[str, np.ndarray]", "pa.Table")


class Predictor:
    """Adds a model's outputs to batches, as columns: a class for `ray.data.Dataset.map_batches`.

    A row is one element of the first dimension. An input of shape `[batch, 1, 8, 8]` is a column of tensors or nested lists of shape
    `[1, 8, 8]`, or of flat ones of 64 elements. Doubles become floats where the carton declares those. All columns are kept.

    Args:
        model: The carton: a path, or a URL that begins with `https://`, `http://`, `oci://`, `hf://`, `s3://`, `gs://` or `az://`.
            All machines have it at this place.
        inputs: The column of each input. By default each input is the column of its name.
        outputs: The new column of each output that is wanted. By default all of them, each under its name.
        load_options: Options of `carton.load`, such as `expect`, `device`, `timeout` and `options`.

    Raises:
        SignatureError: The carton has no such inputs or outputs.
        Error: The carton cannot be loaded.

        >>> predict = Predictor("digits.carton")
        >>> batch = predict({"image": np.zeros((2, 1, 8, 8), np.float32)})
        >>> batch["probabilities"].shape
        (2, 10)
    """

    def __init__(
        self,
        model: AnyPath,
        inputs: Mapping[str, str] | None = None,
        outputs: Mapping[str, str] | None = None,
        **load_options: Any,
    ) -> None:
        import carton

        if load_options.get("bare"):
            raise InvalidInputError("a model that is not in a carton has no signature, which the new columns need: pack it first")
        self._model = carton.load(model, **load_options)
        self._inputs = _columns.mapping(_columns.of_inputs(self._model.inputs, inputs))
        self._outputs = _columns.mapping(_columns.of_outputs(self._model.outputs, outputs))

    def __call__(self, batch: Batch) -> Batch:
        """The batch with the columns of the outputs. A batch of format `numpy` is a dict of arrays, one of format `pyarrow` a table.

        The model is called once for the batch, unless the carton declares the number of rows, or rows have several shapes.

        Raises:
            InvalidInputError: A column is missing, or exists already; or it has nulls, or elements or shapes that do not fit.
        """
        names: list[str] = list(batch) if isinstance(batch, dict) else batch.column_names
        columns = list(dict.fromkeys(self._inputs.values()))
        for column in columns:
            if names.count(column) != 1:
                raise InvalidInputError(f"the batch has no column `{column}`; its columns are {', '.join(names)}")
        for column in self._outputs.values():
            if column in names:
                raise InvalidInputError(f"the batch has a column `{column}` already: name another in outputs={{…}}")
        if isinstance(batch, dict):
            outputs = self._mapped(_table(batch, columns))
            return {**batch, **{column: _arrays(outputs.column(column)) for column in outputs.column_names}}
        outputs = self._mapped(batch.select(columns))
        for column in outputs.column_names:
            batch = batch.append_column(column, outputs.column(column))
        return batch

    def _mapped(self, rows: pa.Table) -> pa.Table:
        """The columns of the outputs. The caller has chosen the size of the batch, which is that of a call."""
        sizes = {"batch_size": max(1, rows.num_rows), "batch_bytes": sys.maxsize}
        return self._model.map(rows, keep=False, inputs=self._inputs, outputs=self._outputs, **sizes).read_all()


def _table(batch: Mapping[str, np.ndarray], columns: Sequence[str]) -> pa.Table:
    """Columns of a batch of arrays as a table. Numbers are not copied."""
    import pyarrow as pa

    arrays = []
    for column in columns:
        try:
            arrays.append(_arrow_array(batch[column], column))
        except (pa.ArrowException, OverflowError, TypeError) as error:
            raise InvalidInputError(f"column `{column}` cannot become an input: {error}") from error
    return pa.table(arrays, names=columns)


def _arrow_array(values: Any, column: str) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    array = np.asarray(values)
    if array.dtype == object and array.size and isinstance(array.flat[0], np.ndarray):
        with contextlib.suppress(ValueError):
            array = np.stack(list(array))
    if array.dtype.kind in "OSU":
        # Strings, bytes, missing values, and rows of several shapes.
        return pa.array([row.tolist() if isinstance(row, np.ndarray) else row for row in array])
    return pa.array(_arrow.array(array, column))


def _arrays(column: pa.ChunkedArray) -> np.ndarray:
    """An output as an array; rows of several shapes are an array of arrays, as Ray has them."""
    values = column.combine_chunks()
    try:
        return _carton.from_arrow(values)
    except ValueError:
        arrays: np.ndarray = values.to_numpy(zero_copy_only=False)
        return arrays
