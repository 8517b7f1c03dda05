"""The documents' links: the check itself, and the documents as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def check(root: Path) -> tuple[int, str]:
    command = [sys.executable, str(ROOT / "docs" / "check_links.py"), str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_the_documents_have_no_broken_links() -> None:
    status, output = check(ROOT)
    assert status == 0, output


@pytest.mark.parametrize(
    "link",
    [
        "[a](docs/other.md)",
        "[a](docs/other.md#second-part-what-semel-run-does)",
        "[a](docs/other.md#twice-1)",
        "[a](docs/other.md#underlined)",
        "[a](docs/other.md#by-hand)",
        "[a](#here)",
        '[a](docs/other.md "a title")',
        "[a](<docs/with space.md>)",
        "[a](docs/with%20space.md)",
        "[a](docs)",
        "![a](docs/picture.png)",
        "[a](docs/code.py#L3-L5)",
        "[a](https://example.org/nothing#there)",
        "[a](mailto:a@example.org)",
        "`[a](nowhere.md)`",
        "```\n[a](nowhere.md)\n```",
        "~~~~ md\n```\n[a](nowhere.md)\n~~~~",
        '<a href="docs/other.md">a</a>',
    ],
)
def test_a_good_link_passes(tmp_path: Path, link: str) -> None:
    _write(tmp_path, link)
    assert check(tmp_path)[0] == 0


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        ("[a](nowhere.md)", "nowhere.md: does not exist"),
        ("[a](docs/other.md#nothing)", "docs/other.md#nothing: has no heading #nothing"),
        ("[a](docs/other.md#twice-2)", "has no heading #twice-2"),
        ("[a](docs/other.md#in-a-block)", "has no heading #in-a-block"),
        ("[a](#nothing)", "#nothing: has no heading #nothing"),
        ("[a](docs/code.py#part)", "has no heading #part"),
        ("[a](../outside.md)", "leads out of the project"),
        ("[a](/docs/other.md)", "must be relative"),
        ("[a]()", "is empty"),
        ("![a](docs/nothing.png)", "docs/nothing.png: does not exist"),
        ("[a]: nowhere.md", "nowhere.md: does not exist"),
        ('<img src="docs/nothing.png">', "docs/nothing.png: does not exist"),
        ("[a](docs/other.md) and [b](nowhere.md)", "nowhere.md: does not exist"),
        ("[![a](docs/picture.png)](nowhere.md)", "nowhere.md: does not exist"),
    ],
)
def test_a_broken_link_is_named_with_its_place(tmp_path: Path, link: str, reason: str) -> None:
    _write(tmp_path, link)
    status, output = check(tmp_path)
    assert status == 1
    assert output.startswith("README.md:5: ")
    assert reason in output


def test_documents_in_folders_count_from_where_they_lie(tmp_path: Path) -> None:
    _write(tmp_path, "")
    (tmp_path / "docs" / "deep").mkdir()
    (tmp_path / "docs" / "deep" / "page.md").write_text("[up](../other.md) [root](../../README.md#here) [x](y.md)\n")
    status, output = check(tmp_path)
    assert status == 1
    assert output.splitlines()[0] == "docs/deep/page.md:1: y.md: does not exist"
    assert output.splitlines()[1:] == ["4 documents, 1 broken links"]


def _write(root: Path, text: str) -> None:
    (root / "docs").mkdir()
    (root / "docs" / "picture.png").write_bytes(b"")
    (root / "docs" / "code.py").write_text("")
    (root / "docs" / "with space.md").write_text("")
    (root / "README.md").write_text(f"# Title\n\n## Here\n\n{text}\n")
    (root / "docs" / "other.md").write_text(
        "# Other\n\n## Second part: what `semel run` does\n\n## Twice\n\n## Twice\n\nUnderlined\n---\n\n"
        '<a id="by-hand"></a>\n\n```\n# In a block\n```\n'
    )
