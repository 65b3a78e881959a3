"""The state of one call, for the code that runs it."""

from carton_runner.errors import RunnerError


class Call:
    """A call of the host: its number, its request, and the host's later messages about it."""

    __slots__ = ("number", "kind", "argument", "cancelled", "credits", "_task", "_loop")

    def __init__(self, number, kind, argument, credits=0):
        self.number = number
        self.kind = kind
        #: The contents of the message; taken once, so that nothing keeps inputs longer than the model.
        self.argument = argument
        self.cancelled = False
        #: The total number of stream items that the host has allowed. Only the thread that reads writes it, so no addition is lost.
        self.credits = credits
        self._task = None
        self._loop = None

    def take_argument(self):
        """Returns the contents of the message, and drops them from the call."""
        argument, self.argument = self.argument, None
        return argument

    def cancel(self):
        """Cancels the call, because the host no longer waits for its answer. Called by the thread that reads."""
        self.cancelled = True
        task, loop = self._task, self._loop
        if task is not None:
            try:
                loop.call_soon_threadsafe(task.cancel)
            except RuntimeError:
                # The model closed the loop.
                pass

    def run(self, loop, coroutine, cancellable):
        """Runs a coroutine of the model on its event loop. Cancelling the call cancels a ``cancellable`` one."""
        task = loop.create_task(coroutine)
        try:
            if cancellable:
                self._loop, self._task = loop, task
                if self.cancelled:
                    task.cancel()
            return loop.run_until_complete(task)
        finally:
            self._task = None


class Cancelled(RunnerError):
    """A call that ended early because it was cancelled."""

    def __init__(self):
        super().__init__("the call was cancelled", code="cancelled")


class Report:
    """Sends log records and progress of a call, for the code that prepares a model."""

    def __init__(self, send, call):
        self._send = send
        self._call = call
        self._number = call.number

    def is_wanted(self):
        """Whether the call has not been cancelled."""
        return not self._call.cancelled

    def info(self, text):
        """Sends a log record of level ``info``."""
        self._send('"log":{"level":"info","message":%s}', self._number, text)

    def warn(self, text):
        """Sends a log record of level ``warn``."""
        self._send('"log":{"level":"warn","message":%s}', self._number, text)

    def progress(self, what, done, total=None):
        """Reports the progress of a long preparation: ``done`` of ``total`` (``None`` if unknown) units of ``what``."""
        rest = ',"done":%d' % done if total is None else ',"done":%d,"total":%d' % (done, total)
        self._send('"progress":{"what":%s' + rest + "}", self._number, what)
