"""Plain JAX: Newton's method on eq:gradient's system, one transposed solve, SciPy's L-BFGS-B.

Everything between the optimiser's calls is compiled, in float64. Inner problems are warm-started
and solved to lupi's own violation of 1e-7. The first step of L-BFGS-B is as long as lupi's.
"""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from lupi.threads import one_blas_thread

jax.config.update("jax_enable_x64", True)
INNER_TOL, DELTA = 1e-7, 0.5


def loss(t):
    x = jnp.clip((1 - t) / (2 * DELTA), 0, 1)
    return DELTA * x**3 * (2 - x) + jnp.maximum(1 - 2 * DELTA - t, 0)


slope = jax.vmap(jax.grad(loss))
bend = jax.vmap(jax.grad(jax.grad(loss)))


def compiled(K, y, K_val, y_val):
    n = len(y)
    K, y, K_val, y_val = map(jnp.asarray, (K, y, K_val, y_val))

    def objective(x, c):
        f = K @ x[:n]
        return 0.5 * x[:n] @ f + c @ loss(y * (f + x[n]))

    def residual_and_matrix(x, c):
        margin = y * (K @ x[:n] + x[n])
        v = c * bend(margin)
        residual = jnp.append(x[:n] + c * y * slope(margin), x[:n].sum())
        top = jnp.hstack([jnp.eye(n) + v[:, None] * K, v[:, None]])
        return residual, jnp.vstack([top, jnp.append(jnp.ones(n), 0.0)])

    def inner(x, c):
        def going(state):
            x, step = state
            return (jnp.abs(residual_and_matrix(x, c)[0]).max() > INNER_TOL * c.max()) & (step < 50)

        def body(state):
            x, step = state
            residual, M = residual_and_matrix(x, c)
            d = jnp.linalg.solve(M, -residual)
            start = objective(x, c)
            start += 1e-12 * jnp.abs(start)  # rounding must not refuse the last steps
            size = jax.lax.while_loop(
                lambda s: (objective(x + s * d, c) > start) & (s > 1e-6), lambda s: s / 2, 1.0
            )
            return x + size * d, step + 1

        return jax.lax.while_loop(going, body, (x, 0))[0]

    @jax.jit
    def value_and_gradient(x, c):
        x = inner(x, c)
        margin = y * (K @ x[:n] + x[n])
        _, M = residual_and_matrix(x, c)
        f = x[:n] @ K_val + x[n]
        g = y_val * slope(y_val * f)
        adjoint = jnp.linalg.solve(M.T, jnp.append(K_val @ g, g.sum()))
        return loss(y_val * f).mean(), -y * slope(margin) * adjoint[:n] / len(y_val), x

    return value_and_gradient


class _Reached(Exception):
    pass


class Solver:
    name = "JAX"
    package = "jax"

    def set_objective(self, problem):
        self.problem = problem
        self.value_and_gradient = compiled(problem.K, problem.y, problem.K_val, problem.y_val)
        self.run(np.inf)

    def run(self, goal=-np.inf):
        y, n = self.problem.y, len(self.problem.y)
        # At zero every margin is at the joint, where the matrix is singular.
        x = jnp.append(0.1 * y, 0.0)
        unit = 0.3 * np.sqrt(n)
        self.best, self.w, self.evaluations, self.iterations = np.inf, np.ones(n), 0, 0

        def evaluate(z):
            nonlocal x
            value, gradient, x = self.value_and_gradient(x, z * unit)
            self.evaluations += 1
            if value < self.best:
                self.best, self.w = float(value), z * unit
            if value <= goal:
                raise _Reached
            return float(value), np.asarray(gradient) * unit

        def after(intermediate_result):
            self.iterations += 1

        try:
            with one_blas_thread():
                minimize(
                    evaluate,
                    np.ones(n) / unit,
                    jac=True,
                    method="L-BFGS-B",
                    bounds=[(0, None)] * n,
                    callback=after,
                    options={"maxiter": self.problem.max_iter, "gtol": 1e-10, "ftol": 1e-14},
                )
        except _Reached:
            pass

    def get_result(self):
        return np.asarray(self.w), self.iterations, self.evaluations
