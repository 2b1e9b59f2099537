"""What a method asks of a client, and in which order: a small state machine, one line per method.

    fedavg       train
    iter-topk    train product* measure product outer
    preprocess   ^count ^keep train-kept

A round is the words from left to right. A client may miss any of them (it was not drawn, or was
away), so every word may be left out; none may come before one that stands left of it.

| mark    | the word may come              |
|---------|--------------------------------|
|         | once a round                   |
| `name*` | any number of times in a row   |
| `^name` | once in a run                  |

A round that is done again (``found_steps.py``) begins from the left; a site counts it as one more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Word:
    """An action in its place."""

    action: str
    many: bool = False
    once: bool = False

    @classmethod
    def of(cls, text: str) -> Word:
        """Read a word with its mark."""
        return cls(text.strip("^*"), text.endswith("*"), text.startswith("^"))


@dataclass(frozen=True)
class Next:
    """Where a request stands in its round; ``again``: the round has begun anew with it."""

    at: int
    again: bool
    once: bool


@dataclass(frozen=True)
class Sequence:
    """The words of one method."""

    text: str

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """The words from left to right."""
        return tuple(map(Word.of, self.text.split()))

    @property
    def actions(self) -> frozenset[str]:
        """All actions."""
        return frozenset(word.action for word in self.words)

    def next(self, at: int, action: str) -> Next | None:
        """Return where an action comes after place ``at`` (−1: the round begins); None: nowhere."""
        places = [n for n, word in enumerate(self.words) if word.action == action]
        later = [n for n in places if n > at or (n == at and self.words[n].many)]
        if later:
            return Next(later[0], at < 0, self.words[later[0]].once)
        return Next(places[0], True, self.words[places[0]].once) if places else None
