r"""
Does it help to know, in training only, how sure each label is?
===============================================================

Two classes overlap and labels near the boundary are often wrong. For the training rows the
annotators have written down how sure of the label they are. New rows come without that. SVM+ makes
the slack of a training row a function of this privileged feature, see :ref:`svm_plus`, so that
doubtful rows may be wrong and sure ones may not.
"""

# %%
# The data
# --------
# The true boundary is a circle. Labels are noisy near it and right far from it. The privileged
# feature is how far inside its own class a row lies, negative where the label is wrong, with
# some noise: an annotator's confidence.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV

from lupi import SVMPlusClassifier, WeightedSVC


def cases(n, rng):
    """Rows, labels with noise near the circle, the confidence in them, and the true class."""
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    distance = np.hypot(*X.T) - 1.5
    y = np.where(distance + 0.5 * rng.normal(size=n) > 0, 1, -1)
    confidence = y * distance + 0.1 * rng.normal(size=n)
    return X, y, confidence[:, None], np.where(distance > 0, 1, -1)


# %%
# Learning curves
# ---------------
# Both machines see the same rows, and choose ``C`` (SVM+ also ``correction_reg``) in the same
# five folds. The score is the accuracy against the noise-free class, on 4,000 rows without
# privileged features.

SIZES, RUNS = [20, 40, 80], 8
COSTS = [0.1, 1.0, 10.0, 100.0]
X_test, _, _, truth = cases(4_000, np.random.default_rng(1))
scores = {"SVM": [], "SVM+": []}
for n in SIZES:
    found = {name: [] for name in scores}
    for seed in range(RUNS):
        X, y, X_priv, _ = cases(n, np.random.default_rng([seed, n]))
        plain = GridSearchCV(WeightedSVC(gamma=0.5), {"C": COSTS}).fit(X, y)
        plus = GridSearchCV(
            SVMPlusClassifier(gamma=0.5, gamma_priv=1.0),
            {"C": COSTS, "correction_reg": [0.1, 1.0]},
        ).fit(X, y, X_priv=X_priv)
        found["SVM"].append(plain.score(X_test, truth))
        found["SVM+"].append(plus.score(X_test, truth))
    for name, values in found.items():
        scores[name].append(values)
        print(f"n = {n:3d}, {name:>4}: {np.mean(values):.3f} +- {np.std(values) / RUNS**0.5:.3f}")

# %%
# What the correcting function learned
# ------------------------------------
# One model on 200 rows: the slack it allows as a function of the privileged feature, beside the
# hinge losses of the training rows. Rows above the curve would violate a constraint: there are
# none.

X, y, X_priv, _ = cases(200, np.random.default_rng(0))
model = SVMPlusClassifier(C=1.0, correction_reg=0.1, gamma=0.5, gamma_priv=1.0)
model.fit(X, y, X_priv=X_priv)
hinge = np.maximum(0.0, 1.0 - y * model.decision_function(X))
print(f"duality gap {model.duality_gap_:.1e}, {len(model.support_)} support vectors")

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for name, style in [("SVM", "dashed"), ("SVM+", "solid")]:
    values = np.array(scores[name])
    error = values.std(axis=1) / RUNS**0.5
    left.errorbar(SIZES, values.mean(axis=1), error, linestyle=style, capsize=3, label=name)
left.set(xlabel="training rows", ylabel="accuracy against the true class", xticks=SIZES)
left.legend()
grid = np.linspace(X_priv.min(), X_priv.max(), 100)[:, None]
right.plot(grid, model.predict_slack(grid), color="black", label="correcting function")
points = right.scatter(X_priv, hinge, c=model.instance_weights_, s=15, cmap="viridis")
fig.colorbar(points, label="instance_weights_")
right.set(xlabel="privileged feature: confidence", ylabel="hinge loss of the row, slack")
right.legend()
plt.show()

# %%
# What was learned
# ----------------
# With the confidence of 20 labels SVM+ is better than an SVM with 80 labels and nothing else. The
# correcting function falls with the confidence: a doubtful row is allowed a large slack, and a row
# that its annotator is sure of must be right.
