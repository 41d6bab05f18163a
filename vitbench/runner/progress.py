"""What a user sees while a study runs: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from vitbench.runner.terminal import escape
from vitbench.spec.suite import setting_in_words
from vitbench.store import PlannedTrial, Record, TimeValues, TrainValues, TuneValues

COLOURS = {"ok": "green", "unsupported": "yellow", "interrupted": "yellow", "pending": "white"}


class Reporter:
    """Counts trials as they end. On a terminal with a bar; without one, a line a trial."""

    def __init__(self, console: Console, total: int, done: int) -> None:
        """``total`` trials are planned, of which ``done`` had ended before."""
        self.console, self.total, self.done = console, total, done
        self.bar: Progress | None = None
        self.task: TaskID | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"),
                       TimeRemainingColumn(), TextColumn("{task.description}"))  # fmt: skip
            self.bar = Progress(*columns, console=self.console)
            self.task = self.bar.add_task("", total=self.total, completed=self.done)
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def expect(self, total: int, done: int) -> None:
        """So many trials are planned now, of which so many have ended."""
        self.total, self.done = total, done
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, total=total, completed=done)

    def say(self, text: str) -> None:
        """What a running trial last said."""
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, description=escape(text))

    def ended(self, planned: PlannedTrial, record: Record, final: bool) -> None:
        """One attempt has ended; ``final`` unless the trial is tried again."""
        self.done += final
        text = (f"{self.done:>{len(str(self.total))}}/{self.total} {escape(describe(planned))}: "
                f"[{COLOURS.get(record.state, 'red')}]{record.state}[/]{escape(_result(record))}")  # fmt: skip
        self.console.print(text if final else f"{text} (tried again)", highlight=False, soft_wrap=True)
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, completed=self.done)


def describe(planned: PlannedTrial) -> str:
    """A trial in words: its cell, and the seed or the setting in which it is timed."""
    trial = planned.trial
    if trial.kind == "tune":
        return f"{planned.cell}, {setting_in_words(planned.setting)}, tuning seed {trial.seed}"
    if trial.kind == "train":
        return f"{planned.cell}, seed {trial.seed}"
    part = "" if trial.level == "model" else f"{trial.level} ({trial.shape}), "
    return f"{planned.cell}, {part}{trial.mode}, {trial.dtype}, batch {trial.batch_size}"


def _result(record: Record) -> str:
    if isinstance(record.values, TrainValues):
        return f", test {record.values.test_accuracy_pct:.1f} %, {record.seconds:.1f} s"
    if isinstance(record.values, TuneValues):
        return f", validation {record.values.validation_accuracy_pct:.1f} %, {record.seconds:.1f} s"
    if isinstance(record.values, TimeValues):
        return f", {record.values.latency_ms_p50:.2f} ms, {record.values.images_per_s:,.0f} images/s"
    return f" ({record.reason})" if record.reason else ""
