"""Check that every relative link between the documents points to a file, and to a heading in it.

    python docs/check_links.py [ROOT]

Prints each broken link with its file and line; exit status 1 if there are any.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

_DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**/*.md")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_INLINE = re.compile(r"\]\(\s*(?:<([^<>]*)>|([^\s()<]*(?:\([^\s()]*\)[^\s()]*)*))(?:\s+[\"'(].*?[\"')])?\s*\)")
_DEFINITION = re.compile(r" {0,3}\[[^\]]+\]:\s+(?:<([^<>]*)>|(\S+))")
_HEADING = re.compile(r" {0,3}#{1,6}\s+(.*?)(?:\s+#+)?\s*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)\s*$")
_HTML_ANCHOR = re.compile(r"<[a-z0-9]+\s[^>]*?\b(?:id|name)\s*=\s*[\"']([^\"']+)[\"']", re.IGNORECASE)
_HTML_LINK = re.compile(r"<(?:a|img)\s[^>]*?\b(?:href|src)\s*=\s*[\"']([^\"']+)[\"']", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_SOURCE_LINE = re.compile(r"L\d+(?:-L\d+)?")


def main(arguments: list[str]) -> int:
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    documents = sorted({path for pattern in _DOCUMENTS for path in root.glob(pattern)})
    problems = [problem for document in documents for problem in broken_links(document, root)]
    for problem in problems:
        print(problem)
    print(f"{len(documents)} documents, {len(problems)} broken links")
    return 1 if problems else 0


def broken_links(document: Path, root: Path) -> Iterator[str]:
    for number, line in _prose(document):
        text = _CODE.sub("", line)
        for target in _targets(text):
            reason = _what_is_wrong(target, document, root)
            if reason:
                yield f"{document.relative_to(root)}:{number}: {target}: {reason}"


def _targets(text: str) -> Iterator[str]:
    for pattern in (_INLINE, _DEFINITION, _HTML_LINK):
        for match in pattern.finditer(text) if pattern is not _DEFINITION else _at_start(pattern, text):
            yield next((group for group in match.groups() if group is not None), "")


def _at_start(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    match = pattern.match(text)
    return [] if match is None else [match]


def _what_is_wrong(target: str, document: Path, root: Path) -> str:
    if _SCHEME.match(target):
        return ""
    path, _, anchor = target.partition("#")
    if path.startswith("/"):
        return "must be relative to the document"
    if not path and not anchor:
        return "is empty"
    place = (document.parent / unquote(path)).resolve() if path else document
    if not place.is_relative_to(root):
        return "leads out of the project"
    if not place.exists():
        return "does not exist"
    if not anchor or (place.suffix != ".md" and _SOURCE_LINE.fullmatch(anchor)):
        return ""
    if place.suffix != ".md":
        return f"has no heading #{anchor}"
    return "" if unquote(anchor) in anchors(place) else f"has no heading #{anchor}"


@cache
def anchors(document: Path) -> frozenset[str]:
    """The anchors of a document's headings, made as GitHub makes them, and those given in HTML."""
    found: set[str] = set()
    counts: dict[str, int] = {}
    before = ""
    for _, line in _prose(document):
        heading = _HEADING.match(line)
        title = heading[1] if heading else before if before.strip() and _UNDERLINE.match(line) else None
        if title is not None:
            name = _slug(title)
            seen = counts.get(name, 0)
            counts[name] = seen + 1
            found.add(f"{name}-{seen}" if seen else name)
        found.update(match[1] for match in _HTML_ANCHOR.finditer(_CODE.sub("", line)))
        before = "" if heading else line
    return frozenset(found)


def _slug(title: str) -> str:
    """Lower case, without punctuation, with hyphens for spaces.

    >>> _slug("What `semel run` does, and why")
    'what-semel-run-does-and-why'
    """
    shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)
    shown = re.sub(r"(?<![\w`])([*_]{1,3})(\S.*?)\1(?![\w`])", r"\2", shown)
    return re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")


def _prose(document: Path) -> Iterator[tuple[int, str]]:
    """The lines of a document, numbered, without its fenced blocks."""
    fence = ""
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), start=1):
        match = _FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
        elif match:
            fence = match[1]
        else:
            yield number, line


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
