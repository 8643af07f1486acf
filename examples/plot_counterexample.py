r"""
Is there a classifier that no privileged features can teach?
============================================================

The figure ``fig:counter_example`` of the paper: three rows on a line, weights that give up the
third one, and a proof that SVM+ never finds that classifier, whatever its privileged features.  See
:ref:`equivalence`.
"""

# %%
# The weighted SVM
# ----------------

import matplotlib.pyplot as plt
import numpy as np

from lupi import SVMPlusClassifier, WeightedSVC
from lupi.datasets import make_counterexample
from lupi.equivalence import EquivalentWeights, NotReplicableError, replicating_svm_plus, rho

X, y, c = make_counterexample()
weighted = WeightedSVC(kernel="linear").fit(X, y, sample_weight=c)
slack = weighted.slack_
print(f"w = {weighted.coef_[0, 0]:.3f}, b = {weighted.intercept_[0]:.3f}, losses {slack.round(3)}")
print(f"rho = {rho(c, slack):.3f}: the hardest row has the least weight")

# %%
# No privileged features
# ----------------------
# Other weights give the same classifier, and all have a negative rho.  The error carries the proof.

family = EquivalentWeights(weighted)
try:
    replicating_svm_plus(weighted)
except NotReplicableError as error:
    print(error)
    proof = error.certificate

g = proof.coef @ X[:, 0] * X[:, 0] + proof.intercept
print("y g(x)         ", (y * g).round(4))
print("xi - mean(xi)  ", (slack - slack.mean()).round(4), " is nowhere larger, so")
print(f"rho <= sum of alpha y g(x) = {weighted.alpha_ @ (y * g):.4f} for all equivalent weights")

# %%
# What SVM+ does with the suggested features
# ------------------------------------------
# The paper computes the privileged feature from the losses all the same, with C = 4 and gamma = 1.

X_priv = (slack - c @ slack / c.sum())[:, None]
plus = SVMPlusClassifier(4.0, correction_reg=1.0, kernel="linear", kernel_priv="linear")
plus.fit(X, y, X_priv=X_priv)
print(f"SVM+: w = {plus.coef_[0, 0]:.3f}, b = {plus.intercept_[0]:.3f}")

found = []
for C in np.geomspace(1e-2, 1e2, 9):
    for correction_reg in np.geomspace(1e-2, 1e2, 9):
        other = SVMPlusClassifier(
            C, correction_reg=correction_reg, kernel="linear", kernel_priv="linear"
        ).fit(X, y, X_priv=X_priv)
        found.append((other.coef_[0, 0], other.intercept_[0]))
found = np.array(found)

# %%
# Left: both classifiers; the area of a point is its weight.  Right: all that SVM+ found on a
# grid of C and gamma, and the classifier that it does not find.

grid = np.linspace(0.5, 3.5, 101)[:, None]
fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
axes[0].axhline(0, color="0.7", linewidth=1)
axes[0].plot(grid, weighted.decision_function(grid), color="black", label="weighted SVM")
axes[0].plot(grid, plus.decision_function(grid), color="black", linestyle="dashed", label="SVM+")
for label, colour, marker in [(-1, "#0072b2", "o"), (1, "#d55e00", "s")]:
    rows = y == label
    axes[0].scatter(X[rows, 0], np.zeros(rows.sum()), s=50 * c[rows], color=colour, marker=marker)
axes[0].set(xlabel="x", ylabel="f(x)", title="squares: class +1, circle: class -1")
axes[0].legend()
axes[1].scatter(*found.T, s=15, color="#0072b2", label="SVM+ on a grid")
axes[1].scatter([-2], [3], marker="*", s=200, color="#d55e00", label="weighted SVM")
axes[1].set(xlabel="w", ylabel="b", title="classifiers")
axes[1].legend()
plt.show()

# %%
# **What was learned:** SVM+ puts weight on hard rows and cannot do otherwise.  To ignore a row that
# is wrong, use weights.
