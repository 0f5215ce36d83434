"""The obvious twin of the projection: the covariance whole, all of its eigenvectors, float64."""

import numpy as np


def unit(rows):
    rows = np.asarray(rows, dtype=np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def principal_basis(rows, out_dim, center, whiten):
    """The mean, and the eigenvectors of the covariance of unit rows, the largest one first."""
    rows = unit(rows)
    mean = rows.mean(axis=0) if center else np.zeros(rows.shape[1])
    covariance = (rows - mean).T @ (rows - mean) / len(rows)
    values, vectors = np.linalg.eigh(covariance)
    order = np.argsort(-values)[:out_dim]
    basis = vectors[:, order]
    for column in basis.T:
        column *= np.sign(column[np.argmax(np.abs(column))])
    if whiten:
        basis = basis / np.sqrt(values[order])
    return mean, basis


def project(rows, mean, basis):
    """(x − mean)B of each unit row, scaled to norm 1 again."""
    return unit((unit(rows) - mean) @ basis)


def captured(rows, basis):
    """The share of the rows' energy that lies in the span of orthonormal columns."""
    return np.sum((rows @ basis) ** 2) / np.sum(rows**2)
