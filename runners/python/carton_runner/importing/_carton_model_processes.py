"""The main module of the processes that a model starts by ``multiprocessing``: the modules of the model are found there as in its own
process."""

import os

from carton_runner import model_modules

model_modules.install(os.environ["CARTON_PYTHON_MODEL_FOLDER"])
