"""Folds by content."""

import torch

from fedsift.problem.folds import clean_folds, site_folds

X = torch.randn(400, 5, generator=torch.Generator().manual_seed(0))


def test_a_sample_keeps_its_fold_whatever_else_there_is():
    folds, order = site_folds(X, 3), torch.randperm(400)[:100]
    assert torch.equal(site_folds(X[order], 3), folds[order])
    assert folds.bincount(minlength=3).min() > 100  # 133 expected, 9 standard deviation


def test_equal_samples_are_in_one_fold():
    twice = torch.cat([X[:50], X[:50]])
    assert torch.equal(*site_folds(twice, 2).split(50))
    assert torch.equal(*clean_folds(twice, torch.arange(100) % 50 % 5, 2).split(50))


def test_clean_samples_of_a_class_are_dealt_out_evenly():
    labels = torch.arange(40) % 4
    folds = clean_folds(X[:40], labels, 5)
    counts = torch.zeros(4, 5).index_put_((labels, folds), torch.ones(40), accumulate=True)
    assert torch.equal(counts, torch.full((4, 5), 2.0))
