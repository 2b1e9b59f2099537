"""MkDocs' hook: what the site has besides the files of docs/.

    README.md, CONTRIBUTING.md, ...   become pages; README.md is the first one
    reference/cli.md, keys.md         are made from the parsers and the tables of keys
    source/PATH                       shows every file or folder of the repository with a link to it
    the navigation                    gets pages that mkdocs.yml does not name, by their folder

A link from a page to a file of the repository is relative, so that it works where the repository
is browsed; here it is rewritten. ``file.py#Class.method`` becomes the line of that definition.
"""

from __future__ import annotations

import ast
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
from reference_pages import cli_page, keys_page

ROOT = Path(__file__).parents[2]
ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "dev/contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
MADE = {"reference/cli.md": cli_page, "reference/keys.md": keys_page}
SECTIONS = {"guide": "Guide", "reference": "Reference", "dev": "Developers", "": "Results"}
LINK = re.compile(r"(?<!`)(!?\[[^\]]*\]\()([^)\s#]*)(#[^)\s]*)?(\))")
FENCED = re.compile(r"(^```.*?^```|^~~~.*?^~~~)", flags=re.M | re.S)
SYMBOL = re.compile(r'(href="[^"]*?source/([^"?]+?)\.html)\?([\w.]+)"')
LANGUAGES = {".py": "python", ".toml": "toml", ".txt": "text", ".svg": "xml", ".json": "json"}


def on_config(config: Any) -> Any:
    """Add pages that the navigation does not name to the section of their folder."""
    named = set(re.findall(r"[\w/.-]+\.md", str(config.nav)))
    docs = Path(config.docs_dir)
    for path in sorted(docs.rglob("*.md")):
        page = path.relative_to(docs).as_posix()
        if page not in named and page != "index.md":
            section = SECTIONS[page.rpartition("/")[0].partition("/")[0]]
            next(row[section] for row in config.nav if section in row).append(page)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not files of docs/."""
    made = {uri: make() for uri, make in MADE.items()}
    made |= {uri: _text(name) for name, uri in ROOT_PAGES.items()}
    for uri, text in made.items():
        files.append(File.generated(config, uri, content=text))
    linked = {target for file in files.documentation_pages() for target in _sources(file)}
    for target in sorted(linked):
        files.append(File.generated(config, f"source/{target}.md", content=_shown(target)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Rewrite links to files outside of docs/."""
    origin = _origin(page.file.src_uri)
    if origin is None:
        return markdown

    def rewritten(found: re.Match[str]) -> str:
        start, target, fragment, end = found[1], found[2], found[3] or "", found[4]
        uri = _page_of(origin, target)
        if uri is None:
            return found[0]
        if uri.startswith("source/"):
            uri, fragment = f"{uri}.md", fragment.replace("#", "?")
        here = posixpath.dirname(page.file.src_uri)
        return f"{start}{posixpath.relpath(uri, here or '.')}{fragment}{end}"

    parts = FENCED.split(markdown)
    return "".join(p if n % 2 else LINK.sub(rewritten, p) for n, p in enumerate(parts))


def on_page_content(html: str, **_: Any) -> str:
    """Turn a definition that a link names into the line where it starts."""
    return SYMBOL.sub(lambda m: f'{m[1]}#__span-0-{line_of(ROOT / m[2], m[3])}"', html)


def line_of(path: Path, name: str) -> int:
    """Return the line where a class, function, method or constant is defined."""
    node: ast.AST = ast.parse(path.read_text(encoding="utf-8"))
    for part in name.split("."):
        node = next((child for child in ast.iter_child_nodes(node) if part in _names(child)), None)
        if node is None:
            raise LookupError(f"{path.relative_to(ROOT)} has no {name}")
    return node.lineno  # type: ignore[attr-defined]


def _names(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return (node.name,)
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return tuple(target.id for target in targets if isinstance(target, ast.Name))


def _origin(uri: str) -> str | None:
    """Return the file of the repository that a page is made from."""
    for name, made in ROOT_PAGES.items():
        if uri == made:
            return name
    return None if uri in MADE or uri.startswith("source/") else f"docs/{uri}"


def _page_of(origin: str, target: str) -> str | None:
    """Return the page that a link of a file leads to; None where the link is left as it is."""
    if not target or re.match(r"[a-z]+:", target):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    if path.startswith("docs/") and not path.endswith((".py", ".toml")):
        return path.removeprefix("docs/")
    return f"source/{path}" if path != "." and (ROOT / path).exists() else None


def _sources(file: File) -> set[str]:
    """Return the files of the repository that a page shows through links."""
    origin = _origin(file.src_uri)
    if origin is None:
        return set()
    pages = (_page_of(origin, found[2]) for found in LINK.finditer(file.content_string))
    return {page.removeprefix("source/") for page in pages if page and page.startswith("source/")}


def _shown(path: str) -> str:
    """Return the page of a file, or of all files of a folder."""
    place = ROOT / path
    head = f"---\nsearch:\n  exclude: true\n---\n\n# {path}\n\n"
    if place.is_file():
        return head + _code(path)
    files = (p for p in place.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    names = sorted(file.relative_to(ROOT).as_posix() for file in files)
    return head + "\n".join(f"## {name}\n\n{_code(name)}" for name in names)


def _code(path: str) -> str:
    language = LANGUAGES.get(posixpath.splitext(path)[1], "text")
    return f'```` {{ .{language} linenums="1" }}\n{_text(path).rstrip()}\n````\n'


def _text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")
