"""How long a full-length run is."""

import pytest

from fedsift.experiment.length import LONGEST, SHORTEST, next_length, settled_length


def series(*points):
    rounds, accuracies = zip(*points, strict=True)
    return {"round": rounds, "test_accuracy": accuracies}


@pytest.mark.parametrize(
    ("points", "length"),
    [
        (((80, 0.95), (150, 0.92)), 150),
        (((80, 0.95), (150, 0.93)), None),
        (((30, 0.95), (60, 0.80)), None),  # too early: what falls so soon is noise
        (((80, 0.95), (150, 0.93), (165, 0.5), (180, 0.93)), None),
        (((80, 0.95), (150, 0.93), (180, 0.91), (210, 0.90)), 180),
        (((150, 0.5), (300, 0.9)), 300),
    ],
)
def test_a_run_is_long_enough_once_fedavg_has_fallen_by_three_points(points, length):
    assert settled_length(series(*points)) == length


def test_lengths_go_in_steps_up_to_the_longest():
    found = sorted({next_length(k) for k in range(500)})
    assert found == [150, 180, 210, 240, 270, 300]
    assert all(next_length(k) >= min(k, LONGEST) for k in range(500))
    assert (next_length(0), next_length(SHORTEST)) == (SHORTEST, SHORTEST)
