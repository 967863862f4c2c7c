"""The layers of docs/architecture.md, and proof that the checker would notice a violation."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from tests.layers import LAYERS, Tree, forbidden_reach, outside_room, unplaced, upward

ROOT = Path(__file__).parent.parent
TEXTLESS = {"text", "server", "cli", "native", "llama", "testing", "api", "models"}
HEAVY = ("llama_cpp", "huggingface_hub", "httpx2", "filelock", "jinja2", "numpy", "rich")


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree(ROOT / "src" / "outrider")


def plant(folder: Path, files: dict[str, str]) -> Tree:
    """A package named outrider with these files."""
    package = folder / "outrider"
    for name, text in {"__init__.py": "", **files}.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Tree(package)


def test_every_room_has_a_layer(tree: Tree) -> None:
    assert unplaced(tree) == []


def test_architecture_page_draws_every_room(tree: Tree) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    drawn = dict(re.findall(r"^ +(\d)  (.*)$", page, re.MULTILINE))
    rooms = {tree.room(module) for module in tree.files} - {"__init__", "__main__"}
    assert [room for room in sorted(rooms) if room not in re.findall(r"\w+", drawn[str(LAYERS[room])])] == []


def test_imports_go_down_only(tree: Tree) -> None:
    assert upward(tree) == []


def test_no_modules_import_each_other(tree: Tree) -> None:
    assert tree.cycles() == []


def test_engine_knows_token_ids_only(tree: Tree) -> None:
    assert forbidden_reach(tree, "outrider.engine", TEXTLESS, {"ctypes", "llama_cpp", "jinja2", "tokenizers"}) == []


def test_llama_cpp_stays_in_its_adapter(tree: Tree) -> None:
    assert outside_room(tree, "llama_cpp", "llama") == []


def test_what_is_imported_is_declared_and_what_is_declared_is_imported(tree: Tree) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = project["dependencies"] + project["optional-dependencies"]["llama"]
    declared = {re.split(r"[>=<]", requirement)[0].replace("-", "_").lower() for requirement in requirements}
    names = {found.imported.partition(".")[0] for found in tree.external} - set(sys.stdlib_module_names)
    distributions = metadata.packages_distributions()
    imported = {distributions[name][0].replace("-", "_").lower() for name in names}
    assert imported == declared


def test_starting_the_command_line_loads_nothing_heavy() -> None:
    code = f"import sys, outrider.cli.main; print(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "src", capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_checker_sees_an_import_that_goes_up(tmp_path: Path) -> None:
    tree = plant(tmp_path, {"types.py": "from outrider.engine import Engine\n", "engine.py": "class Engine: ...\n"})
    assert upward(tree) == ["outrider.types:1 imports outrider.engine"]


@pytest.mark.parametrize(
    "hidden",
    [
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from outrider.cli import main\n",
        "def late() -> None:\n    import outrider.cli.main\n",
        "from .cli import main\n",
        "from . import cli\n",
        "import importlib\nimportlib.import_module('outrider.cli.main')\n",
    ],
    ids=["type checking", "inside a function", "relative", "from the package", "by a call"],
)
def test_checker_sees_hidden_imports(tmp_path: Path, hidden: str) -> None:
    tree = plant(tmp_path, {"engine.py": hidden, "cli/__init__.py": "", "cli/main.py": ""})
    assert len(upward(tree)) == 1


def test_checker_sees_a_cycle_inside_one_layer(tmp_path: Path) -> None:
    files = {"gguf.py": "import outrider.theory\n", "theory.py": "from outrider import metrics\n", "metrics.py": "import outrider.gguf\n"}
    tree = plant(tmp_path, files)
    assert upward(tree) == []
    assert tree.cycles() == [("outrider.gguf", "outrider.metrics", "outrider.theory")]


def test_checker_sees_a_cycle_through_a_package(tmp_path: Path) -> None:
    files = {"policy/__init__.py": "import outrider.gguf\n", "policy/fixed.py": "", "gguf.py": "from outrider.policy.fixed import x\n"}
    assert plant(tmp_path, files).cycles() == [("outrider.gguf", "outrider.policy")]


def test_checker_allows_one_way_inside_a_layer(tmp_path: Path) -> None:
    tree = plant(tmp_path, {"gguf.py": "import outrider.theory\n", "theory.py": "import outrider.types\n", "types.py": "import json\n"})
    assert (upward(tree), tree.cycles()) == ([], [])


def test_checker_follows_the_engine_through_others(tmp_path: Path) -> None:
    tree = plant(
        tmp_path, {"engine.py": "import outrider.rows\n", "rows.py": "import ctypes\nimport outrider.text\n", "text/__init__.py": ""}
    )
    assert forbidden_reach(tree, "outrider.engine", TEXTLESS, {"ctypes"}) == ["outrider.rows:1 imports ctypes", "outrider.text"]


def test_checker_sees_a_library_outside_its_room(tmp_path: Path) -> None:
    tree = plant(tmp_path, {"llama/model.py": "import llama_cpp\n", "api.py": "from llama_cpp import llama_cpp\n"})
    assert outside_room(tree, "llama_cpp", "llama") == ["outrider.api:1 imports llama_cpp"]


def test_checker_sees_a_room_without_a_layer(tmp_path: Path) -> None:
    assert unplaced(plant(tmp_path, {"attic.py": ""})) == ["attic"]
