"""The review page's web application.

| request              | reply                                                      |
|----------------------|------------------------------------------------------------|
| GET /?token=T        | a cookie, then the page without the token in its address   |
| GET /                | the page                                                   |
| GET /static/NAME     | its scripts and style                                      |
| GET /api/samples     | all samples and decisions                                  |
| GET /api/changes     | decisions after line ``since``                             |
| GET /api/cards       | fields of the samples ``at=1,2,3``, for the grid           |
| GET /sample/INDEX    | a sample's fields, probable classes, sure neighbours       |
| GET /image/INDEX     | a sample as PNG, in its own size; with ``small`` a small one |
| GET /pixels/INDEX    | a picture's values                                         |
| POST /api/decide     | saves decisions; those that others decided meanwhile come back |
| POST /api/undo       | undoes the last                                            |
| POST /api/export     | writes the corrected labels                                |

A sample is named by a number, never by a path. ``guard`` says who is let in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any

import jinja2
from starlette.applications import Starlette
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from fedsift.audit.review import pictures
from fedsift.audit.review.decisions import COMMENT, LONGEST, SKIP, UNUSABLE, Asked, Decision
from fedsift.audit.review.exporting import EXPORTS, Reviewed, export
from fedsift.audit.review.guard import Guard, body_of
from fedsift.errors import InputError

DIGITS = 18  # of a number in a request


class Place(IntegerConvertor):
    """A sample's number in a path; Python refuses to read very long ones."""

    regex = f"[0-9]{{1,{DIGITS}}}"


register_url_convertor("place", Place())
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
MOST_CARDS = 500
CACHED = {"Cache-Control": "private, max-age=3600"}


@dataclass(frozen=True)
class Start:
    """How the page begins: whose decisions, at which sample, with labels hidden or not."""

    by: str = ""
    sample: int | None = None
    blind: bool = False


class Review:
    """The application of one site."""

    def __init__(self, site: Reviewed, token: str, start: Start = Start()) -> None:
        self.site, self.samples, self.decisions = site, site.samples, site.decisions
        self.guard, self.start = Guard(token), start

    @cached_property
    def static_files(self) -> dict[str, str]:
        """The page's files by name."""
        found = files(__package__).joinpath("static").iterdir()
        return {f.name: f.read_text(encoding="utf-8") for f in found if f.is_file()}

    def page(self, request: Request) -> Response:
        """Answer GET /."""
        if "token" in request.query_params:
            return self.guard.welcome(request)
        environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
        source = files(__package__).joinpath("templates/review.html").read_text(encoding="utf-8")
        forms = {name: row.help for name, row in EXPORTS.items() if row.fits(self.site.own)}
        return HTMLResponse(
            environment.from_string(source).render(
                site=self.samples.site,
                classes=self.samples.class_names,
                forms=forms,
                longest=LONGEST,
            )
        )

    def static(self, request: Request) -> Response:
        """Answer GET /static/NAME."""
        name = request.path_params["name"]
        if name not in self.static_files:
            return PlainTextResponse("there is no such file", status_code=404)
        return Response(self.static_files[name], media_type=TYPES["." + name.rpartition(".")[2]])

    def list(self, request: Request) -> Response:  # noqa: ARG002
        """Answer GET /api/samples."""
        return JSONResponse(
            {
                "classes": self.samples.class_names,
                "images": self.samples.are_images,
                "samples": self.samples.columns(),
                "start": asdict(self.start),
                **self._news(0),
            }
        )

    def changes(self, request: Request) -> Response:
        """Answer GET /api/changes."""
        return JSONResponse(self._news(_whole(request.query_params.get("since"))))

    def cards(self, request: Request) -> Response:
        """Answer GET /api/cards."""
        at = [_whole(text) for text in request.query_params.get("at", "").split(",")[:MOST_CARDS]]
        known = [n for n in at if n in self.samples.given]
        return JSONResponse({str(n): self.samples.fields(n) for n in known})

    def sample(self, request: Request) -> Response:
        """Answer GET /sample/INDEX."""
        index = request.path_params["index"]
        if index not in self.samples.given:
            return PlainTextResponse("there is no such sample", status_code=404)
        return JSONResponse(self.samples.detail(index))

    def image(self, request: Request) -> Response:
        """Answer GET /image/INDEX."""
        index = request.path_params["index"]
        if not self.samples.are_images or index not in self.samples.given:
            return PlainTextResponse("there is no such image", status_code=404)
        drawn = self.samples.picture(index, small="small" in request.query_params)
        return Response(drawn, media_type="image/png", headers=CACHED)

    def pixels(self, request: Request) -> Response:
        """Answer GET /pixels/INDEX."""
        index = request.path_params["index"]
        known = index in self.samples.given
        found = pictures.raw(self.samples.content, index) if known else None
        if found is None:
            return PlainTextResponse("there are no such pixels", status_code=404)
        return Response(
            found[1], media_type="application/octet-stream", headers={**found[0], **CACHED}
        )

    async def decide(self, request: Request) -> Response:
        """Answer POST /api/decide."""
        asked = await body_of(request)
        action, comment, items = (asked.get(key) for key in ("action", "comment", "samples"))
        if not isinstance(action, str) or not isinstance(items, list) or not items:
            raise InputError("a decision needs an action and a list of samples; reload the page")
        if comment is not None and not isinstance(comment, str):
            raise InputError("a comment must be text; reload the page")
        wanted = [self._asked(item, action, asked.get("label"), comment) for item in items]
        saved, stale = self.decisions.save(wanted, *_who(asked))
        news = self._news(_whole(asked.get("since")))
        reply = {"saved": [d.index for d in saved], "stale": [d.index for d in stale], **news}
        return JSONResponse(reply, status_code=200 if saved else 409)

    async def undo(self, request: Request) -> Response:
        """Answer POST /api/undo."""
        asked = await body_of(request)
        undone = self.decisions.undo(*_who(asked))
        news = self._news(_whole(asked.get("since")))
        return JSONResponse({"undone": [d.index for d in undone], **news})

    async def export(self, request: Request) -> Response:
        """Answer POST /api/export."""
        asked = await body_of(request)
        return JSONResponse(asdict(export(self.site, str(asked.get("form", "parquet")))))

    def _news(self, since: int) -> dict[str, Any]:
        found: Sequence[Decision] = self.decisions.changes(since)
        return {"sequence": self.decisions.sequence, "decisions": [asdict(d) for d in found]}

    def _asked(self, item: Any, action: str, label: Any, comment: str | None) -> Asked:
        index, version = item if isinstance(item, list) and len(item) == 2 else (None, None)
        if type(index) is not int or type(version) is not int:
            raise InputError("a sample must be its index and its version; reload the page")
        if index not in self.samples.given:
            raise InputError(f"there is no sample {index}; reload the page")
        given, suggested = self.samples.given[index], self.samples.suggested[index]
        if action == "relabel":
            if type(label) is not int or not 0 <= label < len(self.samples.class_names):
                raise InputError(f"there is no class {label!r}; choose one of the list")
            # The same decision, whichever button it was made with.
            same = {suggested: "accept", given: "keep"}
            return Asked(index, version, same.get(label, action), label, comment)
        if action in {UNUSABLE, SKIP, COMMENT}:
            return Asked(index, version, action, None, comment)
        now = suggested if action == "accept" else given
        return Asked(index, version, action, now, comment)


def application(review: Review) -> Starlette:
    """Return the web application."""
    return Starlette(
        routes=[
            Route("/", review.page),
            Route("/static/{name}", review.static),
            Route("/api/samples", review.list),
            Route("/api/changes", review.changes),
            Route("/api/cards", review.cards),
            Route("/sample/{index:place}", review.sample),
            Route("/image/{index:place}", review.image),
            Route("/pixels/{index:place}", review.pixels),
            Route("/api/decide", review.decide, methods=["POST"]),
            Route("/api/undo", review.undo, methods=["POST"]),
            Route("/api/export", review.export, methods=["POST"]),
        ],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=review.guard)],
        exception_handlers={InputError: _refuse},
    )


def _who(asked: dict[str, Any]) -> tuple[str, str]:
    return str(asked.get("by") or "")[:80], str(asked.get("tab") or "")[:80]


def _whole(value: Any) -> int:
    text = str(value)
    short = len(text) <= DIGITS
    return int(text) if short and text.isascii() and text.isdecimal() else 0


def _refuse(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return JSONResponse({"error": str(error)}, status_code=400)
