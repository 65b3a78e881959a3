"""How an attempt ends."""


class Nothing(Exception):
    """The attempt met no error, and yet achieved nothing."""


def printable(data, limit=200):
    """Returns the beginning of some bytes as text in one line."""
    if isinstance(data, bytes):
        data = data.decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else " " for letter in data[:limit])
