"""The obvious twins of the image descriptors: one at a time, float64, all eigenvectors."""

import math

import numpy as np


def root_sift(row):
    total = sum(float(value) for value in row)
    return np.array([math.sqrt(float(value) / total) for value in row])


def residuals(row, centroids):
    """The directions from every centroid to the row, one after the other."""
    parts = []
    for centroid in np.asarray(centroids, dtype=np.float64):
        difference = np.asarray(row, dtype=np.float64) - centroid
        parts.append(difference / np.linalg.norm(difference))
    return np.concatenate(parts)


def triangulation_parameters(rows, centroids):
    """Mean and covariance of the residuals, and the whitening without the first d components."""
    stacked = np.array([residuals(row, centroids) for row in rows])
    mean = stacked.mean(axis=0)
    covariance = (stacked - mean).T @ (stacked - mean) / len(rows)
    values, vectors = np.linalg.eigh(covariance)
    order = np.argsort(-values)[centroids.shape[1] :]
    return mean, covariance, vectors[:, order] / np.sqrt(values[order])


def triangulation(row, centroids, mean, whitening):
    return whitening.T.astype(np.float64) @ (residuals(row, centroids) - mean)


def democratic_weights(embedded, rounds):
    """Sinkhorn's rounds, entry by entry, on the Gram matrix without its negative entries."""
    n = len(embedded)
    weights = [1.0] * n
    for _ in range(rounds):
        shares = []
        for i in range(n):
            total = 0.0
            for j in range(n):
                total += weights[j] * max(0.0, float(np.dot(embedded[i], embedded[j])))
            shares.append(weights[i] * total)
        weights = [weights[i] / math.sqrt(shares[i]) for i in range(n)]
    return np.array(weights)


def power_law(vector, power):
    return np.array([math.copysign(abs(value) ** power, value) for value in vector])


def unit(vector):
    return np.asarray(vector) / np.linalg.norm(vector)


def vlad(rows, centroids, power):
    """Residuals to the nearest centroid by distance, summed word by word."""
    centroids = np.asarray(centroids, dtype=np.float64)
    sums = np.zeros(centroids.shape)
    for row in np.asarray(rows, dtype=np.float64):
        distances = [np.linalg.norm(row - centroid) for centroid in centroids]
        nearest = int(np.argmin(distances))
        sums[nearest] += row - centroids[nearest]
    return unit(power_law(sums.ravel(), power))


def distortion(rows, centroids):
    """The mean squared distance to the nearest centroid."""
    return float(np.mean([min(np.sum((row - c) ** 2) for c in centroids) for row in rows]))
