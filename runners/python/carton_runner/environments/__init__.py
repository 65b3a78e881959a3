"""Environments of models: what a model needs from the package index, and where it is on this machine.

The runner calls :func:`prepare` before it imports a model, and ``gathering.gather`` to pack one. Both raise
``carton_runner.errors.RunnerError``. ``report`` has ``info(text)``, ``warn(text)`` and ``progress(what, done, total)``, and
``is_wanted()`` says whether anybody still waits.

- ``preparing``: what a model asks for, ``store``: the environments of this machine, each made once, ``uv``: finds and
  runs ``uv``, ``programs``: runs programs until they are done or nobody waits, ``variables``: what they see.
- ``lock``: the lock of a model, ``original_lock``: the one of the original Carton; pure, both are read as strictly as
  they can be.
- ``compiling``: makes locks, ``writing_original``: those of the original Carton.
- ``tree``, ``wheels``, ``gathering``: what goes into a carton.
"""

#: Environment variables (patterns of ``fnmatch``) that installing packages needs and that the model does not see. The
#: descriptor that ``carton runner install python`` writes asks for the same.
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
    """Makes the environment of the model in ``model_folder`` unless it is there. Returns the folder of its packages as
    a ``Path``, or ``None`` for a model that asks for none: it runs with what the interpreter has."""
    # Not before it is needed: a runner starts sooner without.
    from carton_runner.environments import preparing

    return preparing.prepare(model_folder, report)
