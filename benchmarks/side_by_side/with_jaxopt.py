"""jaxopt: L-BFGS, differentiated implicitly, as its documentation does it."""

from functools import partial

import jax
import jax.numpy as jnp
import jaxopt

jax.config.update("jax_enable_x64", True)


def solve(data, rounds, inner_steps, products, inner_lr, outer_lr):  # noqa: ARG001 - L-BFGS has its own step
    data = {name: jnp.asarray(value) for name, value in data.items()}

    def inner_loss(y, x):
        losses = jax.vmap(jaxopt.loss.multiclass_logistic_loss)(data["labels"], data["inputs"] @ y)
        return losses.mean() + 0.5 * (jnp.exp(x)[:, None] * y**2).sum()

    solver = jaxopt.LBFGS(
        inner_loss,
        maxiter=inner_steps,
        tol=1e-12,
        implicit_diff_solve=partial(jaxopt.linear_solve.solve_cg, maxiter=products, tol=1e-12),
    )

    def outer_loss(x, y):
        y = solver.run(y, x).params
        logits = data["validation_inputs"] @ y
        losses = jax.vmap(jaxopt.loss.multiclass_logistic_loss)(data["validation_labels"], logits)
        return losses.mean() + 0.5 * data["prior"] * ((x - data["start"]) ** 2).sum(), y

    hypergradient = jax.jit(jax.grad(outer_loss, has_aux=True))
    x, y = data["start"], jnp.zeros((len(data["start"]), 10))
    for _ in range(rounds):
        slope, y = hypergradient(x, y)
        x = x - outer_lr * slope
    return x
