"""View: a study's records, read once and laid out for the sections of its report."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import pandas as pd

from vitbench import registry
from vitbench.analysis import frames, grouped
from vitbench.analysis.axis_speeds import AxisSpeed
from vitbench.analysis.conclusions import Conclusions, conclude
from vitbench.analysis.contention import FOREIGN, Contention, contention
from vitbench.analysis.design import images, task_axes
from vitbench.analysis.factorial import runs_of
from vitbench.analysis.frames import RUN_OF, with_stand_ins
from vitbench.analysis.replay import Looking
from vitbench.analysis.results import LASTING, results_of
from vitbench.config.base import by_identity, uncollected
from vitbench.config.trial import TrainTrial
from vitbench.memory import hand_back
from vitbench.report.document import Block
from vitbench.report.figures.colours import PALETTE
from vitbench.report.groups import Environments, Group, TimeGroup, of_environment
from vitbench.report.text import Md, accuracy_decimals, escape
from vitbench.store import StudyFolder, TrainValues
from vitbench.store.attempts import finished as has_ended

MEAN, STD, LOW, HIGH = (f"{grouped.ACCURACY}_{of}" for of in ("mean", "std", "low", "high"))

STANDING = ("cell", "state", "environment", "seed", "function")
"""Columns that say what a run is of and whether it counts."""
MAX_CELLS = 500  # Rows of a table by cell; what is beyond is in the CSV
MANY = 20_000
"""Trials from which memory is worth giving back: of a million the frames take a fifth, the first section a quarter."""
JOIN = " | "  # Between the values of an axis that equivalent implementations of one function have
MAX_AXIS_COLUMNS = 6  # Axes above which a table names its cells by their labels, not by a column for each axis


class View:
    """A study's records, read once; for its frames see :mod:`vitbench.analysis.frames`."""

    @uncollected()
    def __init__(self, study: StudyFolder) -> None:
        self.axis_speeds: dict[TimeGroup, list[AxisSpeed]] | None = None  # filled by by_axis.judged when first asked
        self.study = study
        self.planned = study.info.trials.up_to_seed
        self.results = results_of(study)
        self.damaged = study.set_aside()  # (name, reason) of files that are no records, set aside now or earlier
        self.trials = frames.trials_frame(study, self.results)
        self.results = self.results.less("attempts", LASTING)
        self.epochs = frames.epochs_frame(study, self.results)
        self.results = self.results.less("epochs")
        self.processes = frames.processes_frame(study, self.results)
        last = self.epochs.drop_duplicates("trial_id", keep="last")
        accuracies = zip(last["trial_id"].tolist(), last["validation_accuracy_pct"].tolist(), strict=True)
        validation = pd.Series(dict(accuracies), dtype="float64")
        train = frames.where(self.trials, self.trials["kind"] == "train")
        self.train = train.assign(validation_accuracy_pct=train["trial_id"].map(validation).astype("float64"))
        # With the runs that stand for equivalent cells; costs are in ``train``.
        once = study.info.implementations == "one"
        self.judged = with_stand_ins(self.train) if once else self.train.assign(**{RUN_OF: self.train["cell"]})
        time = frames.where(self.trials, self.trials["kind"] == "time")
        # A frame without any row of one kind has no type for the key.
        timings = frames.timings_frame(study, self.results).astype({"trial_id": time["trial_id"].dtype})
        self.time = time.merge(timings, on="trial_id", how="left")
        known = set(frames.axes_of(study))
        # Axes of the full factorial with two values or more → their values as text.
        axes = {
            axis: tuple(dict.fromkeys(map(frames.level, v))) for axis, v in study.info.axes.items() if axis in known
        }
        self.axes = {axis: values for axis, values in axes.items() if len(values) > 1}
        self.hand_back()

    def hand_back(self) -> None:
        """Give the system what making a frame or a section took, where there are many trials."""
        if len(self.trials) > MANY:
            hand_back()

    @cached_property
    def axis_names(self) -> dict[str, str]:
        """Axis → what tables and sentences call it: without ``train.``, unless two would be called the same."""
        short = {axis: axis.removeprefix("train.") for axis in self.axes}
        times = Counter(short.values())
        return {axis: name if times[name] == 1 else axis for axis, name in short.items()}

    @cached_property
    def cells(self) -> list[str]:
        """Labels of the planned cells, in the plan's order."""
        return list(self.trials["cell"].unique())

    @cached_property
    def small(self) -> bool:
        """Whether a small form of the suite was run, whose claims are others than those of the suite."""
        return any("--small" in line for line in (self.study.info.options, *self.study.info.commands))

    @cached_property
    def trained(self) -> dict[str, TrainTrial]:
        """Cell that is trained → its trial with the first seed."""
        return {p.cell: p.trial for p in self.planned if isinstance(p.trial, TrainTrial)}

    @cached_property
    def function_of(self) -> dict[str, str]:
        """Cell that is trained → the first one that computes the same function."""
        once = self.train.drop_duplicates("cell")
        return dict(zip(once["cell"], once["function"], strict=True))

    @cached_property
    def stood_for(self) -> dict[str, str]:
        """Cell that is not trained with every seed → the equivalent one whose runs stand for it."""
        lent = self.judged[self.judged[RUN_OF] != self.judged["cell"]].drop_duplicates("cell")
        return dict(zip(lent["cell"], lent[RUN_OF], strict=True))

    @cached_property
    def factorial(self) -> bool:
        """Whether every planned cell belongs to the grid over the suite's axes."""
        return bool(self.axes) and bool(self.trials["factorial"].all())

    @cached_property
    def environments(self) -> Environments:
        """The environments of the records that stand."""
        known = self.results.environments(self.trials["trial_id"].tolist())
        standing = set(self.trials["environment"].dropna().unique())
        return Environments({key: environment for key, environment in known.items() if key in standing})

    @cached_property
    def train_devices(self) -> list[str]:
        """Devices on which training is planned, in the plan's order."""
        return list(self.train["device"].unique())

    @cached_property
    def time_groups(self) -> list[TimeGroup]:
        """Timings by their settings, each environment apart; in the plan's order."""
        groups = list[TimeGroup]()
        settings = self.time[["device", "dtype", "batch_size", "mode", "level", "level_shape"]].drop_duplicates()
        for device, dtype, batch_size, *rest in settings.itertuples(index=False):
            group = TimeGroup(device, dtype, int(batch_size), *rest)
            keys = self.environments.of(self.timings(group)) or [("", "")]
            groups += [replace(group, environment=key, letter=letter) for key, letter in keys]
        return groups

    def runs(self, device: str, columns: Sequence[str] = (), *, judged: bool = False) -> pd.DataFrame:
        """The training runs planned on a device, or with ``judged`` those and the ones that stand for equivalent cells.

        All columns, or some, since of a million runs all take half a gigabyte.
        """
        runs = self.judged if judged else self.train
        return frames.where(runs[[*STANDING, *columns]] if columns else runs, runs["device"] == device)

    def done(self, group: Group, columns: Sequence[str] = (), *, judged: bool = False) -> pd.DataFrame:
        """The finished training runs of a group; see :meth:`runs`."""
        return grouped.finished(of_environment(self.runs(group.device, columns, judged=judged), group.environment))

    def values_of_runs(self, trials: Iterable[str]) -> Iterator[tuple[str, TrainTrial, TrainValues]]:
        """Id, trial and values of the finished training runs among some trials, as their records have them."""
        standing = (self.results.standing.get(trial_id) for trial_id in trials)
        for attempt, record in self.study.records_of([attempt for attempt in standing if attempt]):
            if isinstance(record.trial, TrainTrial) and isinstance(record.values, TrainValues):
                yield attempt.trial_id, record.trial, record.values

    def timings(self, group: TimeGroup) -> pd.DataFrame:
        """The planned timings of a group, a row for each cell, in whatever environment."""
        time = self.time
        chosen = (time["device"] == group.device) & (time["dtype"] == group.dtype)
        chosen &= (time["batch_size"] == group.batch_size) & (time["mode"] == group.mode)
        return time[chosen & (time["level"] == group.level) & (time["level_shape"] == group.shape)]

    @cached_property
    def measured(self) -> pd.DataFrame:
        """The finished timings."""
        rows = grouped.finished(self.time)
        return rows[rows["latency_ms_p50"].notna()]

    @cached_property
    def by_other_runtimes(self) -> frozenset[str]:
        """Ids of the timings of models that something else than PyTorch as it is runs."""
        usual = registry.reference("runtime")
        return frozenset(p.id for p in self.planned if p.trial.kind == "time" and p.trial.model.runtime != usual)

    def timed(self, group: TimeGroup) -> pd.DataFrame:
        """The finished timings of a group, of its environment."""
        rows = of_environment(self.timings(group), group.environment)
        return rows[rows["trial_id"].isin(self.measured["trial_id"])]

    @cached_property
    def by_cell(self) -> pd.DataFrame:
        """Finished training runs over their seeds, see :func:`vitbench.analysis.grouped.over_seeds`, and at_chance."""
        cells = grouped.over_seeds(self.judged)
        at_chance = map(self.is_at_chance, cells["cell"], cells[MEAN], cells[LOW])
        cells.insert([*cells].index(HIGH) + 1, "at_chance", list(at_chance))
        return cells

    @cached_property
    def decimals(self) -> int:
        """Decimals of test accuracy that the study's test images resolve."""
        return accuracy_decimals(float(self.by_cell["test_images"].min()) if len(self.by_cell) else math.nan)

    def task(self, cell: str) -> str:
        """Task of a cell: its values of the axes that change what is classified; empty where all classify the same."""
        return " · ".join(self.values_of[cell][axis] for axis in self.task_axes)

    def ranked(self, device: str) -> list[str]:
        """Cells planned on a device: the best mean test accuracy first, those without a result last, in plan order."""
        planned = list(self.train.loc[self.train["device"] == device, "cell"].unique())
        rows = self.by_cell[self.by_cell["device"] == device]
        best = rows.groupby("cell", sort=False)[MEAN].max().to_dict()
        return sorted(planned, key=lambda cell: -best.get(cell, -math.inf))

    @cached_property
    def cost_by_cell(self) -> pd.DataFrame:
        """Finished training runs over their seeds, as in ``by_cell``, without runs that stand for other cells."""
        return grouped.over_seeds(self.train) if self.stood_for else self.by_cell

    @cached_property
    def _chance(self) -> dict[str, float]:
        """Cell that is trained → the accuracy of a guess in percent: the most frequent class, or one of them all."""
        guesses = {cell: 100 / trial.model.num_classes for cell, trial in self.trained.items()}
        most = self.train.groupby("cell")["test_most_common_pct"].max().dropna()
        return guesses | {str(cell): max(guesses[str(cell)], float(share)) for cell, share in most.items()}

    @cached_property
    def _lucky(self) -> dict[str, float]:
        """Cell that is trained → the accuracy that a guess exceeds on its test images one time in forty, percent."""
        images = self.train.groupby("cell")["test_images"].max().to_dict()
        return {cell: p + 1.96 * math.sqrt(p * max(100 - p, 0) / images[cell]) if images.get(cell, 0) > 0 else 100.0
                for cell, p in self._chance.items()}  # fmt: skip

    def is_at_chance(self, cell: str, mean: float, low: float) -> bool:
        """Whether neither seeds nor test images tell a cell's mean test accuracy from that of a guess.

        The interval over seeds reaches down to it (``low``, not a number of one seed); of two or three seeds it nearly
        always does, so the mean has to be one that a guess comes to on so many images, too.
        """
        return cell in self._chance and low <= self._chance[cell] and mean <= self._lucky[cell]

    @cached_property
    def contention(self) -> dict[str, Contention]:
        """Device → how far the finished training runs on it had their machine to themselves."""
        done = grouped.finished(self.train[[*STANDING, "device", "trial_id"]])
        ids = done.groupby("device")["trial_id"].agg(list)
        return {device: contention(self.results, ids.get(device, [])) for device in self.train_devices}

    @cached_property
    def load_while_timing(self) -> tuple[float, int] | None:
        """Highest load average while timing, and the number of cores; None where the machine had nothing else to do."""
        load = float(self.processes["load_average"].astype("float64").max())
        cores = min((e.cpu_cores for e in self.environments.fingerprints.values()), default=0)
        return (load, cores) if math.isfinite(load) and cores and load > cores + FOREIGN else None

    @cached_property
    def noise(self) -> grouped.NoiseFloor | None:
        """Spread of test accuracy, in points, between equivalent implementations."""
        return grouped.noise_floor_of(self.train)

    @cached_property
    def under_study(self) -> list[str]:
        """Axes whose values are compared: not those of equivalent implementations, nor those that change the images."""
        equivalent = set(self.equivalent_axes)
        return [axis for axis in self.axes if axis not in equivalent and axis not in self.task_axes]

    @cached_property
    def equivalents(self) -> dict[str, list[str]]:
        """Axis → its values that are equivalent implementations, by every trial with one; of two of them or more."""
        exact = {axis: [v for v in values if self._exact[axis].get(v) == {True}] for axis, values in self.axes.items()}
        return {axis: values for axis, values in exact.items() if len(values) > 1}

    @cached_property
    def equivalent_axes(self) -> list[str]:
        """The axes all of whose planned values are equivalent: they cannot change what is computed."""
        return [axis for axis, values in self.equivalents.items() if len(values) == len(self._exact[axis])]

    @cached_property
    def _exact(self) -> dict[str, dict[str, set[bool]]]:
        """Axis → planned value → whether the component of a trial that has it is exact, of all trials."""
        exact: dict[str, dict[str, set[bool]]] = {axis: {} for axis in self.axes}
        for planned in self.planned:
            for axis in exact.keys() & planned.axes.keys():
                exact[axis].setdefault(frames.level(planned.axes[axis]), set()).add(planned.exact.get(axis, False))
        return exact

    @cached_property
    def task_axes(self) -> list[str]:
        """The axes that change what is classified."""
        images_of = by_identity(images)
        names = task_axes(
            ({axis: p.axes[axis] for axis in self.axes}, images_of(p.trial.data, p.trial.model.num_classes))
            for p in self.planned
            if isinstance(p.trial, TrainTrial) and self.axes.keys() <= p.axes.keys()
        )
        return [axis for axis in self.axes if axis in names]

    @cached_property
    def conclusions(self) -> list[Conclusions]:
        """Verdicts on the runs of each device and environment that has a result."""
        outside = self.judged.loc[~self.judged["factorial"].astype(bool), "cell"].unique()
        info = self.study.info
        return [
            conclude(
                runs, self.axes, self.under_study, task_axes=self.task_axes, hypotheses=info.facts,
                cells=list(dict.fromkeys([*self.judged["cell"].head(1), *outside])), margin=info.suite.margin,
                noise_floor=self.noise.largest if self.noise else None, test=info.suite.test, looking=self.looking,
                once=info.implementations == "one",
            )
            for runs in runs_of(self.judged, self.axes)
        ]  # fmt: skip

    @cached_property
    def groups(self) -> list[Group]:
        """Training runs by device and environment; in the plan's order."""
        conclusions = {(each.runs.device, each.runs.environment): each for each in self.conclusions}
        groups = list[Group]()
        for device in self.train_devices:
            for key, letter in self.environments.of(self.runs(device)) or [("", "")]:
                label = f"{device} {letter}".strip() if letter or len(self.train_devices) > 1 else ""
                groups.append(Group(device, key, letter, label, conclusions.get((device, key))))
        return groups

    def by_group(self, blocks: Callable[[Group], Iterable[Block]]) -> list[Block]:
        """Each group's blocks, headed by the group's name if there are several groups."""
        parts = [(group, [*blocks(group)]) for group in self.groups]
        return [block for group, part in parts if part for block in (*group.heading, *part)]

    @cached_property
    def looking(self) -> Looking | None:
        """The looks of the plan; None where it has none."""
        if self.study.info.looks is None:
            return None
        tried, most = self.results.tried, self.study.info.suite.max_attempts
        unfinished = {i for i in self.train["trial_id"] if not has_ended(tried.get(i, []), most)}
        return Looking.of(self.study.info.looks, self.train, unfinished)

    @cached_property
    def seeds_wanted(self) -> dict[str, int]:
        """Cell → seeds that it needs by what is known, of a plan with looks: as many as any of the places asks for."""
        wanted: dict[str, int] = {}
        for each in self.conclusions:
            for cell, seeds in each.seeds.items():
                wanted[cell] = max(seeds, wanted.get(cell, 0))
        return wanted

    def timing_over(self, axis: str, group: TimeGroup, value: str) -> grouped.Matched:
        """A measured value over the matched blocks of an axis, of one group of timings."""
        timings = of_environment(self.timings(group), group.environment)
        return grouped.matched(timings, self.axes, axis, value, grouped.TIME_BLOCK)

    @cached_property
    def telling(self) -> list[str]:
        """Axes by their effect on test accuracy, the largest first, those that hypotheses are about before others.

        The first of them colours the pictures of accuracy and of training, so that a colour means one thing in them.
        """
        tested = {hypothesis.axis for hypothesis in self.study.info.facts}
        value, block = grouped.ACCURACY, grouped.TRAIN_BLOCK
        effects = [grouped.matched(self.judged, self.axes, axis, value, block) for axis in self.axes]
        return sorted(grouped.by_effect(effects), key=lambda axis: axis not in tested)

    def identity(self, cells: Sequence[str], axes: Collection[str] | None = None) -> dict[str, Md]:
        """The columns that name cells of one row: for each axis of a grid (or of some) their values, else a label."""
        named = [axis for axis in self.axes if not axes or axis in axes]
        if not self.factorial or len(named) > MAX_AXIS_COLUMNS:
            return {"cell": escape(cells[0])}
        values = {axis: dict.fromkeys(self.values_of[cell][axis] for cell in cells) for axis in named}
        return {self.axis_names[axis]: escape(JOIN.join(values[axis])) for axis in named}

    def in_colour(self, drawn: Sequence[str]) -> Sequence[str]:
        """Cells that have a colour each: all of the study, for them to look alike in each figure, or those drawn."""
        return [*self.values_of] if len(self.values_of) <= len(PALETTE) else drawn

    @cached_property
    def values_of(self) -> dict[str, dict[str, str]]:
        """Cell → axis → value, as text."""
        rows = self.trials.drop_duplicates("cell").to_dict("records")
        return {str(row["cell"]): {axis: frames.level(row[axis]) for axis in self.axes} for row in rows}

    @cached_property
    def cells_with(self) -> dict[tuple[str, str], set[str]]:
        """(axis, value) → the cells that have it."""
        pairs = [(axis, value) for axis, values in self.axes.items() for value in values]
        return {(a, v): {cell for cell, values in self.values_of.items() if values[a] == v} for a, v in pairs}
