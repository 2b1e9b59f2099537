"""What a person sees of samples that were given in memory, written and read back."""

import pytest
import torch

from audit.conftest import audited
from fedsift.audit import SiteRecord
from fedsift.audit import shown as module
from fedsift.audit.shown import keep_samples, kept_samples
from fedsift.errors import InputError

PROBABILITIES = torch.tensor([[0.9, 0.1], [0.1, 0.9], [0.6, 0.4]])
RECORD = SiteRecord("north", torch.zeros(3).long(), torch.ones(3), PROBABILITIES)


def test_fields_come_back(tmp_path):
    audit = audited(torch.tensor([[1.0, 2.5], [3.0, 4.0], [5.0, 6.0]]), RECORD, ("no", "yes"))
    keep_samples(audit, tmp_path)
    kept = kept_samples(tmp_path, RECORD)
    assert [kept.fields(n) for n in range(3)] == [audit.content.fields(n) for n in range(3)]
    assert kept.picture(0) is None


def test_pictures_come_back_and_the_worst_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST", 1)
    audit = audited(torch.rand(3, 1, 4, 4), RECORD, ("no", "yes"))
    keep_samples(audit, tmp_path)
    kept = kept_samples(tmp_path, RECORD)
    assert kept.picture(1) == audit.content.picture(1)  # its label is the most suspicious one
    assert kept.picture(0) not in {None, audit.content.picture(0)}
    assert "not kept" in kept.fields(0)["sample"]
    assert len(kept) == 3


def test_nothing_and_something_else(tmp_path):
    assert kept_samples(tmp_path, RECORD) is None
    (tmp_path / "clients/north").mkdir(parents=True)
    (tmp_path / "clients/north/samples.parquet").write_text("no parquet")
    with pytest.raises(InputError, match=r"samples\.parquet cannot be read"):
        kept_samples(tmp_path, RECORD)
