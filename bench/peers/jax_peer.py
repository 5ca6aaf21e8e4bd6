"""jax_peer.py CASE: JAX's side of a case on the CPU, taking turns (turns.py). A step is one jax.jit with donated state."""
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp

from turns import take_turns


def normal(*shape, seed=0):
    return jax.random.normal(jax.random.PRNGKey(seed), shape, jnp.float32)


def bind(f, *inputs):
    f = jax.jit(f)
    kept = [None]

    def step():
        kept[0] = jax.block_until_ready(f(*inputs))
    return step


def call():
    return bind(lambda x: (x + 1) * 2, normal(16))


def pointwise():
    def chain(x, y, z):
        return jnp.tanh(x * y + z) * jax.nn.sigmoid(x) + jnp.exp(-y * y) - jax.nn.gelu(z, approximate=False)
    return bind(chain, *(normal(16 << 20, seed=seed) for seed in range(3)))


def softmax():
    return bind(lambda x: jax.nn.softmax(x, -1), normal(4096, 4096))


def mlp_parameters():
    sizes = [784, 256, 128, 10]
    return [(normal(a, b) * a**-0.5, jnp.zeros(b)) for a, b in zip(sizes, sizes[1:])]


def mlp_outputs(parameters, x):
    for layer, (weight, bias) in enumerate(parameters):
        x = x @ weight + bias
        x = jax.nn.relu(x) if layer + 1 < len(parameters) else x
    return x


def mlp_loss(parameters, x, y):
    return -jnp.take_along_axis(jax.nn.log_softmax(mlp_outputs(parameters, x)), y[:, None], 1).mean()


def mlp_batch(batch):
    return normal(batch, 784), jax.random.randint(jax.random.PRNGKey(1), (batch,), 0, 10)


def mlp(batch):
    x, y = mlp_batch(batch)
    parameters = mlp_parameters()

    def update(state):
        parameters, first, second, steps = state
        loss, gradients = jax.value_and_grad(mlp_loss)(parameters, x, y)
        steps = steps + 1
        size, scale = 1e-3 / (1 - 0.9**steps), jnp.sqrt(1 - 0.999**steps)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
        parameters = jax.tree.map(lambda p, m, v: p - size * m / (jnp.sqrt(v) / scale + 1e-8), parameters, first, second)
        return (parameters, first, second, steps), loss

    update = jax.jit(update, donate_argnums=0)
    zeros = lambda: jax.tree.map(jnp.zeros_like, parameters)
    state = [(parameters, zeros(), zeros(), jnp.float32(0))]

    def step():
        state[0], loss = jax.block_until_ready(update(state[0]))
        return loss
    return step


# ---- transforms: bench/vmap.cpp and bench/second_order.cpp ----------------------------------------------------------------

def per_sample():
    gradients = jax.vmap(lambda p, x, y: jax.grad(mlp_loss)(p, x[None], y[None]), (None, 0, 0))
    return bind(gradients, mlp_parameters(), *mlp_batch(64))


def per_sample_norm():
    def norm(parameters, x, y):
        gradients = jax.grad(mlp_loss)(parameters, x[None], y[None])
        return jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradients)))
    return bind(jax.vmap(norm, (None, 0, 0)), mlp_parameters(), *mlp_batch(64))


def ensemble():
    stacked = jax.tree.map(lambda p: jnp.stack([p] * 16), mlp_parameters())
    return bind(jax.vmap(mlp_outputs, (0, None)), stacked, mlp_batch(64)[0])


def hvp():
    x, y = mlp_batch(64)
    product = lambda p, along: jax.jvp(jax.grad(lambda p: mlp_loss(p, x, y)), (p,), (along,))[1]
    return bind(product, mlp_parameters(), mlp_parameters())


def hessian():
    def f(x):
        left, right = x[:-1], x[1:]
        return ((right - left**2)**2 * 100 + (1 - left)**2).sum() + jnp.tanh(x).sum()**2
    return bind(jax.hessian(f), normal(64))


CASES = {
    "vmap-per-sample": per_sample,
    "vmap-per-sample-norm": per_sample_norm,
    "vmap-ensemble": ensemble,
    "second-order-hvp": hvp,
    "second-order-hessian": hessian,
    "call": call,
    "pointwise": pointwise,
    "softmax": softmax,
    "mlp-64": lambda: mlp(64),
    "mlp-1024": lambda: mlp(1024),
}

if __name__ == "__main__":
    take_turns(CASES[sys.argv[1]]())
