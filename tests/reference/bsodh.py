"""BSODH as its paper keeps it: every earlier item with a code of its own, and the whole similarity matrix."""

import numpy as np


def sign(values):
    return np.where(values >= 0, 1.0, -1.0)


def learn(batches, W, similar=1.2, dissimilar=0.2, sigma=0.5, ridge=0.3):
    """Return the weights after every batch."""
    n_bits = W.shape[1]
    E, labels, history = None, None, []
    for X, y in batches:
        B = sign(X @ W)
        if E is None:
            E, labels = B, y
        else:
            S = np.where(y[:, None] == labels, similar, -dissimilar)  # new x earlier
            for i, label in enumerate(y):
                same = np.flatnonzero(labels == label)
                if len(same):
                    B[i] = E[same[0]]
            P = n_bits * S @ E + sigma * X @ W
            for k in range(n_bits):
                others = np.arange(n_bits) != k
                B[:, k] = sign(P[:, k] - B[:, others] @ (E[:, others].T @ E[:, k]))
            E = sign(S.T @ B)
            W = np.linalg.solve(sigma * X.T @ X + ridge * np.eye(X.shape[1]), sigma * X.T @ B)
            E, labels = np.vstack([E, B]), np.concatenate([labels, y])
        history.append(W)
    return history
