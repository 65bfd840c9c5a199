"""FOH as its authors keep it: every earlier item with a code of its own, and the whole similarity matrix."""

import numpy as np
from tests.reference.bsodh import sign


def learn(batches, W, P, n_classes, similar, dissimilar):
    """Return the sum of the weights after every batch; P has a row per class, in order of arrival."""
    sigma, theta, mu, ridge, tau = 0.8, 1.2, 0.5, 0.6, 0.6
    n_bits, total, E, L_e = W.shape[1], W.copy(), None, None
    history = []
    for X, y in batches:
        L = np.eye(n_classes)[y]
        B = sign(X @ W)
        if E is None:
            E, L_e = B, L
            history.append(total.copy())
            continue
        same = L @ L_e.T > 0
        for i in range(len(y)):
            if same[i].any():
                B[i] = E[np.flatnonzero(same[i])[0]]
        S = np.where(same, similar, -dissimilar)
        Q = n_bits * S @ E + sigma * X @ W + theta * L @ P
        for k in range(n_bits):
            others = np.arange(n_bits) != k
            B[:, k] = sign(Q[:, k] - B[:, others] @ (E[:, others].T @ E[:, k]))
        E = sign(2 * (n_bits * S.T @ B + mu * L_e @ P) - E @ B.T @ B)
        P = np.linalg.solve(
            theta * L.T @ L + mu * L_e.T @ L_e + tau * np.eye(n_classes), theta * L.T @ B + mu * L_e.T @ E
        )
        W = sigma * np.linalg.solve(sigma * X.T @ X + ridge * np.eye(X.shape[1]), X.T @ B)
        total += W
        E, L_e = np.vstack([E, B]), np.vstack([L_e, L])
        history.append(total.copy())
    return history
