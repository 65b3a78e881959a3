"""A loaded model: calls its functions, and interprets their results."""

import inspect
from collections.abc import AsyncIterator, Iterator

from carton_runner.annotated import Parameters
from carton_runner.errors import RunnerError
from carton_runner.small_floats import Bits, WithBits
from carton_runner.structure import DeclaredOutputs, by_name

_END = object()


class Model:
    """The functions of a model, under the names of the carton's signature.

    Results are dicts by name, arrays or tuples in the order of the declared outputs, other structured values, or iterators of such
    (streams). All may be awaited first.
    """

    def __init__(self, infer, seal, infer_sealed, unseal, inputs, outputs, loops):
        self._infer = infer
        self._seal = seal
        self._infer_sealed = infer_sealed
        self._unseal = unseal
        self._loops = loops
        self._signature = self._example = None
        self._input_names = _renamed(inputs)
        #: The parameters of a plain function.
        self._parameters = None
        self.declared = DeclaredOutputs(outputs)
        #: Whether the model may write to its inputs: each call then gets its own arrays.
        self.writable_inputs = False
        #: Returns a writable array with the elements of another array.
        self.writable = None

    @classmethod
    def of_function(cls, function, inputs, outputs, loops):
        """A plain function, called with the inputs as keyword arguments."""
        model = cls(lambda arrays: function(**arrays), None, None, None, inputs, outputs, loops)
        model._parameters = Parameters(function)
        return model

    @classmethod
    def of_object(cls, model, inputs, outputs, loops):
        """An object with ``infer_with_tensors``, or ``seal`` and ``infer_with_handle``, or all of them."""
        names = ("infer_with_tensors", "seal", "infer_with_handle", "unseal")
        infer, seal, infer_sealed, unseal = (getattr(model, name, None) for name in names)
        if infer is None and (seal is None or infer_sealed is None):
            hint = "give it `infer_with_tensors`, or `seal` and `infer_with_handle`; or name a function with `infer_fn`"
            kind = type(model).__name__
            raise RunnerError("the entry point returned a %s without the methods of a model" % kind, hint=hint)
        if seal is None or infer_sealed is None:
            seal = infer_sealed = unseal = None
        made = cls(infer, seal, infer_sealed, unseal, inputs, outputs, loops)
        made._signature, made._example = (getattr(model, name, None) for name in ("signature", "example"))
        return made

    # Calls. They return the model's results, awaited but not yet checked.

    def infer(self, call, arrays):
        """Runs the model."""
        arrays = self._received(arrays)
        if self._infer is None:
            return self._settled(call, self._infer_sealed(self._settled(call, self._seal(arrays))))
        return self._settled(call, self._infer(arrays))

    def seal(self, call, arrays):
        """Seals inputs. Returns the model's handle for them."""
        if self._seal is None:
            return arrays
        return self._settled(call, self._seal(self._received(arrays)))

    def infer_sealed(self, call, handle):
        """Runs the model on what :meth:`seal` returned."""
        if self._seal is None:
            # The dict is copied, because the model may change it. The arrays are read-only, or copied for each call.
            return self.infer(call, type(handle)(handle))
        return self._settled(call, self._infer_sealed(handle))

    def unseal(self, call, handle):
        """Tells the model that sealed inputs are no longer needed."""
        if self._unseal is not None:
            self._settled(call, self._unseal(handle))

    def statement(self):
        """Returns what the model states about itself, as :func:`statement.of` does."""
        # Imported here, because only packing asks for it.
        from carton_runner import statement

        return statement.of(*(method if callable(method) else None for method in (self._signature, self._example)))

    def _received(self, arrays):
        """Returns inputs as the model gets them."""
        if self.writable_inputs or type(arrays) is WithBits:
            arrays = {name: _of_each(lambda one, name=name: self._own(name, one), array) for name, array in arrays.items()}
        if self._input_names:
            arrays = {self._input_names.get(name, name): array for name, array in arrays.items()}
        return arrays if self._parameters is None else self._parameters.arguments(arrays)

    def _own(self, name, array):
        if type(array) is Bits:
            return array.opened(name, self.writable, self.writable_inputs)
        return self.writable(array) if self.writable_inputs else array

    def _settled(self, call, result):
        if type(result) is dict:
            return result
        if inspect.isawaitable(result):
            return self._loops.run(call, result)
        return result

    # Results.

    def outputs(self, call, result):
        """Returns the outputs of a call that has one answer."""
        if type(result) is dict:
            return result
        if is_stream(result):
            result = self._only_item(call, result)
        return by_name(result, self.declared)

    def items(self, call, result):
        """Returns the items of a stream; a result that is not a stream is the only item."""
        if type(result) is dict or not is_stream(result):
            return iter([result])
        if isinstance(result, AsyncIterator):
            return _synchronous(result, lambda *arguments: self._loops.run(call, *arguments))
        return result

    def _only_item(self, call, stream):
        items = self.items(call, stream)
        try:
            item = next(items, _END)
            if item is _END:
                raise RunnerError("the model is a stream that has no items", hint="use infer_stream")
            if next(items, _END) is not _END:
                raise RunnerError("the model is a stream of several items, and one was asked for", hint="use infer_stream")
            return item
        finally:
            close(items)


def is_stream(result):
    """Whether a model returned a stream of items rather than outputs."""
    return isinstance(result, (Iterator, AsyncIterator))


def close(items):
    """Ends a stream early; generators run their `finally`."""
    closing = getattr(items, "close", None)
    if closing is not None:
        closing()


def _synchronous(stream, run):
    """Yields the items of an asynchronous stream."""
    try:
        while True:
            try:
                item = run(stream.__anext__())
            except StopAsyncIteration:
                return
            yield item
            # Dropped before the next one is made.
            item = None
    finally:
        closing = getattr(stream, "aclose", None)
        if closing is not None:
            run(closing(), False)


def _of_each(function, array):
    """Applies a function to an array, or to each of a nested tensor."""
    return [function(element) for element in array] if type(array) is list else function(array)


def _renamed(specs):
    """Returns the names of inputs in the model by those in the carton, where they differ."""
    pairs = [(spec["name"], spec.get("internal_name") or spec["name"]) for spec in specs]
    return {name: internal for name, internal in pairs if name != internal}
