"""The pages under docs: the generated ones are current, links lead somewhere, and flags that are named exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from outrider.config import OPTION_GROUPS, option_specs
from scripts.generate_reference import FOLDER, pages

ROOT = Path(__file__).parent.parent
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
FOREIGN_FLAGS = {"--dry-run", "--help", "--json"}  # of our scripts, and of commands rather than of options


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", ["api.md", "commands.md", "errors.md", "options.md"])
def test_a_generated_page_is_current(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == pages()[name], "run `make docs`"


def test_there_are_no_other_generated_pages() -> None:
    assert sorted(page.name for page in FOLDER.iterdir()) == sorted(pages())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        linked = (page.parent / file) if file else page
        if not linked.exists() or (anchor and anchor not in anchors(linked)):
            dead.append(target)
    assert dead == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_flags_that_are_named_exist(page: Path) -> None:
    flags = {flag for group in OPTION_GROUPS for _, spec in option_specs(group) for flag in spec.flags} | FOREIGN_FLAGS
    flags |= set(re.findall(r"`(--[a-z-]+)`", pages()["commands.md"]))
    named = re.findall(r"`(--[a-z][a-z-]*)", page.read_text(encoding="utf-8"))
    assert sorted(set(named) - flags) == []


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    for page in sorted(folder.glob("0*.md")):
        number, title = re.match(r"# (\d{4}): (.+)", page.read_text(encoding="utf-8")).groups()  # type: ignore[union-attr]
        assert f"| [{number}]({page.name}) | {title} |" in index
