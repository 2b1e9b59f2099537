"""For each folder on standard input, fork a review server and print its process and port."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from audit.review.conftest import TOKEN, many
from fedsift.audit.review import Decisions, Reviewed
from fedsift.audit.review.app import Review
from fedsift.audit.review.server import listen, web_server


def main() -> None:
    """Serve until each is killed."""
    samples = many(200)
    for line in sys.stdin:
        folder, listening = Path(line.strip()), listen(0)
        listening.listen()
        child = os.fork()
        if not child:
            decisions = Decisions(folder / "decisions.jsonl", 200)
            review = Review(Reviewed(samples, decisions, folder), TOKEN)
            web_server(review).run(sockets=[listening])
            os._exit(0)
        print(child, listening.getsockname()[1], flush=True)
        listening.close()


if __name__ == "__main__":
    main()
