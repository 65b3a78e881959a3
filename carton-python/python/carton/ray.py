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

import os
from typing import TYPE_CHECKING, Any, Mapping, TypeVar

from . import _columns
from ._errors import InvalidInputError

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
        model: A path that all machines have, or a URL.
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
        model: str | os.PathLike[str],
        inputs: Mapping[str, str] | None = None,
        outputs: Mapping[str, str] | None = None,
        **load_options: Any,
    ) -> None:
        import carton

        if load_options.get("bare"):
            raise InvalidInputError("a model that is not in a carton has no signature, which the new columns need: pack it first")
        self._model = carton.load(model, **load_options)
        self._inputs = _columns.of_inputs(self._model.inputs, inputs)
        self._outputs = _columns.of_outputs(self._model.outputs, outputs)
        self._batch_size = _columns.rows_of_a_call(self._inputs, None)

    def __call__(self, batch: Batch) -> Batch:
        """The batch with the columns of the outputs. A batch of format `numpy` is a dict of arrays, one of format `pyarrow` a table.

        Raises:
            InvalidInputError: A column is missing, or exists already; or it has nulls, rows of several shapes, or elements that do not fit.
        """
        names: list[str] = list(batch) if isinstance(batch, dict) else batch.column_names
        for column in self._inputs:
            if names.count(column.column) != 1:
                raise InvalidInputError(f"the batch has no column `{column.column}`; its columns are {', '.join(names)}")
        for column in self._outputs:
            if column.column in names:
                raise InvalidInputError(f"the batch has a column `{column.column}` already: name another in outputs={{…}}")
        if isinstance(batch, dict):
            arrays = {column.name: _columns.rows(batch[column.column], column) for column in self._inputs}
            outputs = self._called(arrays)
            return {**batch, **{column.column: outputs[column.name] for column in self._outputs}}
        outputs = self._called({column.name: _columns.tensor(batch.column(column.column), column) for column in self._inputs})
        for column in self._outputs:
            batch = batch.append_column(column.column, _columns.array(outputs[column.name], column, batch.num_rows))
        return batch

    def _called(self, tensors: dict[str, np.ndarray]) -> dict[str, Any]:
        """The outputs of all rows, by as many calls as the model needs."""
        import numpy as np

        n_rows = len(next(iter(tensors.values()))) if tensors else 0
        if n_rows == 0:
            none = {column.name: _columns.empty(column) for column in self._outputs}
            if all(value is not None for value in none.values()):
                return none
        step = self._batch_size
        if step is None or step >= n_rows:
            outputs: dict[str, Any] = self._model(tensors)
            return outputs
        parts = [
            self._model({name: value[start : start + step] for name, value in tensors.items()}) for start in range(0, n_rows, step)
        ]
        return {column.name: np.concatenate([part[column.name] for part in parts]) for column in self._outputs}
