r"""
Can an estimate of P(y|x) choose the weights?
=============================================

Two classes along a W that overlap: the toy problem of the figure ``fig:toy_dataset2`` of the paper.
Rows on the wrong side of the boundary pull an SVM towards them.  Here every row counts as much as
its label is probable where it lies, :math:`c_i = P(y_i | x_i)^\tau` (``eq:wgt:weights_alpha``),
with the probability from a Nadaraya-Watson estimate (``eq:nadaraya_watson``) on a larger sample.
"""

import matplotlib.pyplot as plt
import numpy as np

from lupi import WeightedSVC
from lupi.datasets import make_w_mixture
from lupi.weighting import NadarayaWatson, conditional_weights

X, y = make_w_mixture(60, random_state=0)
X_val, y_val = make_w_mixture(1_500, random_state=1)
X_test, y_test = make_w_mixture(4_000, random_state=2)

# %%
# The probability, and the weights
# --------------------------------
# The bandwidth is chosen by leave-one-out likelihood.  Every model may choose its C and gamma
# on the validation rows.

smoother = NadarayaWatson().fit(X_val, y_val)
weight = conditional_weights(y, smoother.eta(X), tau=2.0)
print(f"bandwidth {smoother.bandwidth_:.3f}, weights from {weight.min():.2f} to {weight.max():.2f}")


def tuned(sample_weight):
    models = [
        WeightedSVC(C=C, gamma=gamma).fit(X, y, sample_weight=sample_weight)
        for C in (1.0, 10.0, 100.0)
        for gamma in (3.0, 10.0, 30.0)
    ]
    return max(models, key=lambda model: model.score(X_val, y_val))


plain, weighted = tuned(None), tuned(weight)
for name, model in [("SVM", plain), ("weighted SVM", weighted)]:
    print(f"{name:>12}: test error {1 - model.score(X_test, y_test):.3f}")

# %%
# Both boundaries
# ---------------

grid = np.linspace(-0.05, 1.05, 90)
mesh = np.stack(np.meshgrid(grid, np.linspace(-0.5, 1.1, 90)), axis=-1)
shape, flat = mesh.shape[:2], mesh.reshape(-1, 2)
fig, ax = plt.subplots(figsize=(6, 5), layout="constrained")
probability = smoother.predict_proba(flat)[:, 1].reshape(shape)
ax.contourf(mesh[..., 0], mesh[..., 1], probability, levels=10, cmap="coolwarm", alpha=0.4)
for label, colour in [(-1, "tab:blue"), (1, "tab:red")]:
    rows = y == label
    ax.scatter(*X[rows].T, s=80 * weight[rows] + 2, color=colour, edgecolor="black", linewidth=0.5)
for model, style, name in [(plain, "dashed", "SVM"), (weighted, "solid", "weighted SVM")]:
    values = model.decision_function(flat).reshape(shape)
    ax.contour(mesh[..., 0], mesh[..., 1], values, levels=[0], colors="black", linestyles=style)
    ax.plot([], [], color="black", linestyle=style, label=name)
ax.legend()
plt.show()

# %%
# **What was learned:** rows that contradict their neighbourhood shrink, and the boundary follows
# the W with fewer detours.
