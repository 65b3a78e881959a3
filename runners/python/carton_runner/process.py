"""The runner as a process: where its socket and its output go, and how it ends."""


def main():
    """Serves the host at standard input until it is gone or asks to shut down."""
