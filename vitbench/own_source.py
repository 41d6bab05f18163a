"""Own source: the text of a component that a script, a notebook or a module of the user's own defines.

Trials run in processes of their own, which import such a component from a text. Of a script or a notebook that text
must not run a study again, so it has the definitions alone that components use.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from pathlib import Path

NOTEBOOK = Path("notebook.py").resolve()  # By which a notebook's components are known; there need not be such a file


def source_of(module: str) -> tuple[Path, str] | None:
    """File and text of an imported module; of a script or a notebook, its definitions. None where nothing has them."""
    file = getattr(sys.modules.get(module), "__file__", None)
    try:
        if module != "__main__":
            return (Path(file).resolve(), Path(file).read_text(encoding="utf-8")) if file else None
        texts = texts_of_main()
    except (OSError, UnicodeDecodeError):
        return None
    return (Path(file).resolve() if file else NOTEBOOK, definitions(texts)) if texts else None


def texts_of_main() -> list[str]:
    """The script's text, or the notebook's cells so far; empty at a prompt. Raises OSError, UnicodeDecodeError."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    return _notebook() if file is None else [Path(file).read_text(encoding="utf-8")]


def definitions(texts: Iterable[str]) -> str:
    """Imports, and the functions, classes and plain values that components use; of what is defined again, the last.

    Texts that are no Python, such as a notebook's cell of another language, are left out.
    """
    script, kept = _Script(texts), dict[str, tuple[str, set[str]]]()
    components = {name for name, node in script.bound.items() if _is_component(node)}
    used, imports = components.union(*map(script.reached, components)), (ast.Import, ast.ImportFrom)
    used |= {name for name, node in script.bound.items() if isinstance(node, imports)}
    for node, text in script.statements:
        names, changed = _names(node), _changed(node)
        if not _is_kept(node) or used.isdisjoint(names | changed):
            continue
        key = ", ".join(sorted(names)) if names and not isinstance(node, imports) else text
        kept = {other: each for other, each in kept.items() if other != key and names.isdisjoint(each[1])}
        kept[key] = text, changed
    return "\n\n".join(text for text, _ in kept.values()) + "\n"


def set_by_running(texts: Iterable[str], definition: str) -> list[str]:
    """Names that a definition uses, itself or through others, and that are set by code that runs: a call, a loop, …"""
    script = _Script(texts)
    return sorted(
        name for name in script.reached(definition) if name not in script.bound or not _is_kept(script.bound[name])
    )


class _Script:
    """The statements of some texts, and for each name the last that sets it, or that runs and changes it in place."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.statements: list[tuple[ast.stmt, str]] = []
        self.bound: dict[str, ast.stmt] = {}
        for text in texts:
            try:
                nodes = ast.parse(text).body
            except SyntaxError:  # a notebook's cell of another language
                continue
            lines = text.splitlines(keepends=True)
            for node in nodes:
                first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
                self.statements.append((node, "".join(lines[first - 1 : node.end_lineno]).rstrip("\n")))
                changed = {name for name in _changed(node) if _is_container(self.bound.get(name))}
                self.bound |= dict.fromkeys(_names(node) if _is_kept(node) else _names(node) | changed, node)

    def reached(self, definition: str) -> set[str]:
        """Names that a definition uses, itself or through others, and its own."""
        reached, left = {definition}, [definition]
        while left:
            used = _loads(self.bound[name]) if (name := left.pop()) in self.bound else set[str]()
            left += (new := (used & self.bound.keys()) - reached)
            reached |= new
        return reached


def _is_component(node: ast.stmt) -> bool:
    calls = [each.func for each in getattr(node, "decorator_list", ()) if isinstance(each, ast.Call)]
    return any(ast.unparse(each).split(".")[-1] == "component" for each in calls)


def _is_kept(node: ast.stmt) -> bool:
    """Whether it defines, imports or sets a plain value, or does such where an import fails or for types alone."""
    match node:
        case ast.FunctionDef() | ast.ClassDef() | ast.Import() | ast.ImportFrom() | ast.Pass():
            return True
        case ast.Assign() | ast.AnnAssign():
            return not any(isinstance(each, ast.Call) for each in ast.walk(node))
        case ast.Try():
            handled = [each for part in node.handlers for each in part.body]
            return all(map(_is_kept, [*node.body, *handled, *node.orelse, *node.finalbody]))
        case ast.If():
            return "TYPE_CHECKING" in ast.unparse(node.test) and all(map(_is_kept, [*node.body, *node.orelse]))
    return False


def _names(node: ast.AST) -> set[str]:
    """Names that a statement defines, imports or assigns, but for those inside functions and classes."""
    match node:
        case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
            return {node.name}
        case ast.Import() | ast.ImportFrom():
            return {each.asname or each.name.partition(".")[0] for each in node.names}
        case ast.Name(ctx=ast.Store()):
            return {node.id}
        case ast.comprehension():
            return set()
    return set[str]().union(*map(_names, ast.iter_child_nodes(node)))


def _changed(node: ast.stmt) -> set[str]:
    """Names of what a statement changes in place: ``powers.append(3)``, ``sizes["small"] = 2``."""
    match node:
        case ast.Expr(ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return {name}
        case ast.Assign():
            inner = [each.value for each in node.targets if isinstance(each, ast.Attribute | ast.Subscript)]
            return {each.id for each in inner if isinstance(each, ast.Name)}
    return set()


def _is_container(node: ast.stmt | None) -> bool:
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    return isinstance(value, ast.List | ast.Dict | ast.Set)


def _loads(node: ast.stmt) -> set[str]:
    """Names that a statement uses of what is outside it."""
    names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
    own = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        own |= {each.id for each in names if isinstance(each.ctx, ast.Store)}
    return {each.id for each in names if isinstance(each.ctx, ast.Load)} - own


def _notebook() -> list[str]:
    """The cells that have been run so far, the one that runs now included."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return list(shell.history_manager.input_hist_parsed) if shell is not None else []
