"""Results: what the tables need of a study's records, a row for each attempt, epoch, timing and process.

Rows say what one record says, whatever the plan is; :mod:`vitbench.analysis.frames` puts them in the plan's order.
Those of packed records are kept in the study's ``cache/``, a file for each segment. Any of them may be deleted at any
time. So no packed record is read twice, and a hundred thousand need not be in memory together.
"""

import contextlib
import functools
import hashlib
import json
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from vitbench.analysis import columnar, timings
from vitbench.config.base import STORED, digest, uncollected
from vitbench.config.trial import TimeTrial, TrainTrial
from vitbench.environment import ROOT, VERSION, Environment
from vitbench.store import Epoch, Record, StudyFolder, TimeValues, TrainValues
from vitbench.store.attempts import Attempt, standing
from vitbench.store.packed import Segment

MOVING = ("commit", "dirty", "device", "load_average", "memory_gib", "platform", "plugins", "python", "spins",
          "threads")  # fmt: skip
"""Fields of Environment in which results that are compared may differ: the code's digest says what the commit would,
the device's name what its index does not, plug-ins are what is compared, see :meth:`Results.plugins`, threads of a
training change rounding alone (those of timings: :func:`_apart_by_threads`), and the rest moves no number that is
compared."""

VALUES = tuple(
    name for name in dict.fromkeys([*TrainValues.model_fields, *TimeValues.model_fields])
    if name not in (
        "epochs", "processes", "ceilings", "baseline", "drift", "trained_flops", "resumed_at", "pretraining",
        "teaching", "preparation_flops", "preparation_resumed_at", "reconstructions", "test_accuracies_at",
        "test_right", "notices",
    )
)  # fmt: skip
NOT_NUMBERS = ("batches_digest", "data_checksum")
TUNING = ("validation_accuracy_pct", "validation_loss")
DERIVED = ("train_flops", "epoch_images_per_s", "trial_images_per_s", "of_peak", "preparation_seconds")
"""Values that are computed from a training run's values and its recipe."""
NUMBERS = (*(name for name in VALUES if name not in NOT_NUMBERS), *TUNING, *DERIVED)
WHERE = ("machine", "software", "environment", "commit", "dirty", "threads", "started_at", "notices")
MEANWHILE = ("attempt_seconds", "load_average", "outcomes")
"""How long an attempt took, process and all; the machine's load when it began; test images with a recorded outcome."""
ATTEMPT = (*NUMBERS, *NOT_NUMBERS, *WHERE, *MEANWHILE, "environment_json")
PROCESS = ("process", "latency_ms_p50", "images_per_s", "first_ms", "peak_memory_mib", "load_average", "log_speed",
           "log_control")  # fmt: skip
TIMING = ("latency_ms_low", "latency_ms_high", "speed", "speed_low", "speed_high", "speed_p", "control", "control_low",
          "control_high", "outliers", "unstable", "wall_ms_p50", "flops_per_s", "bytes_per_s", "of_flops", "of_bytes",
          "of_roofline", "intensity", "ceiling_flops_per_s", "ceiling_bytes_per_s", "drift")  # fmt: skip

LASTING = ("environment", "environment_json", "notices", "started_at", "test_readings", *TUNING, *MEANWHILE)
"""Columns of attempts that are looked at beside the frames of trials."""

TABLES: Mapping[str, tuple[str, ...]] = {
    "attempts": ATTEMPT, "epochs": tuple(Epoch.model_fields), "timings": TIMING, "processes": PROCESS,
}  # fmt: skip
"""Table → its columns beside ``file``, see :class:`~vitbench.store.Attempt`."""

WORDS = frozenset({"file", "unstable", "environment_json", *NOT_NUMBERS, *WHERE})  # Columns that are no float64
CACHE, LEAST_KEPT = "cache", 500  # Folder in a study's; records in a segment whose rows are worth a file there
NONE = json.dumps(())  # The notices of most records


@dataclass(frozen=True)
class Results:
    """A study's records as tables."""

    tried: Mapping[str, list[Attempt]]  # trial id → its attempts in order
    tables: Mapping[str, pd.DataFrame]  # see :data:`TABLES`; in no order

    @functools.cached_property
    def standing(self) -> dict[str, Attempt]:
        """Trial id → the attempt that stands for it, see :func:`vitbench.store.study.standing`."""
        return {trial_id: standing(attempts) for trial_id, attempts in self.tried.items()}

    def of(self, table: str, files: Sequence[str]) -> pd.DataFrame:
        """The rows of some records, in their order; of one record, in the order of the record.

        Args:
            table: its name.
            files: names of the records' files, each once.
        """
        return self.tables[table].iloc[self.places(table, files)].reset_index(drop=True)

    def places(self, table: str, files: Sequence[str]) -> npt.NDArray[np.intp]:
        """Positions of some records' rows in a table, in the order of :meth:`of`, to take columns one by one."""
        place = pd.Index(np.array(files, dtype=object)).get_indexer(self.tables[table]["file"].to_numpy(dtype=object))
        chosen = np.flatnonzero(place >= 0)
        return chosen[np.argsort(place[chosen], kind="stable")]

    def less(self, table: str, columns: Sequence[str] = ()) -> "Results":
        """Drop all but some columns of a table: once frames are made of them, they would be in memory twice."""
        return Results(self.tried, {**self.tables, table: self.tables[table][["file", *columns]].copy()})

    def notices(self, trials: Iterable[str]) -> Counter[str]:
        """Notice → records that stand and have it.

        Args:
            trials: ids, in the order that counts.
        """
        attempts = self.tables["attempts"]
        texts = attempts[attempts["notices"] != NONE].set_index("file")["notices"].to_dict()
        standing = (self.standing.get(trial_id) for trial_id in trials) if texts else ()
        counts = Counter(texts[attempt.file] for attempt in standing if attempt and attempt.file in texts)
        notices = Counter[str]()
        for text, number in counts.items():
            notices.update(dict.fromkeys(json.loads(text), number))
        return notices

    def plugins(self, trials: Iterable[str]) -> dict[str, dict[str, str]]:
        """Component of a plug-in → trial whose standing record has it → digest of the plug-in, the latest one last.

        Args:
            trials: ids.
        """
        standing = [attempt for trial_id in trials if (attempt := self.standing.get(trial_id))]
        attempts = self.tables["attempts"]
        texts = attempts.loc[attempts["environment_json"].notna(), ["file", "environment_json"]]
        known = {text: json.loads(text).get("plugins", {}) for text in texts["environment_json"].unique()}
        if not any(known.values()):
            return {}
        of_file = {file: known[text] for file, text in texts.itertuples(index=False)}
        digests: dict[str, dict[str, str]] = {}
        for attempt in sorted(standing, key=lambda attempt: attempt.started_at):
            for component, digest_of_text in of_file.get(attempt.file, {}).items():
                digests.setdefault(component, {})[attempt.trial_id] = digest_of_text
        return digests

    def environments(self, trials: Iterable[str]) -> dict[str, Environment]:
        """Key of an environment → the environment of the first attempt in it, its load left out.

        Args:
            trials: ids, in the order that counts.
        """
        files = [attempt.file for trial_id in trials for attempt in self.tried.get(trial_id, ())]
        first = self.of("attempts", files).dropna(subset="environment").drop_duplicates("environment")
        return {
            str(key): Environment.model_validate_json(text, context=STORED)
            for key, text in zip(first["environment"], first["environment_json"], strict=True)
        }


@uncollected()
def results_of(study: StudyFolder) -> Results:
    """The records of a study as tables. Damaged files are set aside and named in ``study.damaged``."""
    unpacked = _Rows()
    tried = study.attempts(unpacked.add)
    files = {attempt.file: attempt for attempts in tried.values() for attempt in attempts}
    for attempt, record in study.records_of(a for f, a in files.items() if not a.packed and f not in unpacked.known):
        unpacked.add(attempt, record)
    tables = _joined([unpacked.tables(), *map(_rows_of, study.segments.known.values())], files)
    _apart_by_threads(tables["attempts"])
    for table in tables.values():
        table["file"] = table["file"].map({file: file for file in files})  # not the same text in memory once more
    return Results(tried, tables)


def _rows_of(segment: Segment) -> dict[str, pd.DataFrame]:
    """The rows of a segment's records, kept in the study's cache where there are many."""
    path = segment.path.parents[1] / CACHE / f"{segment.path.name.partition('.')[0]}.npz"
    made_by = json.dumps([_made_by(), segment.path.name, segment.damage])
    if (tables := columnar.load(path, made_by)) is not None:
        return tables
    rows = _Rows()
    for attempt, record in segment.records({a.file for a in segment.attempts if a}):
        rows.add(attempt, record)
    tables = rows.tables()
    if len(segment.attempts) >= LEAST_KEPT:
        with contextlib.suppress(OSError):  # the study's folder cannot be written
            path.parent.mkdir(exist_ok=True)
            columnar.save(path, tables, made_by)
    return tables


def _joined(parts: Sequence[Mapping[str, pd.DataFrame]], there: Collection[str]) -> dict[str, pd.DataFrame]:
    """Tables of several parts; a record that is in two of them, or is not there any more, counts once or not at all."""
    left, tables = set(there), list[Mapping[str, pd.DataFrame]]()
    for part in parts:
        files = set(part["attempts"]["file"].tolist())
        strange = files - left
        tables.append({n: t[~t["file"].isin(strange)] for n, t in part.items()} if strange else part)
        left -= files
    return {name: _concatenated([dict(part[name].items()) for part in tables]) for name in TABLES}


def _concatenated(parts: Sequence[dict[Any, "pd.Series[Any]"]]) -> pd.DataFrame:
    """The rows of all parts, column by column, each of which the parts then lose: so no two copies are in memory."""
    names = [*parts[0]]
    columns = {name: columnar.compact(np.concatenate([part.pop(name) for part in parts])) for name in names}
    return pd.DataFrame(columns, copy=False)


def _apart_by_threads(attempts: pd.DataFrame) -> None:
    """Give timings with fewer CPU threads than others of their environment a key of their own, in place."""
    timed = attempts["latency_ms_p50"].notna() & attempts["environment"].notna()
    most = attempts["environment"].map(attempts[timed].groupby("environment")["threads"].max())
    apart = timed & (attempts["threads"] < most)
    if apart.any():
        attempts.loc[apart, "environment"] += "-" + attempts.loc[apart, "threads"].astype(str)


class _Rows:
    """Rows in the making."""

    def __init__(self) -> None:
        self.known = set[str]()
        self.columns = {name: {c: list[Any]() for c in ("file", *columns)} for name, columns in TABLES.items()}
        self.of_environments: dict[tuple[Any, ...], dict[str, Any]] = {}

    def add(self, attempt: Attempt, record: Record) -> None:
        """Take in what a record says."""
        self.known.add(attempt.file)
        values = record.values
        row = dict(values or ())
        if record.environment:
            row |= self._of_environment(record.environment) | {"load_average": record.environment.load_average}
        row["started_at"], row["notices"] = record.started_at.isoformat(), json.dumps(record.notices)
        row["attempt_seconds"] = record.seconds
        if isinstance(values, TrainValues) and values.test_right is not None:
            row["outcomes"] = values.test_images
        row |= _derived(record)
        self._append("attempts", attempt, row)
        if isinstance(values, TrainValues):
            for epoch in values.epochs:
                self._append("epochs", attempt, dict(epoch))
        if isinstance(values, TimeValues) and isinstance(record.trial, TimeTrial):
            self._append("timings", attempt, _timing(values))
            for process in _processes(values, record.trial.batch_size):
                self._append("processes", attempt, process)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The rows, see :data:`TABLES`."""
        return {
            name: pd.DataFrame({c: pd.Series(v, dtype=object if c in WORDS else "float64") for c, v in columns.items()})
            for name, columns in self.columns.items()
        }

    def _of_environment(self, environment: Environment) -> dict[str, Any]:
        """Columns of an environment, made once for those that differ in load alone, as a hundred thousand may do."""
        key = tuple([tuple(v.items()) if isinstance(v, dict) else v for k, v in environment if k != "load_average"])
        if key not in self.of_environments:
            unloaded = environment.model_copy(update={"load_average": None})
            self.of_environments[key] = {
                "machine": environment.machine, "software": environment.software,
                "environment": environment_key(environment), "commit": environment.commit,
                "dirty": environment.dirty, "threads": environment.threads,
                "environment_json": unloaded.model_dump_json(),
            }  # fmt: skip
        return self.of_environments[key]

    def _append(self, table: str, attempt: Attempt, row: Mapping[str, Any]) -> None:
        columns = self.columns[table]
        columns["file"].append(attempt.file)
        for name in TABLES[table]:
            columns[name].append(row.get(name))


def environment_key(environment: Environment) -> str:
    """Hash of what comparable results share: hardware, driver, packages and code."""
    return digest({k: v for k, v in environment.model_dump(mode="json").items() if k not in MOVING}, 12)


def _derived(record: Record) -> dict[str, float]:
    """The values :data:`DERIVED` of a training run; none of other trials.

    These are its operations, images per second of its epochs and of the whole of it, the share of the device's measured
    peak that the steps reach (model FLOPs utilisation, Chowdhery et al. 2022, arXiv 2204.02311, appendix B; a teacher's
    operations are none of the model's), and seconds of the epochs before its own.

    Operations are three times those of the forward passes (Kaplan et al. 2020, §2.1). Where the head alone is trained,
    the forward passes are nearly all; what comes before them counts, too. Images are those of all the
    models that a program trains.
    """
    if not isinstance(record.values, TrainValues) or not isinstance(record.trial, TrainTrial):
        return {}
    recipe, values = record.trial.train, record.values
    images = recipe.images or recipe.epochs * values.train_images
    of_image = values.forward_flops if recipe.frozen else 3.0 * (values.trained_flops or values.forward_flops)
    derived = {"train_flops": of_image * images + values.preparation_flops}
    for name, seconds in (("epoch_images_per_s", values.train_seconds), ("trial_images_per_s", values.seconds)):
        if seconds:
            derived[name] = images / seconds
    derived["preparation_seconds"] = sum(epoch.seconds for epoch in (*values.pretraining, *values.teaching))
    if values.peak_flops_per_s:
        derived["of_peak"] = of_image * values.train_images_per_s / values.peak_flops_per_s
    return derived


def _timing(values: TimeValues) -> dict[str, Any]:
    latency = timings.latency(values)
    wall = [statistics.median(p.wall_ms) for p in values.processes if p.wall_ms]
    row: dict[str, Any] = {
        "latency_ms_low": latency.low, "latency_ms_high": latency.high, "speed_p": timings.chance(values),
        "wall_ms_p50": statistics.median(wall) if wall else None, "drift": values.drift,
        "outliers": timings.outliers(values), "unstable": "; ".join(timings.instability(values)),
        **asdict(timings.rate(values)),
    }  # fmt: skip
    # A ratio of latencies the other way round is one of speeds.
    for name, ratio in (("speed", timings.ratio(values)), ("control", timings.control(values))):
        if ratio is not None:
            row |= {name: 1 / ratio.estimate, f"{name}_low": 1 / ratio.high, f"{name}_high": 1 / ratio.low}
    if values.ceilings is not None:
        row |= {f"ceiling_{name}": value for name, value in dict(values.ceilings).items()}
    return row


def _processes(values: TimeValues, batch_size: int) -> Iterator[dict[str, Any]]:
    for number, samples in enumerate(values.processes):
        median = statistics.median(samples.latencies_ms) if samples.latencies_ms else None
        yield {
            "process": number,
            "latency_ms_p50": median,
            "images_per_s": batch_size / median * 1000 if median else None,
            "first_ms": samples.first_ms,
            "peak_memory_mib": samples.peak_memory_mib,
            "load_average": samples.load_average,
            "log_speed": timings.log_speed(samples.latencies_ms, samples.baseline_ms),
            "log_control": timings.log_speed(samples.control_ms, samples.baseline_ms),
        }


@functools.cache
def _made_by() -> str:
    """By whom kept rows must be made to be believed: other code may say something else of the same records."""
    whole = hashlib.sha256(json.dumps([VERSION, {name: [*columns] for name, columns in TABLES.items()}]).encode())
    for path in (Path(__file__), ROOT / "analysis" / "timings.py", ROOT / "analysis" / "columnar.py"):
        whole.update(path.read_bytes())
    return whole.hexdigest()[:12]
