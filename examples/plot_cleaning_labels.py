r"""
Which labels are wrong?
=======================

Threes and eights of scikit-learn's digits; thirty per cent of the training labels are flipped, and
sixty rows have been checked by hand.  :class:`lupi.WeightLearningClassifier` learns one weight per
training row so that the model does well on the checked ones, by exact implicit differentiation
(``thm:derivatives``).  Every method below has the same rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from lupi import WeightedSVC, WeightLearningClassifier

digits = load_digits()
rows = np.isin(digits.target, (3, 8))
X, y = digits.data[rows] / 16.0, np.where(digits.target[rows] == 8, 1, -1)
order = np.random.default_rng(0).permutation(len(y))
train, val, test = order[:160], order[160:220], order[220:]

flipped = np.random.default_rng(1).random(len(train)) < 0.3
noisy = np.where(flipped, -y[train], y[train])

# %%
# Four ways to use the same rows
# ------------------------------

model = WeightLearningClassifier(random_state=0)
model.fit(X[train], noisy, X_val=X[val], y_val=y[val])
both, labels = np.r_[train, val], np.r_[noisy, y[val]]
others = {
    "SVM on the training rows": WeightedSVC().fit(X[train], noisy),
    "SVM on the checked rows": WeightedSVC().fit(X[val], y[val]),
    "SVM on both": WeightedSVC().fit(X[both], labels),
    "learned weights": model,
}
for name, one in others.items():
    print(f"{name:>25}: test error {100 * (1 - one.score(X[test], y[test])):.1f} %")

# %%
# What the weights say
# --------------------
# The smallest weights are the labels to check first.

weight = model.sample_weight_
print(f"AUC of 'flipped' against the weight: {roc_auc_score(flipped, -weight):.3f}")

fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained", width_ratios=[2, 1])
bins = np.linspace(0, max(1.5, weight.max()), 25)
axes[0].hist([weight[~flipped], weight[flipped]], bins, stacked=True, label=["right", "flipped"])
axes[0].set(xlabel="learned weight", ylabel="training rows", title="wrong labels lose their weight")
axes[0].legend()
first = np.argsort(weight, kind="stable")[:12]
images = np.vstack([np.hstack(X[train[some]].reshape(-1, 8, 8)) for some in first.reshape(3, 4)])
axes[1].imshow(images, cmap="gray_r")
names = ["8" if label == 1 else "3" for label in noisy[first]]
axes[1].set(xticks=[], yticks=[], title="labelled " + " ".join(names))
plt.show()

# %%
# **What was learned:** few checked rows suffice to find most of the wrong labels among many.
