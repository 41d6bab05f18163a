"""Results, reports and suites are data: nothing read is run, and no name is more than text wherever it is shown."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from xml.etree import ElementTree

import pytest

import vitbench
from tests.bad_input import files_of, suite_file
from tests.conftest import REPOSITORY
from tests.report.builders import CellPlan, Plan, build, render
from tests.report.markdown import Page, read_page
from tests.small import SUITE, record, train_trial
from tests.terminal import on_a_terminal
from tests.test_layers import imports
from vitbench.cli.console import Terminal, escape, visible
from vitbench.cli.main import main
from vitbench.cli.overview import print_status
from vitbench.config.suite import Hypothesis, Published
from vitbench.environment import fingerprint
from vitbench.store import StudyFolder
from vitbench.store.record import Record

PACKAGE = Path(vitbench.__file__).parent
HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{7*7}}", "{% include '/etc/passwd' %}", "[red]",
    "[/]", "[bold]x[/bold]", "[link=https://example.org]x[/link]", ":warning:", "\x1b[31mred", "\x1b]0;title\x07",
    "\x1b[2J\x1b[H", "\x9b31m", "\rover", "a|b", "`code`", "two\nlines", "=cmd()", "@x", "end\\", "\u202egnp.exe",
    "![x](https://example.org/x.png)", "https://example.org", 'a id="b" x="0.123456"', 'url(#p) href="#z"',
    "\\input{x}", "a--b ``c''",
)  # fmt: skip


def sources() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def packages(path: Path) -> set[str]:
    """Packages that a file imports, wherever in it."""
    return {name.split(".")[0] for name in imports(path)}


RUNS_WHAT_IT_READS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml",
                      "ruamel", "xmlrpc", "code", "codeop", "runpy"}  # fmt: skip
CALLS = {"eval", "exec", "compile", "__import__", "input", "breakpoint"}
"""Built-ins; `torch.compile` and `model.eval` are attributes, and others."""
ATTRIBUTES = {"load": {"torch", "np", "numpy", "pickle"}, "read_pickle": {"pd", "pandas"}, "system": {"os"},
              "popen": {"os"}, "load_state_dict_from_url": {"hub"}, "getoutput": {"subprocess"}}  # fmt: skip


def test_no_module_runs_what_it_reads() -> None:
    for path, tree in sources():
        assert not packages(path) & RUNS_WHAT_IT_READS, path
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            where = f"{path}:{node.lineno}"
            assert not (isinstance(node.func, ast.Name) and node.func.id in CALLS), where
            if isinstance(node.func, ast.Attribute):
                owner = ast.unparse(node.func.value).split(".")[-1]
                arrays_alone = owner == "np" and any(k.arg == "allow_pickle" for k in node.keywords)
                assert arrays_alone or owner not in ATTRIBUTES.get(node.func.attr, ()), where
            for keyword in node.keywords:
                assert keyword.arg != "weights_only", where
                assert keyword.arg not in ("shell", "allow_pickle") or ast.unparse(keyword.value) == "False", where


def test_the_walk_sees_what_it_looks_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each forbidden thing, planted, is found."""
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    for line in ("import pickle", "from yaml import load", "import torch\ntorch.load('x')", "eval('1')",
                 "import numpy as np\nnp.load('x')", "import numpy as np\nnp.load('x', allow_pickle=True)",
                 "exec('x')", "f(weights_only=False)", "import os\nos.system('x')",
                 "run('x', shell=True)"):  # fmt: skip
        (tmp_path / "planted.py").write_text(f"def f():\n    {line.replace(chr(10), chr(10) + '    ')}\n")
        with pytest.raises(AssertionError):
            test_no_module_runs_what_it_reads()


def test_only_the_download_of_data_and_a_named_cluster_reach_the_network() -> None:
    network = {"socket", "http", "urllib", "ssl", "ftplib", "smtplib", "requests", "httpx", "aiohttp", "urllib3",
               "huggingface_hub", "webbrowser"}  # fmt: skip
    using = {path.relative_to(PACKAGE).as_posix() for path, _ in sources() if packages(path) & network}
    assert using == {"data/sources/torchvision_sets.py", "runner/backends/ray.py"}


def test_a_version_of_torch_whose_loading_was_bypassed_is_not_taken() -> None:
    """CVE-2025-32434 and CVE-2026-24747: versions before 2.10."""
    wanted = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["dependencies"]
    ((major, minor),) = (re.fullmatch(r"torch>=(\d+)\.(\d+).*", w).groups() for w in wanted if w.startswith("torch>"))
    assert (int(major), int(minor)) >= (2, 10)


def hostile_study(folder: Path) -> StudyFolder:
    """A study every text of which is hostile, as a foreign folder may hold it."""
    cells = [
        CellPlan(text, {"depth": i}, Published(test_accuracy=30, source=text)) for i, text in enumerate(HOSTILE, 1)
    ]
    facts = tuple(
        Hypothesis(claim=text, value=text, against=HOSTILE[i - 1], expected="higher", source=text)
        for i, text in enumerate(HOSTILE)
    )
    plan = Plan(
        cells, time=False, seeds=(0, 1), suite_file="".join(HOSTILE), question=" ".join(HOSTILE),
        data_name=HOSTILE[0], fallback=" ".join(HOSTILE), notices=HOSTILE, facts=facts,
        excluded=tuple((text, text) for text in HOSTILE),
        state=lambda c, k, s: ("ok", "") if c.axes["depth"] % 3 else ("failed", c.label),
    )  # fmt: skip
    study = build(folder, plan)
    info = study.info.model_copy(
        update={
            "class_names": HOSTILE, "options": HOSTILE, "untuned": HOSTILE[:3],
            "suite": study.info.suite.model_copy(update={"cost": HOSTILE[9], "expected": "\n# ".join(HOSTILE)}),
        }
    )  # fmt: skip
    return StudyFolder(study.path, info)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    folder = tmp_path_factory.mktemp("hostile")
    render(hostile_study(folder / "study"), folder / "report")
    assert {p.name for p in folder.iterdir()} == {"study", "report"}
    return read_page(folder / "report")


def as_read(text: str) -> str:
    """A name as a page shows it: on one line, without what cannot be printed."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def test_i13_hostile_text_in_a_report_is_text(page: Page) -> None:
    rows = page.table("published (%)")
    assert sorted(row["cell"] for row in rows) == sorted(map(as_read, HOSTILE))
    assert {row["source"] for row in rows} == set(map(as_read, HOSTILE))
    assert page.html == ["<!-- Rendered by vitbench from the study's records; rendered again it is overwritten. -->"]
    assert page.strange == set() and page.formulas() == []
    assert "49" not in page.text.split() and "root:" not in page.text
    written = (page.folder / "report.md").read_text(encoding="utf-8")
    assert not [c for c in written if c != "\n" and not c.isprintable()]


def test_a_report_loads_nothing_from_outside(page: Page) -> None:
    assert page.pictures and all((page.folder / picture).is_file() for picture in page.pictures)
    assert page.links and all((page.folder / link).is_file() for link in page.links)
    for file in page.folder.rglob("*"):
        assert file.suffix in {"", ".html", ".md", ".png", ".svg", ".csv"}
        assert file.resolve().is_relative_to(page.folder.resolve())
    for file in page.folder.rglob("*.svg"):
        elements = list(ElementTree.parse(file).iter())
        assert not {element.tag.rpartition("}")[2] for element in elements} & {"script", "foreignObject", "a"}
        named = [(key.rpartition("}")[2], value) for element in elements for key, value in element.attrib.items()]
        assert not [value for key, value in named if key.startswith("on")]
        assert all(value.startswith(("#", "data:image/png")) for key, value in named if key == "href")


def test_hostile_text_in_a_record_is_read_back_as_it_was(tmp_path: Path) -> None:
    study = build(tmp_path, Plan([CellPlan("a", {})], time=False, state=lambda c, k, s: ("pending", "")))
    for attempt, text in enumerate(HOSTILE, 1):
        study.write(record(train_trial(), attempt=attempt).model_copy(update={"reason": text}))
    ((*attempts,),) = StudyFolder.read(tmp_path).records().values()
    assert tuple(r.reason for r in attempts) == HOSTILE


def steers(text: str) -> list[str]:
    """What of a text a terminal would obey, rich's own colours (a number, or several, and "m") apart."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    return [c for c in plain if c not in "\n\t" and (not c.isprintable() and c != "\xa0")]


@pytest.mark.parametrize("colours", [False, True])
def test_hostile_text_in_status_steers_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, colours: bool
) -> None:
    if colours:
        monkeypatch.setenv("FORCE_COLOR", "1")
    study = hostile_study(tmp_path / "study")
    study.damaged = list(HOSTILE)
    print_status(study, Terminal())
    output = capsys.readouterr().out
    assert steers(output) == [] and ("\x1b[31m" in output) == colours
    for text in HOSTILE[2::3]:  # those of the cells that failed, depth 3, 6, …
        assert visible(text).replace("\n", " ") in output, text
    assert "⚠" not in output and "\x1b]8" not in output, "neither a picture nor a link is made of text"


def test_a_text_is_shown_whole_and_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for text in HOSTILE:
        Terminal().print(f"[bold]before[/] {escape(text)} [bold]after[/]")
        assert capsys.readouterr().out == f"before {visible(text).replace(chr(10), ' ')} after\n"
        Terminal().print(text, markup=False)  # and where somebody forgot to escape it
        assert steers(capsys.readouterr().out) == []


def toml(text: str) -> str:
    return "".join(c if c.isprintable() and c not in '"\\' else f"\\u{ord(c):04x}" for c in text)


def test_hostile_text_steers_no_real_terminal(tmp_path: Path) -> None:
    """Suites, studies and mistakes, on a terminal of their own."""
    question = toml(" ".join(HOSTILE))
    base = SUITE.replace('"Does it run?"', f'"{question}"\ncost = "{question}"\nexpected = "{question}"')
    variants = [f'[[variants]]\nname = "{toml(t)}"\nset.depth = {i}' for i, t in enumerate(HOSTILE, 1)
                if all(ord(c) >= 32 and not 0x7F <= ord(c) < 0xA0 for c in t)]  # fmt: skip
    suite_file(tmp_path, *variants, base=base)
    output = on_a_terminal(tmp_path, 200, "plan", "suite.toml", "--device", "cpu")[1]
    assert f"{len(variants)} trials" in output and steers(output) == []
    assert "[link=https://example.org]x[/link], seed 0" in output and "?gnp.exe" in output
    hostile_study(tmp_path / "study")
    output = on_a_terminal(tmp_path, 200, "status", "study")[1]
    assert "trials: " in output and steers(output) == []
    keys = "\n".join(f'"{toml(text)}" = 1' for text in HOSTILE)
    suite_file(tmp_path, f"[time]\n{keys}", name="wrong.toml")
    output = on_a_terminal(tmp_path, 200, "plan", "wrong.toml")[1]
    assert "wrong.toml: time.?[31mred: unknown key" in output and steers(output) == []


def test_lone_surrogates_are_shown_not_raised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An argument that is no UTF-8 text reaches Python as half of a pair, which no terminal can be sent."""
    suite_file(tmp_path)
    with chdir(tmp_path), pytest.raises(SystemExit) as end:
        main(["plan", "suite.toml", "--set", "model.\udcff=3"])
    assert end.value.code == 2 and "suite.toml: model: " in capsys.readouterr().err


def test_a_record_holds_no_environment_no_host_and_no_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "a-secret-of-mine")
    monkeypatch.setattr("platform.node", lambda: "host-of-mine")
    monkeypatch.setattr("socket.gethostname", lambda: "host-of-mine")
    monkeypatch.setattr("getpass.getuser", lambda: "name-of-mine")
    monkeypatch.setenv("HOME", "/home/name-of-mine")
    failed = Record.model_validate(
        {
            **dict(record(train_trial())), "environment": fingerprint("cpu", 1),
            "reason": "OSError: /home/name-of-mine/images/x.png", "details": 'File "/home/name-of-mine/a/b.py", line 3',
        }
    )  # fmt: skip
    text = failed.to_json()
    for secret in ("a-secret-of-mine", "host-of-mine", "name-of-mine", "SOME_TOKEN"):
        assert secret not in text
    assert "~/images/x.png" in text and "~/a/b.py" in text


def test_reading_a_study_changes_nothing_in_it(tmp_path: Path) -> None:
    study = hostile_study(tmp_path / "study")
    before = files_of(tmp_path / "study")
    StudyFolder.read(study.path).records()
    render(study, tmp_path / "report")
    assert files_of(tmp_path / "study") == before


@pytest.mark.slow
def test_i36_what_lies_in_the_current_folder_is_imported_by_no_process(tmp_path: Path) -> None:
    for name in ("random.py", "statistics.py", "numpy.py", "vitbench/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("open('imported', 'a').write(__name__)")
    command = "import sys; del sys.path[0]; from vitbench.__main__ import main; main()"  # as the script is started
    for arguments in (["doctor"], ["time", suite_file(tmp_path, "[time]", "rounds = 1"), "--device", "cpu"]):
        done = subprocess.run([sys.executable, "-c", command, *arguments], cwd=tmp_path, capture_output=True, text=True,
                              timeout=300, check=False)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert not (tmp_path / "imported").exists(), (tmp_path / "imported").read_text()
