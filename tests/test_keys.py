"""Groups of keys: what they accept, and who gets their values."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from fedsift.errors import ConfigError
from fedsift.keys import Auto, Keys, Settings, key, keys_of, number

COLOURS = {"red": 1}


@dataclass(frozen=True)
class PaintKeys(Keys):
    table: ClassVar[str] = "paint"
    colour: str = key("red", "which", choices=lambda: tuple(COLOURS))
    coats: int = key(2, "how many", low=1, high=5)
    gloss: float = key(0.5, "how much", low=0, open_low=True)


@dataclass(frozen=True)
class BrushKeys(Keys):
    table: ClassVar[str] = "brush"
    wide: bool = key(False, "whether")


@dataclass(frozen=True)
class DryingKeys(Keys):
    table: ClassVar[str] = "paint"
    hours: Auto = key("auto", "how long", low=0, high=9, open_low=True)


def test_a_number_or_the_word_auto():
    assert DryingKeys().hours == "auto"
    assert DryingKeys(hours=3).hours == 3.0
    assert Settings.of((DryingKeys, PaintKeys)).automatic() == ("hours",)
    assert Settings.of((DryingKeys, PaintKeys), {"hours": 2}).automatic() == ()
    assert number(DryingKeys(hours=3).hours) == 3.0
    with pytest.raises(ConfigError, match="built from numbers"):
        number("auto")


def test_settings_with_another_value():
    settings = Settings.of((PaintKeys, DryingKeys), {"coats": 4})
    assert settings.replace({"hours": 1}) == Settings.of(
        (PaintKeys, DryingKeys), {"coats": 4, "hours": 1}
    )


@pytest.mark.parametrize(
    ("hours", "message"),
    [
        ("soon", "hours is 'soon'; it must be a number or 'auto'"),
        (True, "hours is True; it must be a number or 'auto'"),
        (float("nan"), "hours is nan; it must be a number or 'auto'"),
        (0, "hours is 0.0; it must be above 0, or 'auto'"),
        (10, "hours is 10.0; it must be at most 9, or 'auto'"),
    ],
)
def test_what_is_neither_is_refused(hours, message):
    with pytest.raises(ConfigError) as caught:
        DryingKeys(hours=hours)
    assert str(caught.value) == message


def test_settings_have_an_instance_of_every_group():
    settings = Settings.of((PaintKeys, BrushKeys), {"coats": 3, "wide": True})
    assert settings[PaintKeys] == PaintKeys(coats=3)
    assert settings[BrushKeys].wide
    assert settings.values() == {"colour": "red", "coats": 3, "gloss": 0.5, "wide": True}


def test_a_group_that_was_not_declared_is_missing():
    with pytest.raises(KeyError, match="no BrushKeys"):
        Settings.of((PaintKeys,))[BrushKeys]


def test_a_key_of_another_group_is_refused():
    with pytest.raises(ConfigError, match="unknown key 'wide'"):
        Settings.of((PaintKeys,), {"wide": True})


def test_a_key_knows_its_table_and_type():
    found = keys_of(PaintKeys, BrushKeys)
    assert [(k.name, k.table, k.kind, k.default) for k in found.values()] == [
        ("colour", "paint", "str", "red"),
        ("coats", "paint", "int", 2),
        ("gloss", "paint", "float", 0.5),
        ("wide", "brush", "bool", False),
    ]


def test_choices_are_those_of_the_table_as_it_is_now(monkeypatch):
    monkeypatch.setitem(COLOURS, "blue", 2)
    assert PaintKeys(colour="blue").colour == "blue"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"colour": "read"}, "colour is 'read'; it must be one of red; did you mean 'red'?"),
        ({"coats": 0}, "coats is 0; it must be at least 1"),
        ({"coats": 6}, "coats is 6; it must be at most 5"),
        ({"coats": True}, "coats is True; it must be a whole number"),
        ({"gloss": 0}, "gloss is 0.0; it must be above 0"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused(values, message):
    with pytest.raises(ConfigError) as caught:
        PaintKeys(**values)
    assert str(caught.value) == message
