# part: slow
# requires: tensorflow==2.21.0
import numpy as np
import tensorflow as tf


def run():
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)])
    model.compile("adam", "mse")
    x = np.linspace(-1, 1, 256).reshape(64, 4)
    data = tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1))).batch(16).prefetch(2)
    history = model.fit(data, epochs=3, verbose=0)
    return {"numbers": [*history.history["loss"], *model.predict(x[:4], verbose=0).ravel()]}
