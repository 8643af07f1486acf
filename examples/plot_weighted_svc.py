r"""
Can two bad rows ruin an SVM, and can weights save it?
======================================================

Two well separated blobs, and two rows that lie extremely far from the boundary on the wrong side:
the toy problem of the figure ``fig:toy_dataset1`` of the paper.  The hinge loss of a row grows with
its distance from the boundary, so the plain SVM turns its boundary towards the two outliers and
gives up on the two hundred other rows.  A weight of zero takes a row out of
:math:`\sum_i c_i \xi_i` altogether, see :ref:`weighted_svm`.
"""

# %%
# The data
# --------
# The sign of the first feature is the class.  The two outliers are far out along that feature, on
# the wrong side, where they cost the good boundary dearly; a little of the second feature tells
# them apart as well.

import matplotlib.pyplot as plt
import numpy as np

from lupi import WeightedSVC
from lupi.datasets import make_blobs_with_outliers

X, y = make_blobs_with_outliers(200, random_state=0)
X_test, y_test = make_blobs_with_outliers(10_000, outliers=False, random_state=1)

# %%
# Two machines, one weight apart
# ------------------------------
# Both see the same 202 rows; the second is told that the last two count for nothing.

weight = np.ones(len(y))
weight[-2:] = 0.0

plain = WeightedSVC(C=1.0, kernel="linear").fit(X, y)
weighted = WeightedSVC(C=1.0, kernel="linear").fit(X, y, sample_weight=weight)

for name, model in [("plain", plain), ("weighted", weighted)]:
    print(
        f"{name:>8}: test accuracy {model.score(X_test, y_test):.3f}, "
        f"w = {np.round(model.coef_[0], 3)}, duality gap {model.duality_gap_:.1e}"
    )

# %%
# A row of weight zero keeps its place in every fitted attribute, with a dual variable of zero: the
# model is exactly the one trained without it.

without = WeightedSVC(C=1.0, kernel="linear").fit(X[:-2], y[:-2])
print("dual variables of the outliers:", weighted.alpha_[-2:])
print("largest change of the decision function when the rows are deleted instead:", end=" ")
print(np.abs(weighted.decision_function(X_test) - without.decision_function(X_test)).max())

# %%
# Both boundaries
# ---------------
# The plain SVM (dashed) keeps the two outliers on their sides of a nearly horizontal line, which
# cuts both blobs in half; the weighted SVM (solid) finds the vertical one.

fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, limit, title in [(axes[0], 450, "with the two outliers"), (axes[1], 4.5, "the blobs")]:
    for label, colour in [(-1, "tab:blue"), (1, "tab:orange")]:
        rows = y == label
        size = 15 if limit < 100 else 40
        ax.scatter(*X[rows].T, s=size, color=colour, alpha=0.7, label=f"class {label:+d}")
    grid = np.linspace(-limit, limit, 201)
    mesh = np.stack(np.meshgrid(grid, grid), axis=-1)
    for model, style, name in [(plain, "dashed", "SVM"), (weighted, "solid", "weighted SVM")]:
        values = model.decision_function(mesh.reshape(-1, 2)).reshape(len(grid), -1)
        ax.contour(grid, grid, values, levels=[0], colors="black", linestyles=style)
        ax.plot([], [], color="black", linestyle=style, label=name)
    ax.set(title=title, xlim=(-limit, limit), ylim=(-limit, limit))
axes[0].legend(loc="lower left")
plt.show()

# %%
# **What was learned:** two of 202 rows were enough to bring the plain SVM close to guessing, and
# two zero weights were enough to undo it.
