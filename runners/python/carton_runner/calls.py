"""One call as the code that runs it sees it."""

from carton_runner.errors import RunnerError


class Call:
    """A call of the host: its number, what was asked for, and what the host said of it since."""

    __slots__ = ("number", "kind", "argument", "cancelled", "credits", "_task", "_loop")

    def __init__(self, number, kind, argument, credits=0):
        self.number = number
        self.kind = kind
        #: What the message carried; taken once, so that nothing keeps inputs longer than the model.
        self.argument = argument
        self.cancelled = False
        #: Items of a stream that the host allowed, in all. Only the thread that reads writes it: no addition is lost.
        self.credits = credits
        self._task = None
        self._loop = None

    def take_argument(self):
        """What the message carried."""
        argument, self.argument = self.argument, None
        return argument

    def cancel(self):
        """Nobody waits for the answer any more. Called by the thread that reads."""
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
    """A call that ended early because nobody waits for it."""

    def __init__(self):
        super().__init__("the call was cancelled", code="cancelled")


class Report:
    """Log records and progress of a call, for whoever prepares a model."""

    def __init__(self, send, call):
        self._send = send
        self._call = call
        self._number = call.number

    def is_wanted(self):
        """Whether somebody still waits for the call."""
        return not self._call.cancelled

    def info(self, text):
        """Worth knowing."""
        self._send('"log":{"level":"info","message":%s}', self._number, text)

    def warn(self, text):
        """Looks wrong."""
        self._send('"log":{"level":"warn","message":%s}', self._number, text)

    def progress(self, what, done, total=None):
        """How far a long preparation has come: ``done`` of ``total`` (``None`` when unknown) units of ``what``."""
        rest = ',"done":%d' % done if total is None else ',"done":%d,"total":%d' % (done, total)
        self._send('"progress":{"what":%s' + rest + "}", self._number, what)
