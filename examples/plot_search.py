"""
Which of the four parameters matter?
====================================

SVM+ has two costs and two kernel widths.  :class:`lupi.model_selection.KernelGridSearchCV` solves
the models of a grid over all four of them together, because they share most of their work, and the
displays of :mod:`lupi.plotting` show what it found.

Threes and eights of scikit-learn's digits, with 4 x 4 noisy pixels; for the training digits there
are the 8 x 8 pixels of the same image as well.  A separate sample chooses (``refit="train"`` keeps
the model of the training rows), as in the experiments of the paper.
"""

# %%
# The data
# --------

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import PredefinedSplit

from lupi import SVMPlusClassifier
from lupi.model_selection import KernelGridSearchCV
from lupi.plotting import ScoreMapDisplay, ScorePathDisplay

digits = load_digits()
rows = np.isin(digits.target, (3, 8))
X_priv, y = digits.data[rows] / 16.0, digits.target[rows]
X = X_priv.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
X += np.random.default_rng(0).normal(scale=0.15, size=X.shape)  # a poor camera

n_train, n_val = 60, 140
searched = slice(n_train + n_val)
cv = PredefinedSplit(np.r_[np.full(n_train, -1), np.zeros(n_val, dtype=int)])

# %%
# 1,512 models
# ------------

grid = {
    "C": np.logspace(-2, 4, 7),
    "correction_reg": np.logspace(-3, 2, 6),
    "gamma": np.logspace(-3, 1, 6),
    "gamma_priv": np.logspace(-4, 0, 6),
}
search = KernelGridSearchCV(SVMPlusClassifier(), grid, cv=cv, refit="train")
start = time.perf_counter()
search.fit(X[searched], y[searched], X_priv=X_priv[searched])
seconds = time.perf_counter() - start
print(f"{len(search.cv_results_['params']):,} models in {seconds:.1f} s, the best of them")
print({name: f"{value:.3g}" for name, value in search.best_params_.items()})
print(f"test accuracy {search.score(X[n_train + n_val :], y[n_train + n_val :]):.3f}")

# %%
# Two of them at a time
# ---------------------
# Each cell is the best that the other two parameters can do there.  The circle is the choice.

fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
ScoreMapDisplay.from_estimator(search, x="C", y="gamma", ax=axes[0])
ScoreMapDisplay.from_estimator(search, x="correction_reg", y="gamma_priv", ax=axes[1])
plt.show()

# %%
# The way along C
# ---------------
# Now the others stay at what was chosen, and ``correction_reg`` has a line for each of its values.

ScorePathDisplay.from_estimator(search, x="C", by="correction_reg", others="chosen")
plt.show()

# %%
# **What was learned:** a wide range of ``gamma`` does well, and a kernel that is too narrow ruins
# everything.  The two parameters of the correcting function can stand in for each other: a whole
# diagonal of them reaches the best score.  At a large ``C`` there is nothing left for them to do,
# and a small ``correction_reg`` does harm where ``C`` is small.
