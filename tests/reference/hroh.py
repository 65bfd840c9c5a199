"""HROH from all rows at once, as the formulas read."""

import numpy as np
from scipy.linalg import hadamard


def unit(X):
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(lengths > 0, lengths, 1.0)


def hadamard_frequencies(signs, bandwidth, n_features, n_components):
    """The rows of sqrt(p / bandwidth) H S3 H S2 H S1, block under block."""
    order = signs.shape[2]
    H = hadamard(order) / np.sqrt(order)
    blocks = [H @ np.diag(third) @ H @ np.diag(second) @ H @ np.diag(first) for first, second, third in signs]
    return np.sqrt(order / bandwidth) * np.vstack(blocks)[:n_components, :n_features]


def cosines(X, frequencies, phases):
    return np.sqrt(2.0 / len(phases)) * np.cos(X @ frequencies.T + phases)


def mapped(X, fourier=None):
    """The row, the cosines of a Fourier map if there is one, and the constant 1/2."""
    columns = [X]
    if fourier is not None:
        frequencies = hadamard_frequencies(fourier.signs, fourier.bandwidth, X.shape[1], len(fourier.phases))
        columns.append(cosines(X, frequencies, fourier.phases))
    return np.hstack([*columns, np.full((len(X), 1), 0.5)])


def targets(labels, words):
    """The mean of the codewords of every row's labels."""
    return np.array([np.mean([words[label] for label in np.atleast_1d(row).tolist()], axis=0) for row in labels])


def ridge(Z, T, penalty, weights=None):
    """The W that minimises sum of w |t - z W|^2 over the rows, plus penalty |W|^2."""
    roots = np.sqrt(np.ones(len(Z)) if weights is None else weights)[:, None]
    stacked = np.vstack([roots * Z, np.sqrt(penalty) * np.eye(Z.shape[1])])
    return np.linalg.lstsq(stacked, np.vstack([roots * T, np.zeros((Z.shape[1], T.shape[1]))]), rcond=None)[0]


def shares(labels, n_classes):
    """The share of every class in every row."""
    return np.array([np.eye(n_classes)[np.atleast_1d(row)].mean(axis=0) for row in labels])


def balanced_sums(Z, Y, balance):
    """The sums A' and S' in which a class of n rows counts as n^balance, and all as many as there are.

    The rows of a class differ from their mean as much as they do; the mean counts as often as the class.
    """
    counts = Y.sum(axis=0)
    balanced = counts**balance * counts.sum() / (counts**balance).sum()
    A, S = np.zeros((Z.shape[1], Z.shape[1])), []
    for share, n, w in zip(Y.T, counts, balanced, strict=True):
        mean = sum(y * z for y, z in zip(share, Z, strict=True)) / n
        A = A + (share[:, None] * (Z - mean)).T @ (Z - mean) + w * np.outer(mean, mean)
        S.append(w * mean)
    return A, np.array(S)


def balanced_ridge(Z, Y, penalty, balance, weights=None):
    """Ridge regression on classes from balanced sums."""
    A, S = balanced_sums(Z, Y * (np.ones(len(Z)) if weights is None else weights)[:, None], balance)
    return np.linalg.solve(A + penalty * np.eye(len(A)), S.T)


def blended(Z, Y, penalty, balance):
    """Columns of scores where rows are few: regression, and the angles to the class means."""
    A, S = balanced_sums(Z, Y, balance)
    counts, identity = Y.sum(axis=0), np.eye(Z.shape[1])
    few = (1.0 - np.log(counts.mean()) / np.log(50.0)) * min(1.0, 256.0 / len(counts)) ** 2
    inverse = np.linalg.inv(A + np.trace(A) / np.sqrt(len(Z)) / 3.0 * identity)
    means = (Y.T @ Z) / counts[:, None]
    angles = np.array([inverse @ mean / np.sqrt(mean @ inverse @ mean) for mean in means])
    angles -= angles.mean(axis=0)
    angles /= np.mean([mean @ angle for mean, angle in zip(means, angles, strict=True)])
    return (1.0 - few) * np.linalg.solve(A + penalty * identity, S.T) + few * angles.T


def doubted(values, scores, n_class_bits, confidence_bits):
    """Values row by row: where the class is not sure, the class bits nearest to zero change their signs."""
    result = values.copy()
    n_inverted = min(confidence_bits, n_class_bits)
    for row, own in zip(result, scores, strict=True):
        second, first = np.sort(own)[-2:]
        margin = (first - second) / np.abs(own).max()
        sizes = [abs(value) + 0.01 * place / n_class_bits for place, value in enumerate(row[:n_class_bits])]
        for rank, place in enumerate(np.argsort(sizes)[:n_inverted]):
            row[place] *= min(margin / (0.6 * (n_inverted - rank) / n_inverted) - 1.0, 1.0)
    return result


def explained_variance(explained, words):
    """The sum over the bits t of t^T M t."""
    return sum(t @ explained @ t for t in words.T.astype(float))


def cross_validation_error(Z, T, penalty):
    """Generalised cross-validation: squared residuals over squared residual degrees of freedom."""
    smoother = Z @ np.linalg.solve(Z.T @ Z + penalty * np.eye(Z.shape[1]), Z.T)
    return np.square(T - smoother @ T).sum() / (len(Z) - np.trace(smoother)) ** 2
