"""Progress: a live view of a run on a terminal, plain lines elsewhere."""

import time
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from vitbench.cli.console import coloured, escape
from vitbench.store import PlannedTrial, Record, TimeValues, TrainValues, TuneValues
from vitbench.wording import duration

MAX_SHOWN = 8  # Running trials that have a line of their own; the others are counted


class LiveReporter:
    """Counts trials as they end: on a terminal beside a bar and a line for each that runs, elsewhere a line each."""

    def __init__(self, console: Console) -> None:
        self.console, self.total, self.done = console, 0, 0
        self.untuned = 0  # Cells whose training is planned when they are tuned
        self.states: Counter[str] = Counter()
        self.running: dict[str, tuple[str, str, float]] = {}  # Trial → its name, what it last said, and when it began
        self.progress = Progress(
            BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[left]}"),
            console=console,
        )  # fmt: skip
        self.task = self.progress.add_task("", total=None, left="")
        self.live: Live | None = None
        self.costs: dict[str, float] = {}  # Trial → seconds that it was estimated to take, of those that are left
        self.spent, self.left, self.took = 0.0, 0.0, 0.0
        """Estimated seconds of the trials that have ended, and of those that are left; what the former took."""
        self.begun, self.ends = 0.0, 0.0
        """When the first trial began, and when the last will have ended, as of the last that has."""
        self.printed: set[str] = set()  # Notices, and why trials are unsupported: each is said once

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.running.clear()
            self.live.stop()

    def expect(self, total: int, done: int, costs: Mapping[str, float], untuned: int = 0) -> None:
        """So many trials are planned, of which so many have ended, and the others are estimated to take so long."""
        self.total, self.done, self.untuned = total, done, untuned
        self.costs, self.left = dict(costs), sum(costs.values())
        self.progress.update(self.task, total=total, completed=done)
        if self.live is None and self.console.is_terminal:
            self.live = Live(get_renderable=self.view, console=self.console, refresh_per_second=4)
            self.live.start()

    def view(self) -> Group:
        """The live part: what is at the bottom of the terminal."""
        self.progress.update(self.task, left=self.time_left())
        counts = [f"{len(self.running)} running", *(f"{n} {state}" for state, n in self.states.most_common())]
        lines = [Text(", ".join(counts), overflow="ellipsis", no_wrap=True)]
        for name, text, _ in list(self.running.values())[:MAX_SHOWN]:
            lines.append(Text(f"  {name}: {text}", overflow="ellipsis", no_wrap=True))
        if len(self.running) > MAX_SHOWN:
            lines.append(Text(f"  and {len(self.running) - MAX_SHOWN} more"))
        return Group(self.progress, *lines)

    def note(self, text: str, prefix: str = "") -> None:
        """Something the user should know."""
        self.printed.add(text)
        mark = f"[yellow]{escape(prefix)}[/]" if prefix else ""
        self.console.print(f"{mark}{escape(text)}", highlight=False, soft_wrap=True)

    def started(self, planned: PlannedTrial) -> None:
        """A trial has begun."""
        now = time.monotonic()
        self.begun = self.begun or now
        self.running[planned.id] = planned.description, "starts", now

    def say(self, planned: PlannedTrial, text: str) -> None:
        """A running trial reports its progress."""
        _, _, began = self.running.get(planned.id, ("", "", time.monotonic()))
        self.running[planned.id] = planned.description, text, began

    def ended(self, planned: PlannedTrial, record: Record, final: bool, *, elsewhere: bool = False) -> None:
        """One attempt has ended, maybe in another driver; ``final`` unless the trial is tried again."""
        now = time.monotonic()
        _, _, began = self.running.pop(planned.id, ("", "", now))
        over = final and record.state != "interrupted"  # which is still to be run
        self.done += over
        self.states[record.state] += 1
        self.progress.update(self.task, completed=self.done)
        if over:
            cost = self.costs.pop(planned.id, 0.0)
            self.spent, self.left, self.took = self.spent + cost, self.left - cost, self.took + now - began
            self.estimate(now)
        if record.state == "unsupported":
            if record.reason in self.printed:
                return  # they are counted at the end
            self.printed.add(record.reason)
        text = (f"{self.done:>{len(str(self.total))}}/{self.total} {escape(planned.description)}: "
                f"{coloured(record.state)}{escape(result(record))}")  # fmt: skip
        after = ("" if final else " (tried again)") + (" (in another driver)" if elsewhere else "")
        if over and self.live is None and (left := self.time_left()):  # a terminal has a bar that says it
            after += f"; {left}"
        self.console.print(f"{text}{after}", highlight=False, soft_wrap=True)
        for notice in record.notices:
            if notice not in self.printed:
                self.note(notice, "notice: ")

    def estimate(self, now: float) -> None:
        """When the last trial will end, at the pace so far: running trials count by how far they have come."""
        if self.spent and self.took:
            ran = {trial_id: (now - began) * self.spent / self.took for trial_id, (*_, began) in self.running.items()}
            under_way = sum(min(seconds, self.costs.get(trial_id, 0.0)) for trial_id, seconds in ran.items())
            self.ends = now + (now - self.begun) * (self.left - under_way) / (self.spent + under_way)

    def time_left(self) -> str:
        """How long the rest takes; empty where that is not known yet, and at the end."""
        left = self.ends - time.monotonic()
        until = " until cells are tuned" if self.untuned else ""
        return f"about {duration(left)} left{until}" if left > 0.0 and self.costs else ""


def result(record: Record) -> str:
    """Result of an attempt, to be said after its state: the values that a reader looks for, or the reason."""
    if isinstance(record.values, TrainValues):
        return f", test {record.values.test_accuracy_pct:.1f} %, {record.seconds:.1f} s"
    if isinstance(record.values, TuneValues):
        return f", validation {record.values.validation_accuracy_pct:.1f} %, {record.seconds:.1f} s"
    if isinstance(record.values, TimeValues):
        return f", {record.values.latency_ms_p50:.2f} ms, {record.values.images_per_s:,.0f} images/s"
    return f" ({record.reason})" if record.reason else ""
