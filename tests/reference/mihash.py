"""MIHash as its formulas read: one instance against the whole reservoir, projections computed afresh."""

import numpy as np


def soft_bits(X, W, slope):
    return 1 / (1 + np.exp(-np.clip(slope * (X @ W), -42, 42)))


def gradient(x, W, items, neighbours, slope=10.0, n_bins=16, exact=False):
    """Gradient of minus the mutual information in W, shape (n_features, n_bits)."""
    n_bits = W.shape[1]
    phi, phi_items = soft_bits(x, W, slope), soft_bits(items, W, slope)
    D = (n_bits - (2 * phi_items - 1) @ (2 * phi - 1)) / 2
    width = n_bits / n_bins
    offset = D[:, None] - width * np.arange(n_bins + 1)
    inside = (offset > -width) & (offset <= width)
    pulse = np.where(inside, 1 - np.abs(offset) / width, 0.0)
    slope_of_pulse = np.where(inside, np.where(offset <= 0, 1 / width, -1 / width), 0.0)
    share = neighbours.mean()
    dD = -(2 * phi_items - 1) if exact else -phi_items / 2

    def histogram(rows):
        return pulse[rows].sum(axis=0) / max(pulse[rows].sum(), 1e-300)

    def derivative(rows):
        return slope_of_pulse[rows].T @ dD[rows] / max(rows.sum(), 1)

    def one_plus_log2(p):
        return 1 + np.log2(np.where(p > 0, p, 1))

    everything = np.ones(len(items), bool)
    d_near, d_far = derivative(neighbours), derivative(~neighbours)
    g = one_plus_log2(histogram(everything)) @ (share * d_near + (1 - share) * d_far)
    g = g - share * one_plus_log2(histogram(neighbours)) @ d_near
    g = g - (1 - share) * one_plus_log2(histogram(~neighbours)) @ d_far
    return np.outer(x, slope * phi * (1 - phi) * g)


def mutual_information(signs, labels):
    """Mean over items of the mutual information of the distances to all items with having the same label."""
    n_bits = signs.shape[1]
    distances = np.minimum((n_bits - signs @ signs.T) / 2, n_bits - 1).astype(int)

    def entropy(values):
        p = np.bincount(values, minlength=n_bits) / max(len(values), 1)
        return -(p[p > 0] * np.log2(p[p > 0])).sum()

    values = []
    for j, d in enumerate(distances):
        near = labels == labels[j]
        share = near.mean()
        values.append(max(0.0, entropy(d) - share * entropy(d[near]) - (1 - share) * entropy(d[~near])))
    return np.mean(values)
