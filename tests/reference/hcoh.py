"""HCOH one batch at a time, as the formulas read."""

import numpy as np


def preprocess_running(X):
    out, mean = np.zeros_like(X, dtype=np.float64), np.zeros(X.shape[1])
    for i, x in enumerate(X.astype(np.float64)):
        mean = mean + (x - mean) / (i + 1)
        centred = x - mean
        length = np.linalg.norm(centred)
        out[i] = centred / length if length > 0 else centred
    return out, mean


def learn(X, targets, W, learning_rate, batch_size=1, fit_bias=False):
    if fit_bias:
        X, W = np.hstack([X, np.ones((len(X), 1))]), np.vstack([W, np.zeros(W.shape[1])])
    W = W.copy()
    for start in range(0, len(X), batch_size):
        x, t = X[start : start + batch_size], targets[start : start + batch_size]
        F = np.tanh(x @ W)
        W -= learning_rate / len(x) * x.T @ ((F - t) * (1 - F * F))
    return W
