"""The alternating fit of SDOH-HC for one batch, written with whole matrices as its authors do."""

import numpy as np
from tests.reference.bsodh import sign


def fit_codes(B, Y, L, h, attracted, earlier, *, eta, theta, rounds, classed=True):
    """Return codes of items and classes, and the balanced real codes; weights alpha, beta and gamma are 1."""
    n, n_bits = B.shape
    C = 2 * np.eye(len(Y)) - 1
    centre = np.eye(n) - 1 / n
    for _ in range(rounds):
        Q = B + attracted
        left, sizes, right = np.linalg.svd(centre @ Q, full_matrices=False)
        V = np.sqrt(n) * (left * (sizes**2 > 1e-10 * sizes[0] ** 2)) @ right
        G = theta * C @ Y + eta * L.T @ B + theta * h
        for _ in range(3):
            for k in range(n_bits):
                rest = np.arange(n_bits) != k
                items = Y[:, rest] @ B[:, rest].T @ B[:, k]
                classes = eta * Y[:, rest] @ Y[:, rest].T @ Y[:, k]
                Y[:, k] = sign(n_bits * G[:, k] - items - classes)
        U = V + n_bits * earlier + (eta * n_bits * L @ Y if classed else 0)
        for _ in range(3):
            for k in range(n_bits):
                rest = np.arange(n_bits) != k
                B[:, k] = sign(U[:, k] - eta * B[:, rest] @ Y[:, rest].T @ Y[:, k])
    return B, Y, V
