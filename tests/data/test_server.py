"""What a server has of a dataset: no client's samples, checked like a client's."""

import pytest
import torch

from fedsift.data import ServerData, build
from fedsift.errors import DataError

PAIR = torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])


def test_the_server_s_part_of_a_dataset_is_all_but_its_clients():
    data = build("digits", clients=2)
    server = ServerData.of(data)
    assert (server.validation, server.test) == (data.validation, data.test)
    assert (server.shape, server.classes) == (data.shape, data.classes)
    assert not server.clients
    assert server.noise_rate is None


@pytest.mark.parametrize(
    ("test", "sentence"),
    [
        ((torch.zeros(4, 3), PAIR[1]), "the test set has inputs of shape .3. but"),
        ((PAIR[0], torch.tensor([0, 1, 2, 0])), "the test set has the label 2"),
    ],
)
def test_sets_that_do_not_fit_are_refused(test, sentence):
    with pytest.raises(DataError, match=sentence):
        ServerData("own data", PAIR, test, ("a", "b"))
