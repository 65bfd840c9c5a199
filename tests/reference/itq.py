"""Iterative quantisation of data that are all in memory, as the formulas read."""

import numpy as np


def directions(X, n_bits):
    centred = X.astype(np.float64) - X.astype(np.float64).mean(axis=0)
    return np.linalg.svd(centred, full_matrices=False)[2][:n_bits].T


def loss(Z, R):
    B = np.where(Z @ R >= 0, 1.0, -1.0)
    return np.linalg.norm(B - Z @ R) ** 2


def rotate(Z, R, n_iterations):
    """Return the rotation after every iteration, the first one included."""
    rotations = [R]
    for _ in range(n_iterations):
        B = np.where(Z @ R >= 0, 1.0, -1.0)
        S, _, S_hat = np.linalg.svd(B.T @ Z)
        R = S_hat.T @ S.T
        rotations.append(R)
    return rotations
