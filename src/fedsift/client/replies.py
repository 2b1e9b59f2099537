"""What a reply to each action must look like: one row per action, as in ``actions.ACTIONS``.

The server checks a reply against its row before anything touches its state. A row names arrays and
scalars; a name that ends with ``?`` may be missing. What is not named is refused.

| form          | an array                                                                      |
|---------------|-------------------------------------------------------------------------------|
| ``Like(n)``   | of the shape and type of the request's array n, or Top-k of one if it asks so |
| ``Product()`` | what the request's compressor makes of v                                      |
| ``Shaped(f)`` | real, of the shape f(request); None: any shape that most replies have         |
| ``Whole(f)``  | the same, of whole numbers                                                    |

| kind    | a scalar                      |
|---------|-------------------------------|
| `real`  | a finite number               |
| `share` | in [0, 1]                     |
| `count` | a whole number in [0, N_m]    |
| `flag`  | true or false                 |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from fedsift.compress import Payload, Sketch, Sparse
from fedsift.hypergradient.non_iterative import SketchedSystem
from fedsift.hypergradient.products import Compression
from fedsift.hypergradient.residual import COLUMNS, ROWS
from fedsift.messages import Reply, Request, Scalar

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Like:
    """An array like one of the request."""

    name: str

    def fault(self, payload: Payload, request: Request) -> str | None:
        """Say what is wrong with an array, if anything is."""
        wanted = request.arrays.get(self.name)
        if isinstance(payload, Sparse) and "update_rate" in request.scalars:
            length = wanted.numel() if isinstance(wanted, Tensor) else payload.length
            return None if payload.length == length else f"is of length {payload.length}"
        if not isinstance(payload, Tensor):
            return "is compressed"
        if not isinstance(wanted, Tensor):
            return None if payload.is_floating_point() else f"is {payload.dtype}"
        return _unlike(payload, wanted.shape, wanted)


@dataclass(frozen=True)
class Product:
    """A compressed product with v."""

    def fault(self, payload: Payload, request: Request) -> str | None:
        """Say what is wrong with a product, if anything is."""
        compressor = request.read(Compression).feedback.compressor
        sketches = compressor.spec()["name"] == "count-sketch"
        if isinstance(payload, Tensor):
            fits = payload.is_floating_point() and payload.shape == (compressor.length,)
            return None if fits and not sketches else "is not what was asked for"
        if payload.length != compressor.length:
            return f"is of length {payload.length}"
        if isinstance(payload, Sketch):
            own = sketches and payload.seed == compressor.spec().get("seed")
            same = own and payload.table.numel() == compressor.numbers
            return None if same else "is another sketch than was asked for"
        if sketches or len(payload.values) > max(compressor.numbers, 1):
            return "is not what was asked for"
        return None if payload.values.is_floating_point() else f"is {payload.values.dtype}"


@dataclass(frozen=True)
class Shaped:
    """Real numbers in a shape; ``low`` and ``high`` are what they may be."""

    shape: Callable[[Request], Shape | None]
    low: float = -math.inf
    high: float = math.inf

    def fault(self, payload: Payload, request: Request) -> str | None:
        """Say what is wrong with an array, if anything is."""
        found = payload.table if isinstance(payload, Sketch) else payload
        if not isinstance(found, Tensor) or not found.is_floating_point():
            return "is not an array of real numbers"
        wanted = self.shape(request)
        if wanted is not None and tuple(found.shape) != wanted:
            return f"has the shape {tuple(found.shape)}"
        out = math.isfinite(self.high) and bool(((found < self.low) | (found > self.high)).any())
        return f"has a number outside [{self.low:g}, {self.high:g}]" if out else None


@dataclass(frozen=True)
class Whole:
    """Whole numbers that are not negative."""

    shape: Callable[[Request], Shape | None]

    def fault(self, payload: Payload, request: Request) -> str | None:
        """Say what is wrong with an array, if anything is."""
        if not isinstance(payload, Tensor) or payload.is_floating_point():
            return "is not an array of whole numbers"
        wanted = self.shape(request)
        if wanted is not None and tuple(payload.shape) != wanted:
            return f"has the shape {tuple(payload.shape)}"
        return "has a negative number" if bool((payload < 0).any()) else None


Form = Like | Product | Shaped | Whole


@dataclass(frozen=True)
class Row:
    """The arrays and scalars of a reply."""

    arrays: Mapping[str, Form] = field(default_factory=dict)
    scalars: Mapping[str, str] = field(default_factory=dict)


def _unlike(payload: Tensor, shape: Shape, like: Tensor) -> str | None:
    if payload.dtype != like.dtype:
        return f"is {str(payload.dtype).removeprefix('torch.')}"
    return None if payload.shape == shape else f"has the shape {tuple(payload.shape)}"


def _edges(request: Request) -> Shape:
    return (request.array("edges").numel() + 1,)


def _system(request: Request) -> Shape | None:
    asked = request.read(SketchedSystem)
    rows = {"galerkin": asked.r1, "least-squares": asked.r2}.get(asked.system)
    return None if rows is None else (rows, asked.r1)


def _classes(request: Request) -> Shape:
    return tuple(request.array("matrix").shape)


def _any(request: Request) -> Shape | None:  # noqa: ARG001
    return None


UPDATE: dict[str, Form] = {"update": Like("y")}
LOSS = {"loss": "real"}
TRAINED = Row(UPDATE, LOSS)
RESIDUAL: dict[str, Form] = {"residual": Shaped(lambda _: (ROWS, COLUMNS))}
PRODUCT: dict[str, Form] = {"product": Product(), **RESIDUAL}
ALONG = {"curvature": "real", "error": "real"}
CROSS: dict[str, Form] = {"cross?": Like("x")}
MOVED = {"outer_square?": "real"}
SEEN = {"outer_loss?": "real"}
KEYS: Form = Whole(_any)

REPLIES: dict[str, Row] = {
    "train": TRAINED,
    "product": Row(PRODUCT, ALONG),
    "sketch": Row({"sketch": Shaped(_system)}),
    "sketch-both": Row({"sketch": Shaped(_system), "cross": Shaped(_any)}),
    "measure": Row(RESIDUAL),
    "outer": Row(CROSS, MOVED),
    "outer-gradient": Row({"outer_y": Like("y"), "outer_x?": Like("x")}, {"outer_loss": "real"}),
    "step": Row(
        {**UPDATE, **PRODUCT, **CROSS, "outer_y?": Like("y"), "hypergradient?": Like("x")},
        {**LOSS, **ALONG, **MOVED, **SEEN},
    ),
    "personal": Row(
        {"hypergradient": Like("x")}, LOSS | {"outer_loss": "real", "own_residual": "real"}
    ),
    "first-order": Row({**UPDATE, "base_update?": Like("base"), **CROSS}, LOSS | MOVED),
    "clean-step": Row({**UPDATE, **CROSS}, LOSS | MOVED),
    "simfbo": Row({**UPDATE, "v_update": Like("v"), **CROSS}, LOSS | MOVED),
    "fedbioacc": Row(
        {
            **UPDATE,
            "v_update": Like("v"),
            "y_momentum": Like("y"),
            "v_momentum": Like("v"),
            "x_momentum?": Like("x"),
            **CROSS,
        },
        LOSS | MOVED,
    ),
    "assess": Row(UPDATE, LOSS | {"own_loss": "real"}),
    "count": Row({"counts": Whole(_edges)}),
    "keep": Row({}, {"kept": "count", "found": "flag"}),
    "train-kept": Row(UPDATE, LOSS | {"kept": "count"}),
    "judge": Row(UPDATE, LOSS | {"judged": "flag"}),
    "agree": Row(),
    "train-corrected": TRAINED,
    "train-soft": Row({**UPDATE, "sums": Shaped(_classes)}, LOSS),
    "train-robust": TRAINED,
    "train-elr": TRAINED,
    "fold-step": Row({"update": Like("heads"), "sums?": Shaped(_any)}, LOSS),
    "train-posterior": Row(
        {**UPDATE, "curve": Shaped(_any, 0.0, 1.0)},
        LOSS | {"unseen_rate": "share", "unseen_variance": "share", "kept": "share"},
    ),
    "class-losses": Row({"losses": Shaped(_any)}),
    "train-elc": TRAINED,
    "train-relabelled": Row(
        UPDATE, LOSS | {"dimension": "real", "level": "share", "relabelled": "count"}
    ),
    "sum-keys": Row({"publics": KEYS}),
    "sum-shares": Row({"sealed": KEYS}),
    "sum-reveal": Row({"revealed": KEYS}),
}


def fault(reply: Reply, request: Request) -> str | None:
    """Say what is wrong with a reply, apart from numbers that are not finite; None: nothing."""
    row = REPLIES.get(request.action)
    if row is None:
        return None
    for found, wanted in ((reply.arrays, row.arrays), (reply.scalars, row.scalars)):
        names = {name.rstrip("?") for name in wanted}
        missing = [name for name in wanted if not name.endswith("?") and name not in found]
        more = [name for name in found if name not in names]
        if missing or more:
            return f"it has no '{missing[0]}'" if missing else f"it has '{more[0]}', not asked for"
    forms = {name.rstrip("?"): form for name, form in row.arrays.items()}
    for name, payload in reply.arrays.items():
        wrong = forms[name].fault(payload, request)
        if wrong:
            return f"its '{name}' {wrong}"
    kinds = {name.rstrip("?"): kind for name, kind in row.scalars.items()}
    for name, value in reply.scalars.items():
        if not _is(kinds[name], value, reply.num_samples):
            return f"its '{name}' is {value!r:.40}"
    return None


def _is(kind: str, value: Scalar, samples: int) -> bool:
    if kind == "flag":
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if kind == "count":
        return isinstance(value, int) and 0 <= value <= samples
    return 0 <= value <= 1 if kind == "share" else True  # whether it is finite is asked elsewhere
