"""Serves one host: reads its messages, and runs its calls, one at a time, on the thread that reads.

While a call takes long, the watcher (``watcher.py``) reads instead, until the call is over.
"""

import gc
import os
import threading
import time
from collections import deque
from pathlib import Path

import carton_runner
from carton_runner import devices, environments, loading, regions, tracebacks, version
from carton_runner.arrays import BEYOND
from carton_runner.calls import Call, Cancelled, Report
from carton_runner.connection import Connection, quote
from carton_runner.decoding import Decoder
from carton_runner.encoding import Encoder
from carton_runner.errors import ProtocolError, RunnerError
from carton_runner.frames import EndOfFile, FrameReader, check_number, malformed, parse
from carton_runner.holds import Roots
from carton_runner.host_memory import HostMemory
from carton_runner.model import close
from carton_runner.pool import Pool
from carton_runner.requests import load_fields, pack_fields, packed_json, prepared_json
from carton_runner.spin import Spin
from carton_runner.watcher import Watcher

#: The greatest number of known calls. It is above 1, because the host may send the next call before an answered one is removed.
_CALL_CAP = 10
_CREDIT_CAP = 1 << 62
#: A garbage collection runs when the host's memory that the model keeps has doubled, and is more than this many bytes.
_KEPT = 64 << 20
#: The number of calls after which that memory is counted anew.
_RECOUNT = 256
#: The calls that need no loaded model.
_WITHOUT_MODEL = frozenset(("load", "prepare", "pack"))
_ONLY_RUNNERS = frozenset(
    ("loaded", "prepared", "packed", "inferred", "described", "stream_item", "stream_end", "sealed", "log", "progress")
)


class Server:
    """Serves a host. ``process`` ends this process."""

    def __init__(self, socket, process):
        self.process = process
        self.connection = Connection(socket, process.lost)
        roots = Roots()
        self.host_memory = HostMemory(roots, self._memory_came_free)
        self.pool = Pool(roots, self._memory_came_free)
        self.pool.wanted = lambda: not (self.call is not None and self.call.cancelled)
        self._decoder = Decoder(self.host_memory, self.pool)
        self._encoder = Encoder(roots, self.host_memory, self.pool)
        self._reader = FrameReader(socket, self._before_waiting)
        self._spin = Spin(socket.fileno())
        #: Held by the thread that reads.
        self.reading = threading.Lock()
        #: The running call, and the number of calls so far.
        self.call = None
        self.n_calls = 0
        self._known = {}
        self._pending = deque()
        self._model = None
        #: Whether code of a model may have run, and whether this process has prepared or packed one. Never both: the one may be
        #: hostile, the other has credentials of package indexes, and makes what other models run.
        self._runs_models = self._prepares_models = False
        self._loops = loading.EventLoops()
        self._sealed = {}
        self._last_handle = 0
        self._stopping = False
        self._shared_memory = False
        self._kept = _KEPT
        self.watcher = Watcher(self)
        self._notes = {
            "cancel": self._on_cancel,
            "credit": self._on_credit,
            "unseal": self._on_unseal,
            "map": self._on_map,
            "unmap": self._on_unmap,
            "release": _nothing,
            "pong": _nothing,
            "ping": self._on_ping,
            "shutdown": self._on_shutdown,
            "error": self._on_error,
        }
        self._calls = {
            "load": self._load,
            "prepare": self._prepare,
            "pack": self._pack,
            "describe": self._describe,
            "infer": self._infer,
            "infer_stream": self._stream,
            "seal": self._seal,
            "infer_sealed": self._infer_sealed,
        }

    # The loop.

    def serve(self):
        """Serves until the host is gone or requests a shutdown; does not return."""
        self.reading.acquire()
        try:
            self._greet()
            carton_runner._pool = self.pool
            self.watcher.start()
            while True:
                if self._pending:
                    call = self._pending.popleft()
                else:
                    if self.host_memory.has_releases():
                        self.flush_releases()
                    call = self.read()
                    if call is None:
                        if self._stopping and not self._known:
                            self.process.end(0)
                        continue
                self._run(call)
        except EndOfFile:
            # No call is running.
            self.process.end(0)
        except ProtocolError as end:
            self.ended(end)

    def ended(self, end):
        """Ends the process after the end of the connection or a breach of the protocol, even if a call is running."""
        if isinstance(end, EndOfFile):
            self.process.end_at_once(0)
        self.connection.send('"error":{"code":"protocol","message":%s,"causes":[]}' % quote(str(end)))
        self.process.end_at_once(1, "the host broke the protocol: %s" % end)

    def _greet(self):
        self.connection.send(
            '"hello":{"protocol":"carton-runner","versions":[2],"features":["shared_memory"],"dtypes":["%s"],"name":"%s",'
            '"framework_version":"%s"}' % ('","'.join(BEYOND), version.NAME, version.framework_version())
        )
        text, _ = self._reader.next()
        number, _, name, fields = parse(text)
        if name != "hello":
            raise ProtocolError("expected `hello` as first message, found `%s`" % name)
        if type(fields) is not dict or type(fields.get("protocol")) is not str:
            raise malformed(name, "`protocol` is no text")
        if fields["protocol"] != "carton-runner":
            raise ProtocolError("expected a peer that speaks `carton-runner`, found one that speaks `%s`" % fields["protocol"])
        versions = fields.get("versions")
        if type(versions) is not list or any(type(one) is not int for one in versions):
            raise malformed(name, "`versions` is no list of integers")
        if 2 not in versions:
            text = "no protocol version in common: this side speaks [2], the other one %s" % versions
            raise ProtocolError(text)
        features = fields.get("features", [])
        if type(features) is not list or any(type(one) is not str for one in features):
            raise malformed(name, "`features` is no list of texts")
        dtypes = fields.get("dtypes", [])
        if type(dtypes) is not list or any(type(one) is not str for one in dtypes):
            raise malformed(name, "`dtypes` is no list of texts")
        # Names that this side does not know mean nothing.
        self._encoder.take(dtypes)
        self._shared_memory = "shared_memory" in features
        self.pool.is_in_use = self._shared_memory and regions.are_possible()

    def _before_waiting(self):
        if self.connection.has_backlog():
            self.connection.wait()
        else:
            self._spin.wait()

    def read(self):
        """Reads one message. Handles it, or returns the call that it starts. Called only by the thread that reads."""
        text, body = self._reader.next()
        number, releases, name, fields = parse(text)
        call = None
        if name in self._calls:
            call = self._new_call(number, name, fields, body)
        else:
            note = self._notes.get(name)
            if note is not None:
                if type(fields) is not dict:
                    raise malformed(name, "it is no object")
                note(number, fields)
            elif name == "hello":
                raise ProtocolError("unexpected `hello`: it was sent before")
            elif name in _ONLY_RUNNERS:
                raise ProtocolError("unexpected `%s`: only runners send it" % name)
            else:
                self._refuse(number, "unknown_message", "this runner does not know the message `%s`" % name)
        if releases:
            self.pool.release(releases)
        return call

    def read_for(self, call):
        """Reads one message while a call runs; a call that arrives meanwhile has to wait. Called only by the thread that reads."""
        other = self.read()
        if other is not None:
            self._pending.append(other)

    def has_read_ahead(self):
        """Whether bytes of further messages are buffered, and no longer in the socket."""
        return self._reader.has_read_ahead()

    # Incoming calls.

    def _new_call(self, number, name, fields, body):
        if type(fields) is not dict:
            raise malformed(name, "it is no object")
        # The contents are decoded first, because lent memory has to be given back in any case.
        argument, problem, credits = None, None, 0
        try:
            if name in ("load", "prepare"):
                argument = load_fields(fields, name)
            elif name == "pack":
                argument = pack_fields(fields)
            elif name == "infer_sealed":
                argument = check_number(fields.get("handle"), name, "handle")
            elif name == "describe":
                pass
            elif self._model is None:
                self._decoder.discard(fields.get("inputs"))
            else:
                if name == "infer_stream":
                    credits = check_number(fields.get("credits"), name, "credits")
                argument = self._decoder.decode(name, fields.get("inputs"), body)
        except RunnerError as error:
            problem = error
        if number is None:
            raise malformed(name, "it has no id")
        if number in self._known:
            raise ProtocolError("`%s` has the number %d of a call that is still running" % (name, number))
        if problem is not None:
            _forget(problem)
            self._fail(number, problem)
        elif self._model is None and name not in _WITHOUT_MODEL:
            self._refuse(number, "not_loaded", "no model is loaded")
        elif len(self._known) >= _CALL_CAP:
            self._refuse(number, "busy", "more calls than this runner runs at once")
        else:
            call = Call(number, name, argument, credits)
            self._known[number] = call
            return call
        return None

    def _refuse(self, number, code, message):
        self.connection.send('"error":{"code":"%s","message":%s,"causes":[]}' % (code, quote(message)), number)

    # Messages that are not calls.

    def _on_cancel(self, number, fields):
        call = self._known.get(number)
        if call is not None:
            call.cancel()

    def _on_credit(self, number, fields):
        n = check_number(fields.get("n"), "credit", "n")
        call = self._known.get(number)
        if call is not None:
            call.credits = min(call.credits + n, _CREDIT_CAP)

    def _on_unseal(self, number, fields):
        handle = check_number(fields.get("handle"), "unseal", "handle")
        # Queued, because the model's `unseal` has to run on the thread that runs the model's code.
        self._pending.append(Call(None, "unseal", handle))

    def _on_map(self, number, fields):
        region = check_number(fields.get("region"), "map", "region")
        size = check_number(fields.get("size"), "map", "size")
        descriptor = self._reader.claim("map")
        if not self._shared_memory:
            os.close(descriptor)
            raise ProtocolError("unexpected `map`: shared memory was not agreed on")
        self.host_memory.map(region, size, descriptor)

    def _on_unmap(self, number, fields):
        self.host_memory.unmap(check_number(fields.get("region"), "unmap", "region"))

    def _on_ping(self, number, fields):
        self.connection.send('"pong":{}', number)

    def _on_shutdown(self, number, fields):
        self._stopping = True

    def _on_error(self, number, fields):
        if fields.get("code") == "protocol" and number is None:
            raise EndOfFile

    # Running a call.

    def _run(self, call):
        """Runs a call on this thread, which does not read meanwhile."""
        self.n_calls += 1
        self.call = carton_runner._call = call
        if self.watcher.asleep:
            self.watcher.wake()
        self.reading.release()
        try:
            self._perform(call)
        except SystemExit as exit:
            self.process.exit_as_asked(exit)
        except BaseException as error:  # noqa: BLE001, whatever a model raises is an error of its call
            self.process.after_model()
            described = tracebacks.of_call(error, call, self._model)
            _forget(error)
            self._fail(call.number, described)
        self.call = carton_runner._call = None
        if not self.reading.acquire(False):
            self.watcher.stand_down()
        if not self.n_calls % _RECOUNT:
            self.host_memory.count()
        if self.host_memory.n_bytes > self._kept:
            self._collect_kept()
        if self._stopping and not self._known and not self._pending:
            self.process.end(0)

    def _perform(self, call):
        if call.kind == "unseal":
            return self._unseal(call)
        if call.cancelled:
            raise Cancelled
        return self._calls[call.kind](call)

    def _last_answer(self, message, number):
        # Removed first, because the host may use the number again as soon as it has the answer.
        self._known.pop(number, None)
        self.connection.send(message, number)

    def _fail(self, number, error):
        if number is None:
            # `unseal` has no answer.
            self.log("error", None, error.message)
            return
        fields = '"code":"%s","message":%s,"causes":[%s]' % (
            error.code,
            # Shortened, because it may quote a value of the model that is too long for a message.
            quote(tracebacks.shortened(error.message)),
            ",".join(quote(cause) for cause in error.causes),
        )
        if error.hint:
            fields += ',"hint":%s' % quote(error.hint)
        self._last_answer('"error":{%s}' % fields, number)

    def _load(self, call):
        if self._model is not None:
            raise RunnerError("a model is loaded already", code="already_loaded")
        if self._prepares_models:
            raise RunnerError("this process has prepared or packed a model, and loads none", hint="load it in another process")
        report = Report(self._report, call)
        model, numpy = loading.load(call.take_argument(), report, call, self._loops, self._before_model)
        self.process.after_model()
        self._decoder.use(numpy)
        self._encoder.use(numpy)
        self.pool.numpy = numpy
        model.writable = self.host_memory.writable
        self.host_memory.are_inputs_writable = model.writable_inputs
        self._model = model
        self._last_answer('"loaded":{"max_concurrency":1}', call.number)

    def _before_model(self):
        self._runs_models = True

    def _begin_preparing(self):
        if self._runs_models:
            raise RunnerError("this process has run a model, and prepares none", hint="prepare it in another process")
        self._prepares_models = True

    def _prepare(self, call):
        self._begin_preparing()
        fields, report = call.take_argument(), Report(self._report, call)
        folder = loading.model_folder(fields)
        # Checked first, so that an unusable device is reported before packages are fetched.
        devices.choose(fields["device"], report.is_wanted)
        prepared = environments.prepare(Path(folder), report)
        self._last_answer('"prepared":%s' % prepared_json(prepared), call.number)

    def _pack(self, call):
        self._begin_preparing()
        fields = call.take_argument()
        report = Report(self._report, call)
        path, scratch = Path(fields["path"]), Path(fields["scratch"])
        # Imported here, because a runner that only runs models does not need it.
        from carton_runner import packing

        options, pack_options = fields["options"], fields["pack_options"]
        compat_version = fields["runner_compat_version"]
        inputs, leave_out = fields["inputs"], fields["leave_out"]
        packed = packing.pack(path, scratch, options, pack_options, inputs, compat_version, report, leave_out)
        self._last_answer('"packed":%s' % packed_json(packed), call.number)

    def _describe(self, call):
        specs, example = self._model.statement()
        self.process.after_model()
        encoded = self._encode(call, example)
        del example
        self._answer(call, "described", encoded, specs, "example")

    def _infer(self, call):
        result = self._model.infer(call, call.take_argument())
        if type(result) is not dict:
            result = self._model.outputs(call, result)
        self.process.after_model()
        encoded = self._encode(call, result)
        del result
        self._answer(call, "inferred", encoded)

    def _infer_sealed(self, call):
        handle = call.take_argument()
        if handle not in self._sealed:
            raise RunnerError("no inputs are sealed under handle %d" % handle, code="unknown_handle")
        result = self._model.outputs(call, self._model.infer_sealed(call, self._sealed[handle]))
        self.process.after_model()
        encoded = self._encode(call, result)
        del result
        self._answer(call, "inferred", encoded)

    def _seal(self, call):
        sealed = self._model.seal(call, call.take_argument())
        self.process.after_model()
        self._last_handle += 1
        self._sealed[self._last_handle] = sealed
        self._last_answer('"sealed":{"handle":%d}' % self._last_handle, call.number)

    def _unseal(self, call):
        sealed = self._sealed.pop(call.take_argument(), None)
        if sealed is not None:
            self._model.unseal(call, sealed)
            self.process.after_model()

    def _stream(self, call):
        items = self._model.items(call, self._model.infer(call, call.take_argument()))
        n_sent = 0
        try:
            for item in items:
                self.process.after_model()
                self._wait_for_credit(call, n_sent)
                item = self._encode(call, self._model.outputs(call, item))
                n_sent += 1
                self._answer(call, "stream_item", item)
                # The backlog is sent before the next item is made.
                while self.connection.has_backlog() and not call.cancelled:
                    self._read_a_while(call)
                item = None
                if call.cancelled:
                    raise Cancelled
        finally:
            self.process.after_model()
            close(items)
            self.process.after_model()
        self._last_answer('"stream_end":{}', call.number)

    def _wait_for_credit(self, call, n_sent):
        while call.credits <= n_sent and not call.cancelled:
            if self.host_memory.has_releases():
                # The next answer, which would carry the releases, may take long.
                self.flush_releases()
            self._read_a_while(call)
        if call.cancelled:
            raise Cancelled

    def _read_a_while(self, call):
        """Reads a message on this thread, in the middle of a call."""
        if not self.reading.acquire(False):
            self.watcher.stand_down()
        try:
            if self.connection.has_backlog() and not self.has_read_ahead():
                if not self.connection.wait(timeout=50):
                    return
            self.read_for(call)
        except (EndOfFile, ProtocolError) as end:
            # Ends the process without running the model's cleanup of its stream.
            self.ended(end)
        finally:
            self.reading.release()

    def _encode(self, call, result):
        if call.cancelled:
            # The answer is no longer needed, so the outputs are not worth a copy.
            raise Cancelled
        return self._encoder.encode(result, self._model.declared)

    def _answer(self, call, name, encoded, fields="", tensors="outputs"):
        """Sends outputs, after other fields. The caller must have dropped its references to them."""
        connection = self.connection
        try:
            encoded.settle()
            with connection.lock:
                # Inputs that are returned as outputs are released by the message that names them, not by an earlier one.
                encoded.parting.clear()
                for region in self.pool.take_retired():
                    connection.send('"unmap":{"region":%d}' % region)
                message = '"%s":{%s"%s":[%s]}' % (name, fields, tensors, ",".join(encoded.wires))
                connection.check(message, encoded.n_bytes)
                encoded.lend(self._announce)
                if name != "stream_item":
                    self._known.pop(call.number, None)
                releases = self.host_memory.take_releases()
                connection.send(message, call.number, releases, encoded.parts, encoded.n_bytes)
        except BaseException:
            encoded.abandon()
            raise

    def _announce(self, number, size, descriptor):
        self.connection.send_with_descriptor('"map":{"region":%d,"size":%d}' % (number, size), descriptor)

    # Independent of calls.

    def _report(self, message, number, text):
        self.connection.send(message % quote(text), number)

    def log(self, level, number, text):
        """Sends a log record."""
        self.connection.send('"log":{"level":"%s","message":%s}' % (level, quote(text)), number)

    def _memory_came_free(self):
        # Called at any time on any thread: takes no lock. While a call runs, its answer carries the releases.
        if self.call is None and self.watcher.asleep:
            self.watcher.wake()

    def flush_releases(self):
        """Releases memory of the host that is no longer in use, and announces removed regions."""
        connection = self.connection
        with connection.lock:
            for region in self.pool.take_retired():
                connection.send('"unmap":{"region":%d}' % region)
            releases = self.host_memory.take_releases()
            if releases:
                connection.send('"release":{}', None, releases)

    def _collect_kept(self):
        """Runs a garbage collection. Without it, inputs in reference cycles would be kept until Python's next one, while the host
        waits for its memory."""
        gc.collect()
        self.host_memory.count()
        self._kept = max(_KEPT, 2 * self.host_memory.n_bytes)

    def trim(self):
        """Removes memory of the pool that has been idle for long. Returns whether there is other idle memory."""
        return self.pool.trim(time.monotonic())


def _nothing(number, fields):
    """Handles messages of which only the releases matter."""


def _forget(error):
    """Removes the tracebacks of an exception, because their frames hold the inputs of its call."""
    seen = set()
    to_cut = [error]
    while to_cut:
        error = to_cut.pop()
        # Compared with `is`, because a model's exception may define its own truth value.
        if error is not None and id(error) not in seen:
            seen.add(id(error))
            error.__traceback__ = None
            to_cut += (error.__cause__, error.__context__)
