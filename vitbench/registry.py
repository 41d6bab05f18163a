"""Slots, the names that fill them, and the facts of each component, without importing torch.

The tree ``vitbench/components/<slot>/<name>.py`` is the registry. Names are file names. Facts are the literal
arguments of the file's ``@component(...)`` and are read from its source text, so that planning a study and listing
what there is need neither torch nor the component's own packages; building a component imports its file.
A plug-in (``--plugin FILE.py``) adds components of the user's own; it says its slot and name in the decorator.
"""

import functools
import hashlib
import importlib
import importlib.machinery
import importlib.util
import inspect
import linecache
import re
import sys
import traceback
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from vitbench.component_facts import DEVICES, DTYPES, FactError, Facts, facts_in
from vitbench.errors import UserError
from vitbench.options import Value, listed_options, options_of
from vitbench.own_source import NOTEBOOK, set_by_running, source_of, texts_of_main
from vitbench.wording import encoded, nearest

COMPONENTS = Path(__file__).parent / "components"
PLUGIN = "vitbench_plugin_"  # Begins the names of modules that plug-ins are imported as
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
DEVICE_FILES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{i}" for port in ("com", "lpt") for i in range(1, 10))})
"""Names that Windows keeps for devices, with any suffix: no folder can be called so."""

Class = TypeVar("Class", bound=type)


class UnknownComponent(UserError, ValueError):
    """A name that is not a component of its slot. The message gives the nearest and the known names."""


class PluginError(UserError, ValueError):
    """A plug-in that cannot be used: missing, failing on import, or registering a name that exists."""


@dataclass(frozen=True, eq=False)
class Plugin:
    """A file of the user's own, as it was when it was read; what becomes of the file later changes nothing here."""

    path: Path
    text: str

    @functools.cached_property
    def digest(self) -> str:
        """Hash of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]


class _AsRead(importlib.machinery.SourceFileLoader):
    """Imports a plug-in from the text that was read of it, and keeps no bytecode."""

    def __init__(self, module_name: str, plugin: Plugin) -> None:
        super().__init__(module_name, str(plugin.path))
        self.plugin = plugin

    def get_code(self, fullname: str) -> types.CodeType:
        """The text, compiled."""
        return self.source_to_code(self.plugin.text, self.path)


_classes: dict[tuple[str, str], type] = {}
_plugin_facts: dict[tuple[str, str], Facts] = {}
_plugin_files: dict[tuple[str, str], Plugin] = {}


def component(
    *,
    source: str,
    slot: str | None = None,
    name: str | None = None,
    exact: bool = False,
    reference: bool = False,
    devices: tuple[str, ...] = DEVICES,
    trains_on: tuple[str, ...] | None = None,
    dtypes: tuple[str, ...] = DTYPES,
    packages: tuple[str, ...] = (),
    offers: tuple[str, ...] = (),
    needs: Mapping[str, str] | None = None,
    multiple_of: Mapping[str, int | str] | None = None,
    among: Mapping[str, tuple[int, ...]] | None = None,
    at_least: Mapping[str, Mapping[str, int]] | None = None,
    empty: bool = False,
    whole: bool = False,
    vmap: bool | str = True,
    flops: Mapping[str, int] | None = None,
    every_patch: bool = False,
    one_size: bool = False,
    prefix: int = 0,
    vectors: int = 1,
    removes: str = "",
    options: Mapping[str, Any] | None = None,
) -> Callable[[Class], Class]:
    """Register the decorated class as a component; the arguments are its :class:`Facts` and must be literals.

    Inside ``vitbench/components`` the slot is the folder and the name the file. A plug-in gives both, and so does a
    class in a script, in a cell of a notebook or in a module that they import, which is a plug-in from then on.

    Raises:
        PluginError: where such a class is no component, or has no text from which its trials could import it.
    """

    def register(cls: Class) -> Class:
        parts = cls.__module__.split(".")
        where = (slot, name) if slot and name else (parts[-2], parts[-1])
        if slot and name and not cls.__module__.startswith(PLUGIN):
            _plug_in(cls, slot, name)
        _classes[where] = cls  # both are given or neither: `_declared` refuses the rest
        return cls

    return register


def _plug_in(cls: type, slot: str, name: str) -> None:
    """Take a component of a running script, notebook or module for one of a plug-in. Raises PluginError."""
    if (source := source_of(cls.__module__)) is None:
        raise PluginError(
            f'{slot} "{name}": the processes of its trials cannot import what is typed at a prompt; write it into a '
            f"file and import that"
        )
    if cls.__module__ == "__main__" and (unset := set_by_running(texts_of_main(), cls.__name__)):
        raise PluginError(
            f'{slot} "{name}" uses {", ".join(unset)}, set by code that runs, such as a call, a loop or an if: of a '
            "script or a notebook trials have the imports, functions, classes and plain values alone. Set it inside "
            "the class, or put both into a module and import that"
        )
    plugin = Plugin(*source)
    declared = {each[:2]: each[3] for each in _declared(plugin)}
    _plugin_facts[slot, name] = declared[slot, name]
    for where in [*(each for each in of_plugin(plugin.path) if each in declared), (slot, name)]:
        _plugin_files[where] = plugin  # a notebook's text grows from cell to cell


def read_notebook_again() -> None:
    """Take components of a running notebook with what its later cells have made of what they use.

    Raises:
        PluginError: where that is set by code that runs.
    """
    for (slot, name), plugin in _plugin_files.items():
        if plugin.path == NOTEBOOK and _classes[slot, name].__module__ == "__main__":
            _plug_in(_classes[slot, name], slot, name)


@functools.cache
def _tree() -> Mapping[str, tuple[str, ...]]:
    """Slot → names of the components that ship with vitbench, as the folders and files are."""
    folders = (p for p in sorted(COMPONENTS.iterdir()) if p.is_dir() and not p.name.startswith("_"))
    return {p.name: tuple(f.stem for f in sorted(p.glob("*.py")) if not f.name.startswith("_")) for p in folders}


def slots() -> tuple[str, ...]:
    """Names of the slots: the folders of ``vitbench/components``."""
    return tuple(_tree())


def names(slot: str) -> tuple[str, ...]:
    """Names of the components of a slot, plug-ins included, in alphabetical order."""
    if slot not in _tree():
        raise UnknownComponent(f'"{slot}" is not a slot{nearest(slot, slots())}')
    return tuple(sorted([*_tree()[slot], *(n for s, n in _plugin_facts if s == slot)]))


def facts(slot: str, name: str) -> Facts:
    """The facts of one component, read from its source; options that follow its name change none. Raises
    UnknownComponent.
    """
    where = slot, name.partition("(")[0]
    return _plugin_facts.get(where) or _in_tree_facts(*where)


def load(slot: str, name: str) -> type:
    """The class of one component; imports its file. Raises UnknownComponent."""
    check_name(slot, name)
    name = name.partition("(")[0]
    if (slot, name) not in _classes:
        importlib.import_module(f"vitbench.components.{slot}.{name}")
    return _classes[slot, name]


def chosen(slot: str, name: str) -> Callable[..., Any]:
    """A component's class, its options bound; it takes a spec. Raises UnknownComponent."""
    cls, options = load(slot, name), settings(slot, name)
    return functools.partial(cls, **options) if options else cls


def vmap(slot: str, name: str) -> bool:
    """Whether several models with a component, of these options, can run as one program."""
    given = facts(slot, name).vmap
    return given if isinstance(given, bool) else given not in options_of(name)


def settings(slot: str, name: str) -> dict[str, Value]:
    """Every option of a component, as given behind its name or at its default."""
    known = facts(slot, name).checked_options
    given = options_of(name) if known else {}
    return {option: each.checked(given.get(option, each.default)) for option, each in known.items()}


def with_options(slot: str, name: str, options: Mapping[str, Any]) -> str:
    """A component's name with options behind it, in alphabetical order and those at their default left out.

    Options that the name has already stay, unless they are given anew.

    Raises:
        UnknownComponent: where the slot has no such component, or it has no such option.
    """
    base = name.partition("(")[0]
    check_name(slot, base)
    if not (asked := {**options_of(name), **options}):
        return base
    known, changed = facts(slot, base).checked_options, dict[str, Value]()
    for option, given in sorted(asked.items()):
        if option not in known:
            has = f"; it has {', '.join(known)}" if known else ""
            raise UnknownComponent(f'{slot} "{base}" has no option "{option}"{nearest(option, known)}{has}')
        try:
            value = known[option].checked(given)
        except ValueError as error:
            raise UnknownComponent(f"{slot}.{option} {error}") from error
        if value != known[option].default:
            changed[option] = value
    return f"{base}({listed_options(changed)})" if changed else base


def option_problem(slot: str, option: str, given: object) -> str | None:
    """Why no component of a slot can have an option at a value, or None."""
    known = {n: each.checked_options[option] for n in names(slot) if option in (each := facts(slot, n)).options}
    problems = []
    for default in known.values():
        try:
            default.checked(given)
        except ValueError as error:
            problems.append(str(error))
    if not known:
        options = {option for n in names(slot) for option in facts(slot, n).options}
        return f"no component of {slot} has such an option{nearest(option, options)}"
    return problems[0] if len(problems) == len(known) else None


def reference(slot: str) -> str | None:
    """Name of the component that the exact ones of a slot are compared with; None where the slot has none."""
    return next((n for n in names(slot) if facts(slot, n).reference), None)


def check_name(slot: str, name: str) -> None:
    """Raise UnknownComponent, with the nearest and all known names, unless the slot has this component."""
    name = name.partition("(")[0]
    if name not in _tree().get(slot, ()) and (slot, name) not in _plugin_facts:
        known = names(slot)
        raise UnknownComponent(
            f'"{name}" is not a component of this slot{nearest(name, known)}; known: {", ".join(known)}; '
            "one of a plug-in needs --plugin FILE.py"
        )


def name_problem(name: str) -> str | None:
    """Why a text is no name for a component or a study, which are names of files and folders; None if it is one."""
    if not NAME.fullmatch(name):
        text = name if len(name) <= 80 else f"{name[:77]}..."
        return f'"{text}" is not a name: letters, digits, ".", "_", "-", at most 64, the first a letter or a digit'
    if name.partition(".")[0].lower() in DEVICE_FILES:
        return f'"{name}" is not a name: Windows keeps it for a device'
    return None


def load_plugin(path: Path, text: str | None = None) -> None:
    """Import a file of the user's own and register its components. Loading the same file again does nothing.

    A plug-in is code and runs with the rights of the user: it is trusted.

    Args:
        path: of the file.
        text: of it, where that has been read already: the file is then not looked at.

    Raises:
        PluginError: with the file, and the line where there is one.
    """
    path = path.resolve()
    if any(path == plugin.path for plugin in plugins()):
        return
    plugin = Plugin(path, _text_of(path) if text is None else text)
    declared = _declared(plugin)
    before = dict(_classes)
    module_name = f"{PLUGIN}{path.stem}_{hashlib.sha256(encoded(str(path))).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(module_name, path, loader=_AsRead(module_name, plugin))
    assert spec is not None and spec.loader is not None
    module = sys.modules[module_name] = importlib.util.module_from_spec(spec)
    # Tracebacks and inspect show the text that runs, whatever the file holds by then.
    linecache.cache[str(path)] = len(plugin.text), None, plugin.text.splitlines(keepends=True), str(path)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        _classes.clear()
        _classes.update(before)
        del sys.modules[module_name]
        if not isinstance(error, (Exception, SystemExit)):  # a plug-in that exits would end the run with its status
            raise
        raise PluginError(f"{place_in(path, error) or f'{path}:1'}: {type(error).__name__}: {error}") from error
    for slot, name, _, own_facts in declared:
        assert slot is not None and name is not None
        _plugin_facts[slot, name] = own_facts
        _plugin_files[slot, name] = plugin


def place_in(path: Path, error: BaseException) -> str:
    """The last line of a file that an error came through, as file:line; empty where it came through none."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else ""


def unbuildable(components: Mapping[str, str], error: Exception) -> PluginError:
    """Error of a model that cannot be built, with file and line of the plug-in that one of its components comes from.

    Args:
        components: slot → name of those that come from plug-ins.
        error: what building the model raised.
    """
    files = {where: _plugin_files[where].path for where in _bare(components)}
    place = next(filter(None, (place_in(path, error) for path in files.values())), "")
    if not place:  # the call itself does not fit the constructor
        (where, path), *_ = files.items()
        place = f"{path}:{inspect.getsourcelines(_classes[where])[1]}"
    names = " or ".join(f'{slot} "{name}"' for slot, name in files)
    return PluginError(f"{place}: {names} cannot be built: {type(error).__name__}: {error}")


def _text_of(path: Path) -> str:
    """The text of a plug-in's file. Raises PluginError."""
    if not path.is_file():
        raise PluginError(f"{path}: no such file")
    if path.suffix != ".py":
        raise PluginError(f"{path}: a plug-in is a Python file, *.py")
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # no UTF-8 text
        raise PluginError(f"{path}: {str(error) or type(error).__name__}") from error


def _declared(plugin: Plugin) -> list[tuple[str | None, str | None, int, Facts]]:
    """The components that a plug-in registers, read and checked before any of it runs. Raises PluginError."""
    path = plugin.path
    try:
        components = facts_in(path, plugin.text)
    except SyntaxError as error:
        raise PluginError(f"{path}:{error.lineno or 1}: {error.msg}") from error
    except FactError as error:
        raise PluginError(str(error)) from error
    except (ValueError, RecursionError, MemoryError) as error:  # a null byte, nested too deep
        raise PluginError(f"{path}: {str(error) or type(error).__name__}") from error
    if not components:
        raise PluginError(
            f"{path}: registers no component; decorate a class with @vitbench.component(...), "
            "at the top level of the file"
        )
    references = {slot: name for slot, name, _, facts in reversed(components) if facts.reference}
    for slot, name, line, facts in components:
        if slot is None or name is None:
            raise PluginError(f"{path}:{line}: a plug-in's component must give slot=... and name=...")
        if slot not in slots():
            raise PluginError(f'{path}:{line}: "{slot}" is not a slot{nearest(slot, slots())}')
        if problem := name_problem(name):
            raise PluginError(f"{path}:{line}: {problem}")
        earlier = _plugin_files.get((slot, name))
        taken = name in _tree()[slot] or (earlier is not None and earlier.path != path)
        if taken or [each[:2] for each in components].count((slot, name)) > 1:
            where = f", in {earlier.path}" if earlier is not None and earlier.path != path else ""
            raise PluginError(f'{path}:{line}: {slot} "{name}" exists already{where}')
        if facts.exact:
            known = reference(slot)
            compared = references.get(slot) if known is None or (slot, known) in of_plugin(path) else known
            if compared is None:
                raise PluginError(
                    f"{path}:{line}: exact=True, but {slot} has no reference that it could be compared with"
                )
            if facts.reference and name != compared:
                raise PluginError(f'{path}:{line}: reference=True, but the reference of {slot} is "{compared}"')
    return components


def plugins(components: Mapping[str, str] | None = None) -> tuple[Plugin, ...]:
    """The plug-ins loaded so far; of some components (slot → name), those that they come from."""
    wanted = _plugin_files if components is None else _bare(components)
    return tuple(dict.fromkeys(_plugin_files[where] for where in wanted if where in _plugin_files))


def _bare(components: Mapping[str, str]) -> list[tuple[str, str]]:
    """(slot, name) of some components, without the options behind the names."""
    return [(slot, name.partition("(")[0]) for slot, name in components.items()]


def of_plugin(path: Path) -> list[tuple[str, str]]:
    """(slot, name) of the components that a loaded plug-in has registered."""
    return [where for where, plugin in _plugin_files.items() if plugin.path == path.resolve()]


def digests(components: Mapping[str, str]) -> dict[str, str]:
    """``slot.name`` of the components that come from plug-ins → digest of the plug-in's text."""
    return {".".join(where): _plugin_files[where].digest for where in _bare(components) if where in _plugin_files}


@functools.cache
def _in_tree_facts(slot: str, name: str) -> Facts:
    check_name(slot, name)
    path = COMPONENTS / slot / f"{name}.py"
    components = facts_in(path, path.read_text(encoding="utf-8"))
    if len(components) != 1 or components[0][:2] != (None, None):
        raise ValueError(f"{path}: holds {len(components)} components; one, without slot and name, is the rule")
    return components[0][3]
