"""Clean samples that look wrong are left out, but no class is emptied."""

import torch

from fedsift.data.clean_set import CleanSet, check_clean_set
from fedsift.data.untrusted import HOPELESS, LEAST, trusted
from fedsift.randomness import generator

LABELS = torch.arange(40) % 4


def test_without_suspects_everything_is_used():
    used = trusted(CleanSet(40), LABELS)
    assert used.positions.tolist() == list(range(40))
    assert not used.note


def test_suspects_are_left_out_and_said():
    used = trusted(CleanSet(40, suspects=(3, 7)), LABELS)
    assert set(range(40)) - set(used.positions.tolist()) == {3, 7}
    assert "2 clean samples that look wrong are left out" in used.note


def test_no_class_is_emptied():
    everything = CleanSet(40, suspects=tuple(range(40)))
    used = trusted(everything, LABELS)
    assert LABELS[used.positions].bincount().tolist() == [LEAST] * 4


def test_a_clean_set_that_nothing_agrees_with_is_not_relied_on():
    many = tuple(range(int(HOPELESS * 40) + 1))
    assert "do not rely on this run" in trusted(CleanSet(40, suspects=many), LABELS).note


def test_wrong_labels_of_a_clean_set_are_found_and_left_out():
    """10, 20 and 40 % wrong: a warning in all three; most of what is left out is wrong."""
    source = generator(20, "clean")
    labels = torch.arange(200) % 4
    inputs = 4.0 * torch.nn.functional.one_hot(labels, 4).double()
    inputs = inputs + torch.randn(200, 4, generator=source, dtype=torch.float64)
    for share in (0.1, 0.2, 0.4):
        wrong = torch.randperm(200, generator=source)[: int(200 * share)]
        given = labels.clone()
        given[wrong] = (given[wrong] + 1 + torch.arange(len(wrong)) % 3) % 4
        found = check_clean_set(inputs, given, ("a", "b", "c", "d"), None, 20)
        used = trusted(found, given)
        left = set(range(200)) - set(used.positions.tolist())
        assert found.notes
        assert used.note
        assert len(left & set(wrong.tolist())) >= 0.8 * len(wrong)
        assert len(left - set(wrong.tolist())) <= 0.1 * 200
