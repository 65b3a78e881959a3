"""``python -I run``, or ``python -m carton_runner`` with a host's socket as standard input."""

from carton_runner import process


def main():
    """Serves the host."""
    process.main()


if __name__ == "__main__":
    main()
