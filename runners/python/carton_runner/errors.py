"""The errors of the runner: those that a call fails with, and those that end the connection."""


class RunnerError(Exception):
    """A call that failed, in words for the user.

    ``message`` says what went wrong, ``causes`` the reasons behind it (outermost first), ``hint`` what the user can do.
    ``code`` is one of spec/runner-protocol.md section 5: ``unavailable`` for something that the model needs, that is missing on
    this machine, and that can be installed; ``network`` for something that must be fetched over the network and cannot be;
    ``unprepared`` for a model that another process has to prepare before it can be loaded;
    ``setup`` for faults of neither the model nor the runner, such as a full disk or a mistake in a list of requirements.
    """

    def __init__(self, message, causes=(), code="failed", hint=None):
        super().__init__(message)
        self.message = message
        self.causes = tuple(causes)
        self.code = code
        self.hint = hint


class ProtocolError(Exception):
    """The host broke the protocol. The reason is sent to it, and the connection is closed."""
