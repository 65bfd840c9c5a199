# %% [markdown]
# # A stream with new classes
#
# Keep up with categories that did not exist yesterday, and take one back.
#
# Moderators label items as they come in. Every day brings items of known categories and of new ones. All are upserted
# into a collection, which stores them, learns from them and refreshes its codes when no more come: no separate
# training, no index to rebuild ([guide](../guides/new-classes-and-drift.md)).

# %%
from tempfile import TemporaryDirectory
from time import sleep
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import NearestNeighbors

import onlinehash as oh

N_DAYS, RETRACTED = 5, 3


def new_hasher() -> oh.HROH:
    """Return a new hasher of 64 bits, with a quarter of the default components to be fast."""
    return oh.HROH(64, n_components=512, random_state=0)


data = oh.load_dataset("digits")  # "clinc150" has 150 intents of sentences, 30 new ones per day
split, n_categories = data.split(seed=0), len(data.class_names)
(X, y), (queries, asked) = split.database, split.queries
appears = np.arange(n_categories) * N_DAYS // n_categories  # the day of each category
arrives = np.random.default_rng(0).integers(appears[y], N_DAYS)  # the day of each item: from then on, any

# %% [markdown]
# ## Five days
#
# At the end of each day, items without a label are searched for. `new` is the precision of the first ten found, of
# the categories that appeared that day; then the same if learning had stopped after day 1, and by exact search over
# the vectors.

# %%
folder = TemporaryDirectory()
items = oh.Collection.open(f"{folder.name}/items.oh", new_hasher())
first: Any = None
rows = []
print("day  categories  items  generation  version    new    all    new, day 1 codes    new, exact")
for day in range(N_DAYS):
    today, so_far = np.flatnonzero(arrives == day), np.flatnonzero(arrives <= day)
    items.upsert(today, X[today], y[today])  # ids are row numbers here
    while items.stats().staleness:  # not needed to search: it makes every run print the same
        sleep(0.01)
    first = first or items.encoder
    new, known = appears[asked] == day, appears[asked] <= day
    right = y[items.search(queries, k=10).ids] == asked[:, np.newaxis]
    codes = first.encode(X[so_far])
    frozen = oh.Ranking(first.encode(queries[new]), asked[new], codes, y[so_far]).precision_at(10)
    nearest = NearestNeighbors(n_neighbors=10, metric="cosine").fit(X[so_far]).kneighbors(queries[new])[1]
    exact = y[so_far[nearest]] == asked[new, np.newaxis]
    rows.append((right[new].mean(), right[known].mean(), frozen, exact.mean()))
    now = items.stats()
    print(
        f"{day + 1:>3}{np.sum(appears <= day):>12}{now.n_items:>7}{now.generation:>12}{now.version:>9}"
        f"{rows[-1][0]:>7.3f}{rows[-1][1]:>7.3f}{rows[-1][2]:>20.3f}{rows[-1][3]:>14.3f}"
    )
print(f"{now.generation} generations of codes, all refreshed automatically")

# %%
figure, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
looks = (("this collection, 8 bytes per item", "#00796b", "-"), ("exact search, 256 bytes", "#666666", "--"))
for place, (name, colour, style) in zip((0, 3, 2), (*looks, ("codes of day 1", "#d32f2f", ":")), strict=True):
    ax.plot(range(1, N_DAYS + 1), [row[place] for row in rows], style, marker="o", color=colour, label=name)
ax.set(xlabel="day", ylabel="precision of the first 10", ylim=(0, 1.03), xticks=range(1, N_DAYS + 1))
ax.set_title("Categories on the day they appear")
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# ## Take a category back
#
# Deleted items are no longer found, but what was learned from them remains in the hash functions: two unseen items of
# the category still have nearly the same code. `unlearn=True` subtracts it in the same transaction. `change_hasher`
# learns again from the remaining items instead, which reads all of them once.

# %%
others = queries[asked == RETRACTED]  # items of the category that were never stored


def report(step: str, encoder: Any) -> None:
    """Print how many items of the category are found, and how far the codes of unseen ones are apart."""
    n_found, codes = len(items.search(others[0], k=1000, labels=RETRACTED).ids), encoder.encode(others)
    print(f"{step:<36}{n_found:>13}{oh.hamming_distances(codes, codes).mean():>17.1f}")


print(f"{f'Retracted: category {RETRACTED}':<36}{'items found':>13}{'bits apart':>17}")
learned = items.encoder
report("as learned", learned)
items.delete([item.id for item in items.items() if item.labels == RETRACTED], unlearn=True)
report("deleted, with the previous codes", learned)
report("and unlearned: HROH subtracts", items.hasher.snapshot())
items.change_hasher(new_hasher())  # learns from the remaining items, in the order of arrival
report("or learned again without it", items.encoder)

# %%
rest = [row for row in np.argsort(arrives, kind="stable") if y[row] != RETRACTED]
never = new_hasher().partial_fit(X[rest], y[rest]).snapshot()
stored, codes = items.codes()
n_other = np.any(never.encode(X[np.array(stored)]) != codes, axis=1).sum()
print(f"codes that differ from those of a hasher that never saw it: {n_other} of {len(stored)}")
items.close()
folder.cleanup()
