"""The errors of the runner, as values: what a call fails with, and what ends the connection."""


class RunnerError(Exception):
    """A call that failed, in words for the user.

    ``message`` says what went wrong, ``causes`` the reasons behind it (outermost first), ``hint`` what the user can do.
    ``code`` is one of spec/runner-protocol.md section 5; ``unavailable`` is for something that the model needs, is not on
    this machine, and can be installed; ``network`` for what has to come over the network, and cannot; ``setup`` for what is
    wrong with neither the model nor the runner: a full disk, a mistake in a list of requirements.
    """

    def __init__(self, message, causes=(), code="failed", hint=None):
        super().__init__(message)
        self.message = message
        self.causes = tuple(causes)
        self.code = code
        self.hint = hint


class ProtocolError(Exception):
    """The host broke the protocol: it is told why, and the connection is closed."""
