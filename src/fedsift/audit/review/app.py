"""The review page's web application.

| request             | reply                                                       |
|---------------------|-------------------------------------------------------------|
| GET /?token=T       | a cookie, then the page without the token in its address    |
| GET /               | the page                                                    |
| GET /static/NAME    | its script and style                                        |
| GET /api/samples    | all samples and decisions                                   |
| GET /image/INDEX    | a sample as PNG                                             |
| GET /fields/INDEX   | a sample's fields                                           |
| POST /api/decide    | saves a decision; 409 if another tab decided first          |
| POST /api/undo      | undoes one                                                  |
| POST /api/export    | writes the corrected labels                                 |

A request without the token or the cookie is refused, and so is one for a host name that is not
loopback (a page elsewhere could point its own name here). A sample is named by a number, never by a
path.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from fedsift.audit.review.decisions import NONE, Conflict, Decision, Decisions
from fedsift.audit.review.samples import ReviewSamples, export
from fedsift.errors import InputError

COOKIE = "fedsift_review"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
STATIC = {
    "review.js": "text/javascript",
    "keys.js": "text/javascript",
    "review.css": "text/css",
    "icon.svg": "image/svg+xml",
}
BODY_LIMIT = 10_000
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
Call = Callable[[Request], Awaitable[Response]]


class Review:
    """The application of one site: its samples, its decisions, where to write."""

    def __init__(
        self, samples: ReviewSamples, decisions: Decisions, corrected: Path, token: str
    ) -> None:
        self.samples, self.decisions = samples, decisions
        self.corrected, self.token = corrected, token
        self.given = dict(zip(*(samples.columns()[k] for k in ("index", "label")), strict=True))
        self.suggested = dict(
            zip(*(samples.columns()[k] for k in ("index", "suggested")), strict=True)
        )

    def page(self, request: Request) -> Response:
        """Answer GET /."""
        if "token" in request.query_params:
            moved = Response(status_code=303, headers={"Location": "/"})
            moved.set_cookie(self._cookie(request), self.token, httponly=True, samesite="strict")
            return moved
        environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
        source = files(__package__).joinpath("templates/review.html").read_text(encoding="utf-8")
        return HTMLResponse(
            environment.from_string(source).render(
                site=self.samples.site,
                classes=self.samples.class_names,
                total=len(self.samples.table),
                images=self.samples.are_images,
            )
        )

    def static(self, request: Request) -> Response:
        """Answer GET /static/NAME."""
        name = request.path_params["name"]
        if name not in STATIC:
            return PlainTextResponse("there is no such file", status_code=404)
        text = files(__package__).joinpath(f"static/{name}").read_text(encoding="utf-8")
        return Response(text, media_type=STATIC[name])

    def list(self, request: Request) -> Response:  # noqa: ARG002
        """Answer GET /api/samples."""
        return JSONResponse(
            {
                "classes": self.samples.class_names,
                "images": self.samples.are_images,
                "samples": self.samples.columns(),
                "decisions": [asdict(d) for d in self.decisions.touched],
            }
        )

    def image(self, request: Request) -> Response:
        """Answer GET /image/INDEX."""
        index = request.path_params["index"]
        if not self.samples.are_images or index not in self.given:
            return PlainTextResponse("there is no such image", status_code=404)
        cached = {"Cache-Control": "private, max-age=3600"}
        return Response(self.samples.picture(index), media_type="image/png", headers=cached)

    def fields(self, request: Request) -> Response:
        """Answer GET /fields/INDEX."""
        index = request.path_params["index"]
        if index not in self.given:
            return PlainTextResponse("there is no such sample", status_code=404)
        return JSONResponse(self.samples.fields(index))

    async def decide(self, request: Request) -> Response:
        """Answer POST /api/decide."""
        asked = await _body(request)
        index, version, action = (asked.get(k) for k in ("index", "version", "action"))
        if type(index) is not int or type(version) is not int or not isinstance(action, str):
            raise InputError(
                "a decision needs the numbers index and version and an action; reload the page"
            )
        label = self._label(index, action, asked.get("label"))
        decision = self.decisions.decide(index, version, action, label, str(asked.get("tab")))
        return JSONResponse(asdict(decision))

    async def undo(self, request: Request) -> Response:
        """Answer POST /api/undo."""
        asked = await _body(request)
        undone = self.decisions.undo(str(asked.get("tab")))
        return JSONResponse(None if undone is None else asdict(undone))

    async def export(self, request: Request) -> Response:  # noqa: ARG002
        """Answer POST /api/export."""
        table = export(self.samples, self.decisions, self.corrected)
        return JSONResponse(
            {
                "path": str(self.corrected),
                "decided": int((table["decision"] != NONE).sum()),
                "changed": int((table["label"] != table["given_label"]).sum()),
                "unusable": int(table["unusable"].sum()),
            }
        )

    def _label(self, index: int, action: str, label: Any) -> int | None:
        if index not in self.given:
            raise InputError(f"there is no sample {index}; reload the page")
        if action == "relabel":
            if type(label) is not int or not 0 <= label < len(self.samples.class_names):
                raise InputError(f"there is no class {label!r}; choose one of the list")
            return label
        known = {"keep": self.given, "accept": self.suggested}.get(action)
        return None if known is None else known[index]

    def _cookie(self, request: Request) -> str:
        # Cookies know no ports: the name keeps two reviews on one machine apart.
        return f"{COOKIE}_{request.url.port}"

    async def guard(self, request: Request, call: Call) -> Response:
        """Refuse requests without the token or by another name; add the headers to every reply."""
        host = request.headers.get("host", "").rpartition(":")[0]
        shown = request.query_params.get("token") or request.cookies.get(self._cookie(request), "")
        origin = request.headers.get("origin")
        foreign = origin is not None and origin != f"http://{request.headers.get('host')}"
        if (
            host not in LOOPBACK
            or foreign
            or not secrets.compare_digest(shown.encode(), self.token.encode())
        ):
            response: Response = PlainTextResponse(
                "open the address that `fedsift review` printed", status_code=403
            )
        else:
            response = await call(request)
        for name, value in HEADERS.items():
            response.headers[name] = value
        response.headers.setdefault("Cache-Control", "no-store")
        return response


def application(review: Review) -> Starlette:
    """Return the web application."""
    return Starlette(
        routes=[
            Route("/", review.page),
            Route("/static/{name}", review.static),
            Route("/api/samples", review.list),
            Route("/image/{index:int}", review.image),
            Route("/fields/{index:int}", review.fields),
            Route("/api/decide", review.decide, methods=["POST"]),
            Route("/api/undo", review.undo, methods=["POST"]),
            Route("/api/export", review.export, methods=["POST"]),
        ],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=review.guard)],
        exception_handlers={Conflict: _conflict, InputError: partial(_refuse)},
    )


async def _body(request: Request) -> dict[str, Any]:
    if int(request.headers.get("content-length", 0)) > BODY_LIMIT:
        raise InputError(f"the request is longer than {BODY_LIMIT} bytes; reload the page")
    try:
        value = await request.json()
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InputError("the request is not a JSON object; reload the page")
    return value


def _conflict(request: Request, error: Exception) -> Response:  # noqa: ARG001
    assert isinstance(error, Conflict)
    current: Decision = error.current
    return JSONResponse({"error": str(error), "current": asdict(current)}, status_code=409)


def _refuse(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return JSONResponse({"error": str(error)}, status_code=400)
