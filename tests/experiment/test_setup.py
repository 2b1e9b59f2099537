"""From a configuration to clients, server and model."""

import pytest
import torch

from fedsift.errors import ConfigError, DataError
from fedsift.experiment.setup import from_config


def test_clients_have_the_data_that_is_asked_for(tiny):
    setup = from_config(tiny(rho=0.25).resolve())
    assert setup.federation.sizes == {0: 20, 1: 20}
    assert len(setup.server.validation) == 30
    assert len(setup.data.test[1]) == 40
    assert setup.model.length == 64 * 10 + 10


def test_wrong_marks_the_labels_that_noise_has_changed(tiny):
    noisy = from_config(tiny(rho=0.25, seed=3).resolve())
    clean = from_config(tiny(noise="none", seed=3).resolve())
    pairs = zip(noisy.data.clients, clean.data.clients, strict=True)
    expected = torch.cat([a.labels != b.labels for a, b in pairs])
    assert torch.equal(noisy.wrong(), expected)
    assert int(expected.sum()) == 2 * 5


def test_oracle_has_only_the_correctly_labelled_samples(tiny):
    setup = from_config(tiny("oracle", rho=0.25).resolve())
    assert setup.federation.sizes == {0: 15, 1: 15}
    for m, client in enumerate(setup.data.clients):
        good = client.labels == client.true_labels
        assert torch.equal(setup.federation.clients[m].batch.labels, client.true_labels[good])
        assert torch.equal(setup.federation.clients[m].batch.inputs, client.inputs[good])


def test_oracle_without_a_correct_label_is_refused(tiny):
    with pytest.raises(DataError, match="client 0 has no correctly labelled sample"):
        from_config(tiny("oracle", rho=1.0).resolve())


def test_weights_start_at_the_initial_weight(tiny):
    setup = from_config(tiny(initial_weight=0.75).resolve())
    assert torch.equal(setup.weights(1), torch.full((20,), 0.75))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"cohort": 3}, "cohort is 3 but there are 2 clients"),
        ({"min_clients": 3}, "min_clients is 3 but a round has 2 clients"),
        ({"cohort": 1, "min_clients": 2}, "min_clients is 2 but a round has 1 clients"),
        ({"device": "meta"}, "device is 'meta'"),
    ],
)
def test_keys_that_do_not_fit_are_refused(tiny, keys, message):
    with pytest.raises(ConfigError, match=message):
        from_config(tiny(**keys).resolve())
