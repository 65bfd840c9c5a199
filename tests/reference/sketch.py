"""Zero-mean sketching one row at a time, as the published code does it, and one random transform as a matrix."""

import numpy as np
from scipy.linalg import hadamard


def insert_row(B, n_used, row, size):
    if n_used == size:
        _, s, Vt = np.linalg.svd(np.vstack(B), full_matrices=False)
        half = size // 2
        lost = s[half] ** 2 if half < len(s) else 0.0
        shrunk = np.sqrt(np.maximum(s**2 - lost, 0))[:, None] * Vt
        B[:] = [*shrunk, *np.zeros((size - len(shrunk), len(row)))]
        n_used = half
    if n_used < len(B):
        B[n_used] = row
    else:
        B.append(row)
    return n_used + 1


def sketch(X, size, batch_size):
    """Return the sketch and the mean after all batches; the last one may be shorter."""
    B, mean, n = [], np.zeros(X.shape[1]), 0
    for start in range(0, len(X), batch_size):
        A = X[start : start + batch_size].astype(np.float64)
        m, b = A.mean(axis=0), len(A)
        rows = list(A - m)
        if n > 0:
            rows.append(np.sqrt(n * b / (n + b)) * (m - mean))
        n_used = len(B)  # rows of zeros count
        for row in rows:
            n_used = insert_row(B, n_used, row, size)
        mean, n = (n * mean + b * m) / (n + b), n + b
    return np.vstack(B), mean


def compress(rows, n_rows, draw):
    if len(rows) <= n_rows:
        return rows
    order = 1
    while order < len(rows):
        order *= 2
    D = np.diag(draw.integers(0, 2, len(rows)) * 2.0 - 1.0)
    chosen = draw.choice(order, n_rows, replace=False)
    return (hadamard(order)[chosen, : len(rows)] @ D @ rows) / np.sqrt(n_rows)
