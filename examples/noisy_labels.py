# %% [markdown]
# # Find wrong labels
#
# Correct one label in ten of a data set that a person looks at once, by looking at the items that the others
# contradict.
#
# `suspects(n)` lists the items whose label the other items contradict, the most certain first, each with the label
# that it should have ([guide](../guides/clean-labels.md)). Here they are handwritten digits, of whose labels one in
# ten was made wrong at random.

# %%
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import onlinehash as oh

N_ROUNDS, N_PER_ROUND, SHARE = 2, 100, 0.1
split, rng = oh.load_dataset("digits").split(seed=0), np.random.default_rng(0)
(X, y), (queries, asked) = split.database, split.queries
wrong = rng.random(len(y)) < SHARE
noisy = np.where(wrong, (y + rng.integers(1, 10, len(y))) % 10, y)

folder = TemporaryDirectory()
hasher = oh.HROH(64, general_bits=32, n_components=512, random_state=0)  # small and seeded, to print the same
digits = oh.Collection.open(f"{folder.name}/digits.oh", hasher)
digits.upsert(range(len(X)), X, noisy)
print(f"{len(digits)} digits, {wrong.sum()} wrong labels")

# %% [markdown]
# ## The first suspects
#
# Above each image is its label, and the label that it should have.

# %%
figure, axes = plt.subplots(2, 8, figsize=(8, 2.6), layout="constrained")
first: Any = digits.suspects(16)
for ax, suspect in zip(axes.flat, first, strict=True):
    ax.imshow(X[suspect.id].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"{suspect.label}, or {suspect.suggested}?", fontsize=9)
    ax.set_axis_off()
plt.show()

# %% [markdown]
# ## Correct them
#
# A person looks at a hundred items at a time. `update` stores the right label, and the wrong one is unlearned. After
# each round, 200 unseen digits are classified with at most 1 % errors.

# %%
curves = []


def report(step: str) -> None:
    """Print how many wrong labels are left, and how many unseen digits get a label."""
    digits.refresh()
    labels_now = np.array([item.labels for item in digits.items()])
    decisions: Any = digits.classify(queries, max_error=0.01)
    labels = np.array([-1 if each.label is None else each.label for each in decisions])
    print(f"{step:<50}{(labels_now != y).sum():>12}{(labels >= 0).sum():>17}{(labels == asked).sum():>7}")


print(f"{'':<50}{'wrong labels':>12}{'unseen labelled':>17}{'right':>7}")
report("as they came")
for _ in range(N_ROUNDS):
    suspects = digits.suspects(N_PER_ROUND)
    found: Any = [each.id for each in suspects if each.label != y[each.id]]  # what the person sees
    n_hints = sum(each.suggested == y[each.id] for each in suspects if each.label != y[each.id])
    curves.append(np.cumsum([each.label != y[each.id] for each in suspects]))
    digits.update(found, labels=y[found])
    report(f"{len(suspects)} looked at, {len(found)} wrong, {n_hints} suggestions right")
digits.close()
folder.cleanup()

# %%
curve = np.concatenate([curves[0], curves[0][-1] + curves[1]])
figure, ax = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
ax.plot(np.arange(len(curve)) + 1, curve, color="#00796b", label="suspects")
ax.plot([0, len(curve)], [0, SHARE * len(curve)], ":", color="#666666", label="items at random")
ax.set(xlabel="items looked at", ylabel="wrong labels found", title=f"{wrong.sum()} of {len(X)} labels are wrong")
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# While labels are wrong, `classify` cannot promise 1 % errors and labels nothing. These wrong labels are random.
# People make mistakes that resemble each other, which are harder to find.
