"""Who may talk to the review page.

A request without the token of the printed address, or the cookie that it became, is refused, and
so is one for a host name that is not loopback (a page elsewhere could point its own name here).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from fedsift.errors import InputError

COOKIE = "fedsift_review"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
BODY_LIMIT = 2_000_000  # a decision on 10,000 samples has 0.4 MB
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
Call = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Guard:
    """Lets in whoever has the token."""

    token: str

    def welcome(self, request: Request) -> Response:
        """Turn the token of the address into a cookie."""
        moved = Response(status_code=303, headers={"Location": "/"})
        moved.set_cookie(_cookie(request), self.token, httponly=True, samesite="strict")
        return moved

    async def __call__(self, request: Request, call: Call) -> Response:
        """Refuse requests without the token or by another name; add the headers to every reply."""
        host = request.headers.get("host", "").rpartition(":")[0]
        shown = request.query_params.get("token") or request.cookies.get(_cookie(request), "")
        origin = request.headers.get("origin")
        foreign = origin is not None and origin != f"http://{request.headers.get('host')}"
        known = secrets.compare_digest(shown.encode(), self.token.encode())
        if host not in LOOPBACK or foreign or not known:
            response: Response = PlainTextResponse(
                "open the address that `fedsift review` printed", status_code=403
            )
        else:
            response = await call(request)
        for name, value in HEADERS.items():
            response.headers[name] = value
        response.headers.setdefault("Cache-Control", "no-store")
        return response


async def body_of(request: Request) -> dict[str, Any]:
    """Return the JSON object that a request carries; a body in chunks states no length."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_LIMIT:
            raise InputError(f"the request is longer than {BODY_LIMIT} bytes; reload the page")
    try:
        value = json.loads(body)
        json.dumps(value, ensure_ascii=False).encode()  # half a character could not be shown again
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InputError("the request is not a JSON object; reload the page")
    return value


def _cookie(request: Request) -> str:
    # Cookies know no ports: the name keeps two reviews on one machine apart.
    return f"{COOKIE}_{request.url.port}"
