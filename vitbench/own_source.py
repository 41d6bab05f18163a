"""Own source: the text of a component that a script, a notebook or a module of the user's own defines.

Trials run in processes of their own, which import such a component from a text. Of a script or a notebook that text
must not run a study again, so it has the definitions alone.
"""

from __future__ import annotations

import ast
import itertools
import sys
from collections.abc import Iterable
from pathlib import Path

NOTEBOOK = Path("notebook.py")  # Path by which a notebook's components are known; there need not be such a file


def source_of(module: str) -> tuple[Path, str] | None:
    """File and text of an imported module; of a script or a notebook, its definitions. None where nothing has them."""
    file = getattr(sys.modules.get(module), "__file__", None)
    try:
        if module != "__main__":
            return (Path(file).resolve(), Path(file).read_text(encoding="utf-8")) if file else None
        texts = texts_of_main()
    except (OSError, UnicodeDecodeError):
        return None
    return (Path(file or NOTEBOOK).resolve(), definitions(texts)) if texts else None


def texts_of_main() -> list[str]:
    """The script's text, or the notebook's cells so far; empty at a prompt. Raises OSError, UnicodeDecodeError."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    return _notebook() if file is None else [Path(file).read_text(encoding="utf-8")]


def definitions(texts: Iterable[str]) -> str:
    """Imports, functions, classes, and assignments that call nothing; of what is defined again, the last.

    Texts that are no Python, such as a notebook's cell of another language, are left out.
    """
    kept: dict[str, str] = {}
    for text in texts:
        lines = text.splitlines(keepends=True)
        for node in _statements(text):
            if (name := _defines(node)) is not None:
                kept.pop(name, None)
                first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
                kept[name] = "".join(lines[first - 1 : node.end_lineno]).rstrip("\n")
    return "\n\n".join(kept.values()) + "\n"


def set_by_calls(texts: Iterable[str], definition: str) -> list[str]:
    """Names that a definition uses, itself or through others, and that are no definitions, since a call sets them."""
    used, called = dict[str, set[str]](), set[str]()
    for node in itertools.chain.from_iterable(map(_statements, texts)):
        names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
        stored = {each.id for each in names if isinstance(each.ctx, ast.Store)}
        if (name := _defines(node)) is not None:
            own = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
            own |= stored if isinstance(node, ast.FunctionDef | ast.ClassDef) else set()
            used[name] = {each.id for each in names if isinstance(each.ctx, ast.Load)} - own
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            called |= stored
    reached, left = set[str](), [definition]
    while left:
        new = used.get(left.pop(), set()) - reached
        reached |= new
        left += new
    return sorted(reached & called - used.keys())


def _statements(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except SyntaxError:  # a notebook's cell of another language
        return []


def _defines(node: ast.stmt) -> str | None:
    """Name that a statement defines, or the text of an import; None for a statement that runs something."""
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            return node.name
        case ast.Import() | ast.ImportFrom():
            return ast.unparse(node)
        case ast.Assign() | ast.AnnAssign() if not any(isinstance(each, ast.Call) for each in ast.walk(node)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            return ", ".join(map(ast.unparse, targets))
    return None


def _notebook() -> list[str]:
    """The cells that have been run so far, the one that runs now included."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return list(shell.history_manager.input_hist_parsed) if shell is not None else []
