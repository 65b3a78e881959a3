# On JAX.
# part: slow
# requires: keras==3.15.1 jax==0.10.2
import os

os.environ["KERAS_BACKEND"] = "jax"

import keras  # noqa: E402
import numpy as np  # noqa: E402


def run():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    x = np.linspace(-1, 1, 256).reshape(64, 4)
    history = model.fit(x, x.sum(axis=1), epochs=3, verbose=0)
    return {"numbers": [*history.history["loss"], *model.predict(x[:4], verbose=0).ravel()]}
