"""Every link between the pages of the project leads to a file, and to a heading, that is there."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The fragments by which GitHub links the page's headings."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        name, _, fragment = link.partition("#")
        target = Path(os.path.normpath(page.parent / name)) if name else page
        if "://" not in link and not (
            target.exists() and (not fragment or fragment in anchors(target))
        ):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_its_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_missing_file_and_a_missing_heading_are_broken_links(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# A title, of `b`\n", encoding="utf-8")
    page = tmp_path / "a.md"
    page.write_text(
        "## Here\n[1](b.md#a-title-of-b) [2](b.md#gone) [3](c.md) [4](#here) [5](#there) [6](https://x.y/z)\n"
        "```\n# not a heading\n[7](d.md)\n```\n[8](#not-a-heading)\n",
        encoding="utf-8",
    )
    assert broken_links(page) == ["b.md#gone", "c.md", "#there", "#not-a-heading"]
