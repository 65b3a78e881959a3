"""``python -I run``, or ``python -m carton_runner`` with a host's socket as standard input."""

from carton_runner import credentials


def main():
    """Restarts this process without credentials of package indexes, then serves the host."""
    credentials.part()
    # Imported here, because the restart would import it a second time.
    from carton_runner import process

    process.main()


if __name__ == "__main__":
    main()
