# part: slow
# requires: jax==0.10.2
import jax
import jax.numpy as jnp


@jax.jit
def loss(weights, x):
    return jnp.tanh(x @ weights).sum()


def run():
    x = jax.random.normal(jax.random.key(1), (32, 8))
    weights = jnp.linspace(-1, 1, 8)
    gradient = jax.grad(loss)(weights, x)
    return {"numbers": [loss(weights, x).item(), *gradient.tolist(), jax.device_count()]}
