r"""
Which weights replay an SVM+?
=============================

The figure ``fig:equiv_example`` of the paper: privileged features and instance weights that give
the same classifier.  Six rows on a line, two of them on the wrong side; the privileged feature is
the loss of a good classifier, as the LUPI paradigm suggests.  See :ref:`equivalence`.
"""

# %%
# An SVM+, and its weights
# ------------------------
# All rows have the same cost.  The dual variables say how much of the weight went where
# (``thm:svmw_from_svmp``).

import matplotlib.pyplot as plt
import numpy as np

from lupi import SVMPlusClassifier, WeightedSVC
from lupi.datasets import make_equivalence_example
from lupi.equivalence import replicating_weights, rho
from lupi.inspection import explain
from lupi.plotting import WeightMarginDisplay

X, y, hardness = make_equivalence_example()

plus = SVMPlusClassifier(C=0.4, correction_reg=0.5, kernel="linear", kernel_priv="linear")
plus.fit(X, y, X_priv=hardness)
weights = replicating_weights(plus)
print("weights:", weights.round(3), " cost of each row:", plus.C)
print(f"rho = {rho(weights, plus.slack_):.3f}: the outliers weigh more than their share")
print(explain(plus))

# %%
# A weighted SVM with these weights
# ---------------------------------
# It never sees the privileged feature, and is the same function.

weighted = WeightedSVC(kernel="linear", intercept=plus.intercept_[0])
weighted.fit(X, y, sample_weight=weights)
grid = np.linspace(-2.5, 2.5, 101)[:, None]
difference = weighted.decision_function(grid) - plus.decision_function(grid)
print(f"largest difference of the two decision functions: {np.abs(difference).max():.1e}")

# %%
# Side by side
# ------------
# The area of a point is its weight: equal costs above, the learned weights below.

fig, axes = plt.subplots(2, 1, figsize=(7, 5.5), layout="constrained", sharex=True)
for ax, model, area, title in [
    (axes[0], plus, np.full(len(y), plus.C), "SVM+: equal costs and a privileged feature"),
    (axes[1], weighted, weights, "weighted SVM: weights and no privileged feature"),
]:
    ax.axhline(0, color="0.7", linewidth=1)
    ax.plot(grid, model.decision_function(grid), color="black", label="f(x)")
    for label, colour, marker in [(-1, "#0072b2", "o"), (1, "#d55e00", "s")]:
        rows = y == label
        ax.scatter(
            X[rows, 0],
            np.zeros(rows.sum()),
            s=20 + 400 * area[rows],
            color=colour,
            marker=marker,
            alpha=0.7,
            label=f"class {label:+d}",
        )
    ax.set(title=title, ylabel="f(x)")
axes[1].set(xlabel="x")
# The handles of a scatter have the size of its first point.
legend = axes[0].legend(loc="upper left")
for handle in legend.legend_handles[1:]:
    handle.set_sizes([60])
plt.show()

# %%
# Weights against margins: the rows beyond the margin gave their weight (the dashed line is what
# each row costs) to those that are hard.

WeightMarginDisplay.from_estimator(plus, s=60)
plt.show()

# %%
# **What was learned:** privileged features act through weights, and put them on the rows that are
# hard.
