r"""
What is a smooth hinge, and why does learning weights need one?
===============================================================

The derivative of a trained model with respect to its weights exists where the loss has a second
derivative (``thm:derivatives``).  The hinge has none at its corner and none anywhere else;
:class:`lupi.losses.SmoothHinge` rounds the corner over a width of :math:`2\delta`
(``eq:smoothloss``, the figure ``fig:hinge_losses`` of the paper).
"""

import matplotlib.pyplot as plt
import numpy as np

from lupi.losses import Logistic, SmoothHinge, SquaredHinge

t = np.linspace(-1.5, 2.0, 701)
loss = SmoothHinge(delta=0.5)

fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
axes[0].plot(t, np.where(t <= 0, 1.0, 0.0), color="grey", linestyle="dotted", label="0-1")
axes[0].plot(t, np.maximum(1 - t, 0), color="black", linestyle="dashed", label="hinge")
axes[0].plot(t, loss.value(t), color="tab:blue", label=r"smooth hinge, $\delta = 0.5$")
axes[0].plot(t, loss.d1(t), color="tab:orange", label="its first derivative")
axes[0].plot(t, loss.d2(t), color="tab:green", label="its second derivative")
axes[0].set(title="rounding the corner", xlabel="margin $t = y f(x)$")
axes[0].legend()

# %%
# A small :math:`\delta` is closer to the hinge, and has fewer rows in its curved part: they alone
# tell how the model bends when a weight changes.

for delta, colour in [(0.05, "tab:red"), (0.25, "tab:purple"), (1.0, "tab:blue")]:
    axes[1].plot(t, SmoothHinge(delta).value(t), color=colour, label=rf"$\delta = {delta}$")
axes[1].plot(t, SquaredHinge().value(t), color="grey", label="squared hinge")
axes[1].plot(t, Logistic().value(t), color="grey", linestyle="dotted", label="logistic")
axes[1].set(title="others", xlabel="margin", ylim=(-0.1, 3))
axes[1].legend()
plt.show()

# %%
# **What was learned:** the smooth hinge is the hinge beyond its curved part, up to a constant
# :math:`\delta`, and has two continuous derivatives:
joint = 1.0 - 2.0 * loss.delta
for order, function in enumerate([loss.value, loss.d1, loss.d2]):
    left, right = function(np.array([joint - 1e-9, joint + 1e-9]))
    print(f"derivative {order} at the joint: {left:.6f} and {right:.6f}")
