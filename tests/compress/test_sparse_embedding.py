from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsift.compress import SparseEmbedding
from fedsift.compress.hashing import HashFamily
from fedsift.errors import InputError
from fedsift.randomness import generator


def matrix(*shape: int, key: str = "A") -> torch.Tensor:
    return torch.randn(*shape, generator=generator(0, key), dtype=torch.float64)


def dense(S: SparseEmbedding) -> torch.Tensor:
    """S entry by entry."""
    out = torch.zeros(S.rows, S.length, dtype=torch.float64)
    cells = HashFamily(S.seed, 1, S.rows).cells(0, S.length, torch.device("cpu"))[0]
    for i, cell in enumerate(cells.tolist()):
        out[cell % S.rows, i] = -1 if cell >= S.rows else 1
    return out


embeddings = st.builds(
    SparseEmbedding,
    rows=st.integers(1, 20),
    length=st.integers(1, 40),
    seed=st.integers(0, 2**64 - 1),
)


@given(embeddings)
def test_dense_has_one_sign_in_each_column(S):
    assert torch.equal(S.dense(), dense(S))
    assert torch.equal(S.dense().abs().sum(dim=0), torch.ones(S.length, dtype=torch.float64))


@given(embeddings, st.sampled_from([(), (1,), (3,), (0,)]))
def test_both_products_agree_with_the_dense_matrix(S, m):
    A, w = matrix(S.length, *m), matrix(S.rows, *m, key="w")
    torch.testing.assert_close(S.apply(A), dense(S) @ A)
    torch.testing.assert_close(S.transpose_apply(w), dense(S).T @ w)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_dtype_is_kept(dtype):
    S = SparseEmbedding(3, 5, seed=0)
    assert S.apply(torch.ones(5, dtype=dtype)).dtype == dtype
    assert S.transpose_apply(torch.ones(3, dtype=dtype)).dtype == dtype


def worst_bias_of_the_gram(rows: int = 4, length: int = 8, seeds: int = 2000) -> float:
    """Largest deviation of the mean of S^T S from I, in standard errors sqrt(1 / (r N))."""
    mean = sum(S.T @ S for S in (SparseEmbedding(rows, length, s).dense() for s in range(seeds)))
    deviation = mean / seeds - torch.eye(length, dtype=torch.float64)
    return float(deviation.abs().max() * math.sqrt(rows * seeds))


def test_the_gram_matrix_is_unbiased():
    assert worst_bias_of_the_gram() < 4


def test_the_check_of_the_gram_rejects_signs_that_are_all_plus(monkeypatch):
    whole = HashFamily.cells
    monkeypatch.setattr(HashFamily, "cells", lambda self, *a: whole(self, *a) % self.columns)
    assert worst_bias_of_the_gram() > 4


def failures(epsilon: float, rows: int, seeds: int = 200) -> int:
    """How often ||A^T S^T S B - A^T B||_F is over epsilon ||A||_F ||B||_F."""
    A, B = matrix(500, 3), matrix(500, 4, key="B")
    B[:, 0] = A[:, 0]  # aligned columns are the hard case
    bound = epsilon * A.norm() * B.norm()
    errors = []
    for seed in range(seeds):
        S = SparseEmbedding(rows, 500, seed)
        errors.append((S.apply(A).T @ S.apply(B) - A.T @ B).norm())
    return int(np.sum(np.array(errors) > float(bound)))


def test_matrix_products_are_approximated_at_the_size_of_the_theory():
    """Corollary 2: r > 18 / (eps^2 delta) fails with probability at most delta."""
    epsilon, delta = 0.3, 0.2
    assert failures(epsilon, rows=math.floor(18 / (epsilon**2 * delta)) + 1) <= 200 * delta


def test_the_check_of_products_rejects_too_few_rows():
    assert failures(0.3, rows=4) > 200 * 0.2


@pytest.mark.parametrize("x", [torch.ones(6), torch.ones(5, 1, 1), torch.ones(5).long()])
def test_a_tensor_that_does_not_fit_is_refused(x):
    with pytest.raises(InputError, match="needs"):
        SparseEmbedding(3, 5, seed=0).apply(x)
    with pytest.raises(InputError, match="needs"):
        SparseEmbedding(5, 3, seed=0).transpose_apply(x)


@pytest.mark.parametrize(("rows", "length", "seed"), [(0, 5, 0), (3, 0, 0), (3, 5, -1)])
def test_a_matrix_that_cannot_be_is_refused(rows, length, seed):
    with pytest.raises(InputError, match="give"):
        SparseEmbedding(rows, length, seed)
