"""Why a reader refuses a file: one of a small list of reasons, which spec/conformance/README.md describes."""

REASONS = {
    "archive": "the zip archive is malformed, or two of its statements contradict each other",
    "unsupported": "a version, a method or a feature that the format does not have",
    "limit": "more than the format allows",
    "name": "a path that is not allowed, or that is there twice",
    "link": "a symbolic link that does not lead to a file of the carton",
    "manifest": "MANIFEST is malformed, or does not list exactly the files that there are",
    "digest": "bytes that do not have the digest stated for them",
    "metadata": "carton.toml is malformed",
    "links": "LINKS is malformed",
    "tensor": "tensor_data is malformed, or a tensor is not as it is declared",
}


class Refused(Exception):
    """A file that breaks the format."""

    def __init__(self, reason, text):
        assert reason in REASONS, reason
        super().__init__(text)
        self.reason = reason
