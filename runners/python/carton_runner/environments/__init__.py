"""Environments of models: the packages that a model needs, and their installations on this machine.

The process that loads a model calls :func:`find`, which only reads. Another process, which never runs a model, calls
:func:`prepare` to make what :func:`find` misses, or ``gathering.gather`` to pack a model. All raise
``carton_runner.errors.RunnerError``. ``report`` has ``info(text)``, ``warn(text)`` and ``progress(what, done, total)``, and
``is_wanted()`` returns whether the call has not been cancelled.

- ``requested`` finds out which packages a model requests. ``store`` knows where the environments of this machine are, and reads
  them.
- ``making`` makes environments, each once, ``run_bits`` makes their programs executable, and ``bytecode`` compiles their modules.
  ``uv`` finds and runs ``uv``. ``programs`` runs programs until they end or the call is cancelled. ``variables`` has their environment.
- ``lock`` reads and writes the lock of a model, ``original_lock`` reads that of the original Carton. Both are pure, and read as
  strictly as possible.
- ``descriptions`` finds the file that describes the packages of a model that is packed. ``requirements`` reads a ``requirements.txt`` and the
  files of the model that it includes, ``requirement_lines`` their lines, and ``dependency_specifiers`` the packages in these.
  ``exact_locks`` reads a ``pylock.toml`` and a ``uv.lock``, ``projects`` a ``pyproject.toml``, ``conda`` an ``environment.yml``, by
  ``toml_files`` and ``plain_yaml``. ``python_versions`` compares the versions of Python in them. All but the first two are pure. No text of
  a model reaches a program without being parsed and written anew: uv and pip replace ``${VARIABLE}`` by the user's passwords, open any file
  and fetch from any server that a list of requirements names.
- ``sources`` has the package indexes: the user's, and what the files of a model add to them at a pack.
- ``compiling`` makes locks of what was read, ``writing_original`` those of the original Carton and ``writing_pylock`` those of other
  installers; ``listing`` lists the files that fit. ``repositories`` builds wheels of git commits.
- ``local_wheels`` reads wheels of the model, ``wheels`` puts them and others into a carton, and ``tree`` and ``gathering`` collect the
  contents of a carton.
"""

#: Environment variables (patterns of ``fnmatch``) that installing packages needs and that the model does not see. The
#: descriptor that ``carton runner install python`` writes requests the same; only processes that prepare or pack get them.
VARIABLES = (
    "UV",
    "UV_INDEX*",
    "UV_CONFIG_FILE",
    "UV_NO_CONFIG",
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_NO_INDEX",
    "UV_KEYRING_PROVIDER",
    "UV_CREDENTIALS_DIR",
    "UV_INSECURE_HOST",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
    "UV_OFFLINE",
    "UV_HTTP_TIMEOUT",
    "UV_HTTP_CONNECT_TIMEOUT",
    "UV_HTTP_RETRIES",
    "UV_REQUEST_TIMEOUT",
    "UV_LOCK_TIMEOUT",
    "UV_CONCURRENT_DOWNLOADS",
    "UV_CONCURRENT_INSTALLS",
    "UV_NO_BUILD",
    "UV_NO_BUILD_PACKAGE",
    "UV_EXCLUDE_NEWER",
    "UV_FORK_STRATEGY",
    "UV_PRERELEASE",
    "UV_RESOLUTION",
    "UV_NO_BINARY",
    "UV_NO_BINARY_PACKAGE",
    "UV_BUILD_CONSTRAINT",
    "UV_CONCURRENT_BUILDS",
    "UV_NO_BUILD_ISOLATION",
    "PIP_CONFIG_FILE",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_NO_INDEX",
    "PIP_KEYRING_PROVIDER",
    "PIP_TRUSTED_HOST",
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_PROXY",
    "PIP_TIMEOUT",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_RETRIES",
    "PIP_USE_FEATURE",
    "PIP_USE_DEPRECATED",
    "PIP_NO_BINARY",
    "PIP_BUILD_CONSTRAINT",
    "PIP_NO_BUILD_ISOLATION",
    "GIT_ALLOW_PROTOCOL",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_KEY_*",
    "GIT_CONFIG_VALUE_*",
    "GIT_SSL_CAINFO",
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

#: What a model does not see, nor a program that installs nothing, whatever a host passes: those, and all others of uv and pip.
WITHHELD = (*VARIABLES, "UV_*", "PIP_*")


def find(model_folder, report):
    """Returns the folder of the packages of the model in ``model_folder`` as a ``Path``, or ``None`` for a model that requests none:
    it runs with the packages of the interpreter. Writes nothing and starts no program. Raises an error with the code
    ``unprepared`` if :func:`prepare` has to make the environment first, or if this process cannot read it."""
    # Imported only here, so that the runner starts faster.
    from carton_runner.environments import requested, store

    wanted = requested.packages(model_folder, store.cached_lock)
    if wanted is None:
        return None
    folder = store.find(wanted)
    if wanted.is_locked_here:
        report.warn(
            "the model has a requirements.txt and no lock: its packages were chosen on this machine; `carton pack` locks them"
        )
    return folder


def prepare(model_folder, report):
    """Makes the environment of the model in ``model_folder`` unless it exists. Returns the fields of ``prepared``
    (spec/runner-protocol.md, section 5)."""
    from carton_runner.environments import making, requested

    read = []

    def lock_of(inputs):
        text, path = making.cached_lock(inputs, report)
        read.append(str(path))
        return text

    wanted = requested.packages(model_folder, lock_of)
    if wanted is None:
        return {"read": [], "in_use": []}
    folder, lock = making.environment(wanted, report)
    return {"read": [str(folder), *read], "in_use": [str(lock)] if lock is not None else []}
