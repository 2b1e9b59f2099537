"""Run folders -> figures and one HTML file; reads files, never live objects."""

from __future__ import annotations

from fedsift.report.html import write_report
from fedsift.report.runs import Run, load_run

__all__ = ["Run", "load_run", "write_report"]
