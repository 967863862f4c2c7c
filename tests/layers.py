"""Reads the imports of a source tree and finds those that docs/architecture.md forbids. Nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LAYERS: dict[str, int] = {
    name: layer
    for layer, names in enumerate(
        (
            "types errors config",
            "cpus gguf memory metrics policy sampling theory verify",
            "chat drafting engine exclusive generation model model_header result rows session stopwatch text",
            "native llama testing",
            "api backends bench cli loading models server tune __init__ __main__",
        )
    )
    for name in names.split()
}
"""Rooms of the package by layer, 0 at the bottom. A new room must be placed here and in docs/architecture.md."""


@dataclass(frozen=True, order=True)
class Import:
    """One import statement's target: `importer` and `imported` are dotted module names."""

    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


class Tree:
    """The modules of one package and everything that they import, type-checking-only and lazy imports included.

    Args:
        root: the package's folder.
    """

    def __init__(self, root: Path) -> None:
        self.package = root.name
        self.files = {module_name(root, path): path for path in sorted(root.rglob("*.py"))}
        self.imports = sorted(found for name in self.files for found in self._imports(name))

    def _imports(self, importer: str) -> Iterator[Import]:
        path = self.files[importer]
        package = importer if path.name == "__init__.py" else importer.rpartition(".")[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Import(importer, alias.name, node.lineno)
            elif isinstance(node, ast.ImportFrom):
                base = _absolute(package, node)
                for alias in node.names:
                    inner = f"{base}.{alias.name}"
                    yield Import(importer, inner if inner in self.files else base, node.lineno)
            elif isinstance(node, ast.Call) and (late := _imported_by_call(node)):
                yield Import(importer, late, node.lineno)

    @property
    def internal(self) -> list[Import]:
        """Imports of the package's own modules."""
        return [found for found in self.imports if found.imported.partition(".")[0] == self.package]

    @property
    def external(self) -> list[Import]:
        """All other imports."""
        return [found for found in self.imports if found.imported.partition(".")[0] != self.package]

    def room(self, module: str) -> str:
        """The first name below the package: what `LAYERS` places."""
        return module.split(".")[1] if "." in module else "__init__"

    def reachable(self, module: str) -> set[str]:
        """Everything that importing `module` leads to, itself included."""
        graph = self._graph()
        found, todo = {module}, [module]
        while todo:
            new = graph.get(todo.pop(), set()) - found
            found |= new
            todo += new
        return found

    def cycles(self) -> list[tuple[str, ...]]:
        """Groups of modules that reach each other."""
        reach = {module: self.reachable(module) for module in self.files}
        groups = {tuple(sorted(other for other in reach[module] if other in reach and module in reach[other])) for module in self.files}
        return sorted(group for group in groups if len(group) > 1)

    def _graph(self) -> dict[str, set[str]]:
        # Importing a.b.c runs a and a.b first; only packages that the importer is not itself inside count.
        graph: dict[str, set[str]] = {}
        for found in self.internal:
            outer = {parent for parent in _with_parents(found.imported) if parent in self.files}
            graph.setdefault(found.importer, set()).update(outer - set(_with_parents(found.importer)))
        return graph


def module_name(root: Path, path: Path) -> str:
    """Dotted name of a file below the package folder `root`."""
    parts = [root.name, *path.relative_to(root).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _with_parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts) + 1)]


def _absolute(package: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    base = ".".join(parts[: len(parts) - node.level + 1])
    return f"{base}.{node.module}" if node.module else base


def _imported_by_call(node: ast.Call) -> str | None:
    """The module that `importlib.import_module("...")` names, or None for any other call."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    argument = node.args[0] if node.args else None
    found = name == "import_module" and isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    return argument.value if found and isinstance(argument, ast.Constant) else None


def unplaced(tree: Tree) -> list[str]:
    """Rooms that no layer holds."""
    return sorted({tree.room(module) for module in tree.files} - set(LAYERS))


def upward(tree: Tree) -> list[str]:
    """Imports from a lower layer into a higher one."""
    return [str(found) for found in tree.internal if LAYERS[tree.room(found.imported)] > LAYERS[tree.room(found.importer)]]


def outside_room(tree: Tree, library: str, room: str) -> list[str]:
    """Imports of a library anywhere but in the one room that may know it."""
    return [str(found) for found in tree.external if found.imported.partition(".")[0] == library and tree.room(found.importer) != room]


def forbidden_reach(tree: Tree, module: str, rooms: set[str], libraries: set[str]) -> list[str]:
    """What `module` reaches, however indirectly, of rooms and libraries that it must not know."""
    reached = tree.reachable(module)
    inside = [name for name in reached if tree.room(name) in rooms]
    outside = [str(found) for found in tree.external if found.importer in reached and found.imported.partition(".")[0] in libraries]
    return sorted(inside + outside)
