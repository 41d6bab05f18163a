"""Suites and studies in Python, for notebooks and scripts.

A suite is run by a process of ``vitbench run``: the same trials, the same records and the same report as from a command
line, whatever else the notebook or the script has in memory. pandas is imported by what needs it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitbench import registry
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import SEEDS_OF_A_MASTER
from vitbench.config.toml import inline, plain
from vitbench.errors import UserError
from vitbench.wording import nearest

if TYPE_CHECKING:
    import pandas as pd

    from vitbench.config.suite import ExpandedSuite
    from vitbench.report.figures.charts import Drawn
    from vitbench.report.sections.effects import Row
    from vitbench.report.view import View

FAILED = 1  # Exit status of ``vitbench run`` where a trial has failed, which is in its report
FORCED = frozenset({"FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"})


class Suite:
    """A suite: models that are compared, how they are trained and timed, and what is asked.

    Each table is that of a suite's file, docs/guide/suites.md has their keys. A suite with mistakes is refused as soon
    as it is planned or run, with all of them.
    """

    def __init__(
        self, name: str = "mine", *, question: str = "", margin: float | None = None, seed: int | None = None,
        model: ModelSpec | Mapping[str, Any] | None = None, data: Mapping[str, Any] | None = None,
        train: Mapping[str, Any] | None = None, time: Mapping[str, Any] | None = None,
        axes: Mapping[str, Sequence[Any]] | None = None, variants: Sequence[Mapping[str, Any]] = (),
        facts: Sequence[Mapping[str, Any]] = (), goals: Sequence[Mapping[str, Any]] = (),
        tune: Mapping[str, Any] | None = None, resources: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """A suite of one's own.

        Args:
            name: of the suite; its study is in ``results/<name>``.
            question: that the report begins with.
            margin: differences in test accuracy that are smaller do not matter; percentage points.
            seed: master seed.
            model: the base model.
            data: images; CIFAR-10 unless given.
            train: the recipe, and the number of seeds. None: nothing is trained.
            time: what is timed. None: nothing is.
            axes: field → its values, which are crossed.
            variants: single cells, each with a ``name`` and a table ``set``.
            facts: claims that are put to the test.
            goals: accuracies that cells are to reach.
            tune: what is chosen on validation for each cell: fields of the recipe → their values, such as
                ``{"seeds": 2, "train.learning_rate": [1e-3, 3e-3]}``.
            resources: what a trial takes of a machine.

        Raises:
            SpecError: where a value is none that a file can hold, such as a set.
        """
        import tomli_w

        asked = question or f"What is the effect of {' and '.join(axes or ['each variant'])}?"
        suite = {"name": name, "question": asked, "margin": margin, "seed": seed}
        base = model.model_dump(exclude_defaults=True) if isinstance(model, ModelSpec) else model
        given = {"suite": {key: value for key, value in suite.items() if value is not None}, "model": base or {},
                 "axes": axes, "data": data, "train": train, "time": time, "variants": variants,
                 "facts": facts, "goals": goals, "tune": tune, "resources": resources}  # fmt: skip
        tables = {name: plain(table, name) for name, table in given.items() if table or name == "model"}
        self.name, self.small, self.overrides = name, False, tuple[str, ...]()
        self.file: Path | None = None
        self.text = tomli_w.dumps(tables)

    @classmethod
    def load(cls, suite: str | Path, *, small: bool = False, changes: Mapping[str, Any] | None = None) -> Suite:
        """A suite of the package, by its name, or of a file.

        Args:
            suite: such as ``"positions"`` (:func:`vitbench.config.shipped.names` has them all), or a path.
            small: whether to take its small form, which a CPU can run.
            changes: ``table.key`` → value in place of the file's, such as ``{"train.epochs": 3}``.

        Raises:
            SpecError: where the file cannot be read, or has mistakes.
            UnknownSuite: where there is no suite of that name.
        """
        from vitbench.config.shipped import suite_file

        made = cls.__new__(cls)
        made.file, made.small = suite_file(str(suite)), small
        made.overrides = tuple(f"{key}={inline(plain(v, key))}" for key, v in (changes or {}).items())
        made.text = made.file.read_text(encoding="utf-8") if made.file.is_file() else ""
        made.name = made.read().info.name
        return made

    def __repr__(self) -> str:
        try:
            return f'<vitbench.Suite "{self.name}": {len(self.read().cells)} cells>'
        except UserError as error:
            return f'<vitbench.Suite "{self.name}": {error}>'

    def to_toml(self) -> str:
        """The file of the suite; ``load`` says which form of it and with which changes."""
        return self.text

    def read(self, device: str = "auto") -> ExpandedSuite:
        """The suite, read, checked and expanded into its cells. Raises SpecError with every mistake in it."""
        from vitbench.config.reading import read_suite
        from vitbench.runner.device_kind import device_kind

        file, text = self.file or Path(f"{self.name}.toml"), None if self.file else self.text
        return read_suite(file, self.overrides, small=self.small, device=device_kind(device), text=text)

    def plan(self, device: str = "auto") -> pd.DataFrame:
        """List the trials without running any: a row for each, with kind, cell, the axes, seed and what is timed.

        Raises:
            SpecError: with every mistake in the suite.
        """
        from vitbench.analysis.frames import trials_frame
        from vitbench.runner.device_kind import device_kind
        from vitbench.runner.plan import plan
        from vitbench.store.study import StudyFolder

        info = plan(self.read(device), device_kind(device))
        frame = trials_frame(StudyFolder(Path(), info))
        columns = [name for name in frame if name in PLANNED or name in info.axes]
        return frame[columns].dropna(axis="columns", how="all")

    def run(
        self, results: str | Path | None = None, *, device: str = "auto", workers: int = 1, keep_weights: bool = False,
        rerun_changed: bool = False,
    ) -> Study:  # fmt: skip
        """Train and time what has not been yet. Progress is printed; Ctrl-C, or a notebook's Stop, ends it soon.

        Run again, the same suite goes on where it was.

        Args:
            results: folder of the study; None: ``results/<name>``.
            device: "auto", "cpu", "cuda", "cuda:1", "mps".
            workers: trials that train at once.
            keep_weights: whether trained weights are kept.
            rerun_changed: whether to repeat what other code has run, such as an earlier text of a component.

        Raises:
            SpecError: with every mistake in the suite.
            UserError: where it cannot be run here; the message is among what was printed.
            KeyboardInterrupt: after it was stopped.
        """
        from vitbench.config.shipped import FOLDER
        from vitbench.store.study import study_folder

        registry.read_notebook_again()
        read = self.read(device)
        folder = study_folder(read, Path(results) if results is not None else None)
        if self.file is None:
            folder.mkdir(parents=True, exist_ok=True)
            (file := folder / "suite.toml").write_text(self.text, encoding="utf-8")
            named = str(file)
        else:
            named = self.file.stem if self.file.parent == FOLDER else str(self.file)
        line = ["run", named, *(["--small"] if self.small else [])]
        line += [part for override in self.overrides for part in ("--set", override)]
        line += [part for plugin in self._plugins(read) for part in ("--plugin", str(_on_disk(plugin, folder)))]
        line += ["--results", str(folder), "--device", device, "--workers", str(workers)]
        line += [*(["--keep-weights"] if keep_weights else []), *(["--rerun-changed"] if rerun_changed else [])]
        _run(line)
        return Study(folder)

    @staticmethod
    def _plugins(read: ExpandedSuite) -> list[registry.Plugin]:
        """The plug-ins that components of the suite come from."""
        models = {id(cell.model): cell.model for cell in read.cells}.values()
        return [*dict.fromkeys(plugin for model in models for plugin in registry.plugins(model.components))]


PLANNED = ("trial_id", "kind", "cell", "seed", "device", "dtype", "batch_size", "mode", "level", "level_shape",
           "function")  # fmt: skip
"""Columns of a plan, see :func:`vitbench.analysis.frames.trials_frame`."""


class Study:
    """A study's results. Every frame is read once, from what the folder holds when it is first asked for."""

    def __init__(self, folder: str | Path) -> None:
        """Open a study.

        Args:
            folder: such as ``results/positions``.

        Raises:
            StudyError: where the folder holds no study.
        """
        self.path = Path(folder)
        self.view = self._view()

    def _view(self) -> View:
        from vitbench.report.view import View
        from vitbench.store import StudyFolder

        return View(StudyFolder.read(self.path))

    def __repr__(self) -> str:
        from vitbench.report.sections.summary import answer
        from vitbench.report.text import plain

        return f'<vitbench.Study "{self.view.study.info.suite.name}": {plain(answer(self.view))}>'

    def _repr_html_(self) -> str:
        """The question, the answer, and every effect on one scale, for a notebook."""
        from html import escape

        from vitbench.report.sections.summary import answer
        from vitbench.report.text import plain

        question = escape(self.view.study.info.suite.question)
        head = f"<p><b>{question}</b></p>\n<p>{escape(plain(answer(self.view)))}</p>"
        return f"{head}\n{self.effects()._repr_html_()}"

    @functools.cached_property
    def verdicts(self) -> pd.DataFrame:
        """Every comparison, a row each.

        Columns: device, environment (a letter for each machine and software, where there are several), family (claims,
        effects, variants, interactions), comparison, and the difference in percentage points with its interval,
        p values, verdict and further seeds as in ``tables/verdicts.csv`` of the report, see docs/guide/verdicts.md.
        """
        from vitbench.report.sections.effects import frame

        return frame(self.view)

    @property
    def trials(self) -> pd.DataFrame:
        """A row for each planned trial; columns: see :func:`vitbench.analysis.frames.trials_frame`."""
        return self.view.trials

    @property
    def epochs(self) -> pd.DataFrame:
        """A row for each epoch of each run; columns: see :func:`vitbench.analysis.frames.epochs_frame`."""
        return self.view.epochs

    @property
    def timings(self) -> pd.DataFrame:
        """A row for each planned timing; columns: see :func:`vitbench.analysis.frames.timings_frame`."""
        return self.view.time

    @functools.cached_property
    def predictions(self) -> pd.DataFrame:
        """A row for each run and test image.

        Columns: trial_id, cell, seed, image (its position in the test split, from 0), correct (whether the trained
        model names its class). Empty where no run has them.
        """
        import pandas as pd

        from vitbench.analysis.image_outcomes import of_bits

        frames = []
        finished = self.view.train.loc[self.view.train["state"] == "ok", ["trial_id", "cell", "seed"]]
        about = {trial_id: (cell, seed) for trial_id, cell, seed in finished.itertuples(index=False)}
        for trial_id, _, values in self.view.values_of_runs(about):
            if values.test_right is not None:
                correct = of_bits(values.test_right, values.test_images)
                cell, seed = about[trial_id]
                of_run = {"trial_id": trial_id, "cell": cell, "seed": seed, "image": range(len(correct))}
                frames.append(pd.DataFrame({**of_run, "correct": correct}))
        columns = ["trial_id", "cell", "seed", "image", "correct"]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)

    def effects(self, axis: str | None = None, *, against: str | None = None) -> Effects:
        """The effects of the suite's axes, or of one, on test accuracy.

        Args:
            axis: such as "positions"; None: all axes, the named cells and the interactions.
            against: the value of the axis that the others are compared with; None: its first.

        Raises:
            ValueError: where the study has no such axis or value.
        """
        view = self.view
        if axis is None and against is not None:
            raise ValueError(f'against="{against}": name the axis of which it is a value')
        for given, known in ((axis, view.under_study), (against, view.axes.get(axis or "", ()))):
            if given is not None and given not in known:
                raise ValueError(f'"{given}" is not compared in this study{nearest(given, known)}; known: '
                                 f'{", ".join(known)}')  # fmt: skip
        if axis is not None and against is not None:
            view = type(view)(view.study)
            view.axes[axis] = (against, *(value for value in view.axes[axis] if value != against))
        return Effects(view, axis)

    def extend(self, seeds: int) -> Study:
        """Run every cell with more seeds. The study's own command is run again, on each device on which it trained.

        p does not account for seeds that were added because results were open; the report says that they were.

        Args:
            seeds: of each cell, those that it has included; with looks the most that a cell may get.

        Raises:
            UserError: where the study has more seeds, does not say by which command it was made, or cannot be run here.
            KeyboardInterrupt: after it was stopped.
        """
        view = self._view()
        info = view.study.info
        trained_on = set(view.train["device"])
        of_device = {command[-1]: command for command in info.commands if command[0] == "run"}  # the last of each
        if part := {"--only", "--cell"}.intersection(word for command in of_device.values() for word in command):
            raise UserError(f"{self.path}: was last run in part, by {part.pop()}; run its suite with more seeds")
        commands = [command for device, command in of_device.items() if device.partition(":")[0] in trained_on]
        if not commands:
            raise UserError(f"{self.path}: says no command by which it was made; run its suite with more seeds")
        known = info.looks.seeds if info.looks else tuple(map(int, view.train["seed"].unique()))
        if seeds < len(known):
            raise UserError(f"{self.path}: has {len(known)} seeds a cell already; {seeds} would be fewer")
        key, value = "train.seeds.at_most" if info.looks is not None else "train.seeds", str(seeds)
        drawn = [SEEDS_OF_A_MASTER * info.suite.seed + i for i in range(seeds)]
        if info.looks is None and not {*known} <= {*drawn}:  # a list, which goes on with those that are free
            value = str([*known, *(seed for seed in drawn if seed not in known)][:seeds])
        for command in commands:
            _run([*command, "--set", f"{key}={value}", "--results", str(self.path)])
        return Study(self.path)


class Effects:
    """Differences in test accuracy between values of axes: shown in a notebook as a forest plot above its numbers."""

    def __init__(self, view: View, axis: str | None) -> None:
        self._view, self.axis = view, axis

    @functools.cached_property
    def _rows(self) -> list[Row]:
        """The differences, in the report's order."""
        from vitbench.report.sections.effects import largest_first, rows_of

        rows = [
            row
            for conclusions in self._view.conclusions
            for row in rows_of(self._view, conclusions)
            if row.family != "claims" and row.judged.n
            if self.axis is None or any(row.judged is e.judged for e in conclusions.effects if e.axis == self.axis)
        ]
        return largest_first(rows)

    @functools.cached_property
    def frame(self) -> pd.DataFrame:
        """A row for each difference.

        Columns: name (what is compared; a number with its axis, "depth=2"), context (with what, and the axis where the
        name does not say it), points (percentage points of test accuracy), low and high (ends of the interval),
        p_holm, n (seeds) and verdict.
        """
        import pandas as pd

        from vitbench.report.sections.effects import words_of

        lines = [
            (r.name, r.context, r.judged.mean, r.judged.interval.low, r.judged.interval.high, r.judged.p_holm,
             r.judged.n, words_of(self._view, r.judged))
            for r in self._rows
        ]  # fmt: skip
        columns = ["name", "context", "points", "low", "high", "p_holm", "n", "verdict"]
        return pd.DataFrame(lines, columns=columns)

    def plot(self) -> Drawn:
        """The differences on one scale, with each seed. A notebook shows it; ``.png`` is the content of such a file.

        Raises:
            ValueError: where no difference has a result yet.
        """
        from vitbench.report.figures.charts import drawn
        from vitbench.report.sections.summary import forest_of

        if not self._rows:
            raise ValueError("no comparison has a result yet")
        return drawn(forest_of(self._view, self._rows))

    def __repr__(self) -> str:
        return self.frame.round(3).to_string(index=False)

    def _repr_html_(self) -> str:
        import base64

        if not self._rows:
            return "<p>no comparison has a result yet</p>"
        png = base64.b64encode(self.plot().png).decode()
        image = f'<img style="width: 60em" alt="Differences in test accuracy" src="data:image/png;base64,{png}">'
        return f"{image}\n{self.frame.round(3).to_html(index=False)}"


def _on_disk(plugin: registry.Plugin, folder: Path) -> Path:
    """A file with a plug-in's text: its own, or for the definitions of a script or notebook one beside the study."""
    if plugin.path.is_file() and plugin.path.read_text(encoding="utf-8-sig") == plugin.text:
        return plugin.path
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{plugin.path.stem}-components.py"
    file.write_text(plugin.text, encoding="utf-8")
    return file


def _run(arguments: Sequence[str]) -> None:
    """Run ``vitbench`` with some arguments: what it prints appears as it comes. It stops where this process ends."""
    import subprocess

    from vitbench.processes import die_with_parent

    captured = sys.stdout is not sys.__stdout__  # such as a notebook's, which no other process can write to
    line = [sys.executable, "-m", "vitbench", *arguments]
    # A notebook's kernel asks every program for colours, which makes of a pipe a terminal with a live view.
    environment = {name: value for name, value in os.environ.items() if name not in FORCED}
    # A session of its own: one Ctrl-C is handed on as one, where a terminal would send it to both.
    process = subprocess.Popen(
        line, env=environment, text=True, encoding="utf-8", start_new_session=True,
        preexec_fn=functools.partial(die_with_parent, signal.SIGTERM),  # noqa: PLW1509 - one system call
        stdout=subprocess.PIPE if captured else None, stderr=subprocess.STDOUT if captured else None,
    )  # fmt: skip
    stopped = False
    with process.stdout or contextlib.nullcontext():
        while True:
            try:
                for text in process.stdout or ():
                    sys.stdout.write(text)
                status = process.wait()
                break
            except KeyboardInterrupt:
                stopped = True
                os.kill(process.pid, signal.SIGINT)
    if stopped:
        raise KeyboardInterrupt
    if status not in (0, FAILED):
        raise UserError(f"vitbench ended with exit status {status}: its message is above")
