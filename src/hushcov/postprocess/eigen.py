"""Large eigenvalues of noisy symmetric matrices, and their vectors, from few products.

Privacy
-------
Post-processing: what is computed from a release is covered by its guarantee.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hushcov._arrays import FloatArray, Matrix

Product = Callable[[FloatArray], FloatArray]

_POWERS = 48
_STEPS = 17  # of Lanczos' method: they end as far below the edge of noise as that many powers
_NOTHING = 1e-12  # of a product: what is left of it by rounding errors
_DENSE = 150  # up to here all eigenvalues are as quick as a few
_MORE, _BLOCKS = 4, 6  # columns beside those that are looked for, and products with them
_ROUNDS = 20  # in which factors and what they have of the diagonal settle
_SETTLED = 1e-6  # changes of eigenvalues, relative


def largest(matrix: Matrix) -> float:
    """The largest eigenvalue by its size, of a symmetric matrix; about, and not above."""
    return largest_of(lambda x: np.asarray(matrix @ x), matrix.shape[0])


def largest_of(product: Product, n_features: int) -> float:
    """The same of a matrix that is given by its products with vectors."""
    found = largest_together(lambda x: product(x[:, 0])[:, None], n_features, 1)
    return float(found[0])


def largest_together(product: Product, n_features: int, number: int) -> FloatArray:
    """The same of several matrices at once: `product` multiplies each column by its own."""
    inner, _ = tridiagonals(product, n_features, number, min(_STEPS, n_features))
    return np.asarray(np.abs(np.linalg.eigvalsh(inner)).max(axis=1))


def tridiagonals(
    product: Product, n_features: int, number: int, steps: int
) -> tuple[FloatArray, FloatArray]:
    """Reduce several symmetric matrices to tridiagonal ones, always from the same vector.

    Lanczos' method, where each step is made orthogonal to all before. Where it ends early, what
    follows is zero. Also returned is the norm of what the last step leaves of each matrix.
    """
    start = np.random.default_rng(1).standard_normal(n_features)
    basis, inner = np.zeros((steps, n_features, number)), np.zeros((number, steps, steps))
    x = np.repeat((start / np.linalg.norm(start))[:, None], number, axis=1)
    left = np.zeros(number)
    for step in range(steps):
        basis[step] = x
        y = product(x)
        inner[:, step, step] = np.einsum("ij,ij->j", x, y)
        size = np.linalg.norm(y, axis=0)
        known = basis[: step + 1]
        for _ in range(2):  # twice is enough
            y = y - np.einsum("kij,kj->ij", known, np.einsum("kij,ij->kj", known, y))
        left = np.linalg.norm(y, axis=0)
        left[left <= _NOTHING * size] = 0.0  # nothing else is reached from the start
        if step + 1 < steps:
            inner[:, step + 1, step] = inner[:, step, step + 1] = left
        x = np.divide(y, left, out=np.zeros_like(y), where=left > 0)
    return inner, left


def leading_direction(matrix: Matrix) -> FloatArray:
    """The eigenvector of the largest eigenvalue by its size, about; of a symmetric matrix."""
    x: FloatArray = np.random.default_rng(3).standard_normal(matrix.shape[0])
    for _ in range(_POWERS):
        x = np.asarray(matrix @ x)
        x /= float(np.linalg.norm(x)) or 1.0
    return x


def beside_diagonal(matrix: FloatArray) -> Product:
    """Products with a matrix whose diagonal is zero."""
    diagonal = np.diag(matrix)[:, None]
    return lambda columns: matrix @ columns - diagonal * columns


def top_vectors(matrix: FloatArray, number: int) -> FloatArray:
    """Orthonormal vectors of about the largest eigenvalues off the diagonal, the first ones first.

    Eigenvalues that stand out of the others are found by a few products with blocks of columns,
    as many of the same size as are looked for.
    """
    d, product = len(matrix), beside_diagonal(matrix)
    width = number + _MORE
    if d <= max(_DENSE, 2 * width * _BLOCKS):
        return np.asarray(np.linalg.eigh(matrix - np.diag(np.diag(matrix)))[1][:, ::-1][:, :number])
    x = np.linalg.qr(np.random.default_rng(2).standard_normal((d, width)))[0]
    basis, products = np.empty((d, 0)), np.empty((d, 0))
    for _ in range(_BLOCKS):
        y = product(x)
        basis, products = np.hstack([basis, x]), np.hstack([products, y])
        for _ in range(2):
            y = y - basis @ (basis.T @ y)
        x = np.linalg.qr(y)[0]
        x -= basis @ (basis.T @ x)  # of columns that were nothing but rounding errors
        x = np.linalg.qr(x)[0]
    inner = basis.T @ products
    vectors = np.linalg.eigh((inner + inner.T) / 2)[1][:, ::-1][:, :number]
    return np.asarray(basis @ vectors)


def settled(matrix: FloatArray, start: FloatArray, edge: float) -> tuple[FloatArray, FloatArray]:
    """Vectors and values of as many factors as `start` has columns, the largest first.

    Those up to `edge` are noise, and nobody waits until they have settled.

    Features have variances of their own beside the factors, so that the diagonal says nothing of
    them: it is replaced by what the factors have of it, again and again.
    """
    product, own = beside_diagonal(matrix), np.maximum(np.diag(matrix), 0.0)
    vectors, times = start, product(start)
    values = np.maximum(np.einsum("ij,ij->j", vectors, times), 0.0)
    for _ in range(_ROUNDS):
        shared, before = np.minimum(vectors**2 @ values, own)[:, None], values
        vectors = _orthonormal(times + shared * vectors)
        times = product(vectors)
        inner = vectors.T @ (times + shared * vectors)
        values, turned = np.linalg.eigh((inner + inner.T) / 2)
        values, turned = np.maximum(values[::-1], 0.0), turned[:, ::-1]
        vectors, times = vectors @ turned, times @ turned
        if np.abs(values - before)[values > edge].max(initial=0.0) <= _SETTLED * values[0]:
            break
    return vectors, values


def _orthonormal(columns: FloatArray) -> FloatArray:
    """The same space by orthonormal columns: quickly, where they are far from dependent."""
    for _ in range(2):
        try:
            root = np.linalg.cholesky(columns.T @ columns)
        except np.linalg.LinAlgError:
            return np.asarray(np.linalg.qr(columns)[0])
        if root.diagonal().min() <= 1e-6 * root.diagonal().max():
            return np.asarray(np.linalg.qr(columns)[0])
        columns = columns @ np.linalg.inv(root).T
    return columns
