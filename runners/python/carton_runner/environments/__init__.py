"""Environments of models: the packages that a model needs, and their installations on this machine.

The runner calls :func:`prepare` before it imports a model, and ``gathering.gather`` to pack one. Both raise
``carton_runner.errors.RunnerError``. ``report`` has ``info(text)``, ``warn(text)`` and ``progress(what, done, total)``, and
``is_wanted()`` returns whether the call has not been cancelled.

- ``preparing`` finds out which packages a model requests. ``store`` keeps the environments of this machine, each made once. ``uv``
  finds and runs ``uv``. ``programs`` runs programs until they end or the call is cancelled. ``variables`` has their environment.
- ``lock`` reads and writes the lock of a model, ``original_lock`` reads that of the original Carton. Both are pure, and read as
  strictly as possible.
- ``compiling`` makes locks, ``writing_original`` those of the original Carton.
- ``tree``, ``wheels`` and ``gathering`` collect the contents of a carton.
"""

#: Environment variables (patterns of ``fnmatch``) that installing packages needs and that the model does not see. The
#: descriptor that ``carton runner install python`` writes requests the same.
VARIABLES = (
    "UV",
    "UV_*",
    "PIP_*",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "NETRC",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
)


def prepare(model_folder, report):
    """Makes the environment of the model in ``model_folder`` unless it exists. Returns the folder of its packages as
    a ``Path``, or ``None`` for a model that requests none: it runs with the packages of the interpreter."""
    # Imported only here, so that the runner starts faster.
    from carton_runner.environments import preparing

    return preparing.prepare(model_folder, report)
