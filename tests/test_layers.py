"""Imports run downwards only; some modules import neither torch nor triton."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import vitbench
from tests.small import SUITE

PACKAGE = Path(vitbench.__file__).parent

# Upper layers first; modules of one layer may import one another.
LAYERS = (
    {"__main__"},
    {"cli"},
    {"report"},
    {"analysis"},
    {"runner"},
    {"training", "timing", "explaining"},
    {"model", "data"},
    {"ceilings", "clock", "devices"},
    {"components"},
    {"kernels"},
    {"store", "config", "registry", "component_facts", "environment", "streams", "errors", "memory", "options",
     "own_source", "processes", "wording"},
)  # fmt: skip
INTERFACE = {"api", "interactive", "stats", "vitbench"}
"""The package itself and its Python interface: lazy, and imported by plug-ins."""
WITHOUT_TORCH = ("report", "analysis", "cli", *sorted(LAYERS[-1]))
LAZY_TORCH = {"environment"}  # asks torch for the GPU's name, in a process that has it loaded


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield parts[0] if parts[0] != "__init__" else "vitbench", path


def imports(path: Path, *, top_level: bool = False) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    for node in tree.body if top_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer(name: str) -> int:
    (index,) = (i for i, names in enumerate(LAYERS) if name in names)
    return index


PEERS = {("analysis", "runner"), ("training", "timing"), ("timing", "training")}
"""Rooms that stand side by side: the first does not import the second, whatever their order."""


def test_statistics_stand_on_no_runner_and_training_and_timing_on_neither() -> None:
    imported = {
        (name, module.split(".")[1])
        for name, path in modules()
        for module in imports(path)
        if module.startswith("vitbench.")
    }
    assert not PEERS & imported


def test_terminals_are_written_to_by_the_command_line_alone() -> None:
    """Everything that is printed is in ``cli``; a report's form for a terminal hands over what it would print."""
    using = {
        path.relative_to(PACKAGE).as_posix()
        for name, path in modules()
        if name != "cli" and any(module.split(".")[0] == "rich" for module in imports(path))
    }
    assert using <= {"report/formats/terminal.py"}


def test_every_module_has_a_layer() -> None:
    placed = set().union(*LAYERS) | INTERFACE
    assert {name for name, _ in modules()} == placed


@pytest.mark.parametrize(("name", "path"), [(n, p) for n, p in modules() if n not in INTERFACE])
def test_imports_run_downwards(name: str, path: Path) -> None:
    for module in imports(path):
        parts = module.split(".")
        if parts[0] != "vitbench" or len(parts) == 1:
            continue
        assert parts[1] not in INTERFACE, f"{path}: imports the package's interface"
        assert layer(name) <= layer(parts[1]), f"{path}: {name} imports {module}, which is above it"


def test_triton_is_imported_by_kernels_alone() -> None:
    for name, path in modules():
        if name != "kernels":
            assert not [m for m in imports(path) if m.split(".")[0] == "triton"], path


@pytest.mark.parametrize("name", WITHOUT_TORCH)
def test_no_torch_above_the_models(name: str) -> None:
    for module, path in modules():
        if module == name:
            used = {m.split(".")[0] for m in imports(path, top_level=name in LAZY_TORCH)}
            assert not used & {"torch", "torchvision", "triton"}, path


def test_no_component_is_compared_by_name() -> None:
    from vitbench import registry

    known = {name for slot in registry.slots() for name in registry.names(slot)}
    for _, path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                constants = {c.value for c in ast.walk(node) if isinstance(c, ast.Constant)}
                assert not constants & known, f"{path}:{node.lineno}: compares a component's name"


def test_no_name_of_a_module_or_a_class_has_two_meanings() -> None:
    """A component's file is named by its slot, too: ``norm/none.py`` and ``bias/none.py``."""
    named = [path for name, path in modules() if path.stem != "__init__" and name != "components"]
    named += sorted((PACKAGE.parent / "tools").glob("*.py"))
    classes = [
        node.name
        for path in named
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    public = Counter(path.stem for path in named if path.stem != "__main__") + Counter(classes)
    assert [name for name, number in public.items() if number > 1] == []


@pytest.mark.parametrize(
    "module", ["vitbench", "vitbench.cli.main", "vitbench.cli.overview", "vitbench.analysis.frames"]
)
def test_importing_does_not_load_torch(module: str) -> None:
    code = f"import sys, {module}; print(sorted({{'torch', 'triton'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_driver_does_not_load_torch(tmp_path: Path) -> None:
    """Nor what judges timings, where there are none: its trials have torch from the server that forks them."""
    (suite := tmp_path / "small.toml").write_text(SUITE)
    arguments = ["run", str(suite), "--results", str(tmp_path / "study"), "--device", "cpu"]
    (script := tmp_path / "script.py").write_text(
        "import sys\nfrom vitbench.cli.main import cli\n"
        f"if __name__ == '__main__':\n    status = cli.main({arguments!r}, standalone_mode=False)\n"
        "    print(status, sorted({'torch', 'triton', 'pandas'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"


VAGUE = {"found", "said", "told", "mine", "shown"}
NOT_ALONE = re.compile(r"(The same|Of|What .* (is|are)) ")


def test_local_names_say_what_they_hold_and_docstrings_can_be_read_alone() -> None:
    for path in (path for folder in ("vitbench", "tools", "tests") for path in (PACKAGE.parent / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
                stored |= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
                assert not stored & VAGUE, f"{path}: {node.name}"
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                assert not NOT_ALONE.match(ast.get_docstring(node) or ""), f"{path}: {ast.get_docstring(node)}"


def test_packages_hold_no_code_in_init() -> None:
    for path in PACKAGE.rglob("__init__.py"):
        for node in ast.parse(path.read_text()).body:
            docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            exports = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
            assert docstring or exports or isinstance(node, (ast.Import, ast.ImportFrom)), f"{path}:{node.lineno}"
