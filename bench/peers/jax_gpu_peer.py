"""jax_gpu_peer.py NAME [tiny]: JAX's side of a case on a GPU, taking turns (turns.py): jax.jit, many calls between two waits.
`tiny` runs a small one on the CPU."""
import os
import sys

tiny = sys.argv[-1] == "tiny"
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
if tiny:
    os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp

from turns import repeated, take_turns


def normal(*shape, seed=0, dtype=jnp.bfloat16):
    shape = [min(size, 32) if tiny else size for size in shape]
    return jax.random.normal(jax.random.PRNGKey(seed), shape, jnp.float32).astype(dtype)


def softmax():
    return lambda x: jax.nn.softmax(x.astype(jnp.float32), -1).astype(x.dtype), [normal(16384, 8192)]


def rmsnorm():
    """x + residual and its norm, and the gradients of x, residual and weight."""
    def both(x, residual, weight):
        h = x + residual
        high = h.astype(jnp.float32)
        scale = jax.lax.rsqrt(jnp.mean(high * high, -1, keepdims=True) + 1e-6)
        return h, (high * scale * weight.astype(jnp.float32)).astype(h.dtype)

    def step(x, residual, weight, upstream):
        results, backward = jax.vjp(both, x, residual, weight)
        return results, backward(upstream)
    wide = [normal(16384, 4096, seed=seed) for seed in range(4)]
    return step, [*wide[:2], normal(4096, seed=5), (wide[2], wide[3])]


CASES = {"gpu-softmax": softmax, "gpu-rmsnorm": rmsnorm}

if __name__ == "__main__":
    function, inputs = CASES[sys.argv[1]]()
    function, results = jax.jit(function), [None]

    def call():
        results[0] = function(*inputs)
    take_turns(*repeated(call, lambda: jax.block_until_ready(results[0])))
