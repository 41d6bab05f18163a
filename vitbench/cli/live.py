"""Live: a view of a running study, for a terminal other than the one that runs it."""

import time
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.text import Text

from vitbench.cli.console import COLOURS, visible
from vitbench.cli.progress import result
from vitbench.runner.watch import PENDING, RUNNING, Snapshot, Watch
from vitbench.store import Record, StudyFolder
from vitbench.wording import duration, plural

SECONDS = 1.0  # Time between two looks
INTERRUPTED = 130  # Exit status after Ctrl-C, as of any command: 0 says that the study has ended
SHADES = {**COLOURS, PENDING: "bright_black"}
FIRST = ("ok", "unsupported")
LAST = (RUNNING, PENDING)
"""States in the bar's order: what came out well, what did not, what is at work, what is to come."""
LINES_APART = 10  # Lines of the view beside its lists: name, bar, counts, pace, and the heads of the lists
LEAST_LINES = 2  # Fewest lines of each list, however low the terminal is


def follow(study: StudyFolder, console: Console) -> int:
    """Draw a study anew until it has ended. Returns the exit status: 0, or 130 after Ctrl-C.

    Raises:
        StudyError: where the study's folder goes away.
    """
    watch = Watch(study)
    try:
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                moment = watch.look()
                live.update(view(moment, console.height), refresh=True)
                if moment.ended:
                    return 0
                time.sleep(SECONDS)
    except KeyboardInterrupt:
        return INTERRUPTED


def view(moment: Snapshot, height: int) -> Group:
    """A study at one moment, in at most so many lines of a terminal."""
    lines = max((height - LINES_APART) // 3, LEAST_LINES)
    parts: list[RenderableType] = [_head(moment), _Bar(moment.states), _counts(moment), _pace(moment)]
    if moment.running:
        parts += [_title("running", len(moment.running), lines), _running(moment, lines)]
    if moment.latest:
        parts += [Text("latest", style="bold"), _latest(moment, lines)]
    if moment.troubles:
        parts += [_title("not ok", len(moment.troubles), lines), _troubles(moment, lines)]
    return Group(*parts)


class _Bar:
    """A bar as wide as the terminal, each state its share, and at the least one column."""

    def __init__(self, states: Mapping[str, int]) -> None:
        self.states = states

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shares = self.widths(options.max_width)
        yield Text.assemble(*(("━" * width, SHADES.get(state, "red")) for state, width in shares), no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, options.max_width)

    def widths(self, whole: int) -> Iterator[tuple[str, int]]:
        """Columns of each state; together the whole width."""
        total, done, start = sum(self.states.values()), 0, 0
        order = ordered(self.states)
        for number, state in enumerate(order, 1):
            done += self.states[state]
            end = max(round(whole * done / total), start + 1)
            end = min(end, whole - (len(order) - number))  # the others need a column each, too
            yield state, max(end - start, 0)
            start = max(end, start)


def ordered(states: Mapping[str, int]) -> list[str]:
    """The states that there are, in the order of the bar."""
    there = [state for state, number in states.items() if number]
    middle = sorted((state for state in there if state not in (*FIRST, *LAST)), key=lambda s: (-states[s], s))
    return [*(s for s in FIRST if s in there), *middle, *(s for s in LAST if s in there)]


def _line(*parts: str | tuple[str, str]) -> Text:
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def _one_line(text: str) -> str:
    return " ".join(visible(text).split())


def _head(moment: Snapshot) -> Text:
    return _line((_one_line(moment.name), "bold"), "  ", _one_line(moment.question))


def _counts(moment: Snapshot) -> Text:
    counts = Text()
    for state in ordered(moment.states):
        counts.append("● ", SHADES.get(state, "red")).append(f"{moment.states[state]:,} {state}   ")
    counts.append(f"of {moment.total:,}", "dim")
    return counts


def _pace(moment: Snapshot) -> Text:
    if moment.ended:
        return _line(("ended", "bold"), ": nothing is left to run")
    cells, when = ("cell", "it is") if moment.untuned == 1 else ("cells", "they are")
    more = f"; the training of {moment.untuned} {cells} is planned when {when} tuned" if moment.untuned else ""
    if not moment.drivers and moment.waiting:
        return _line(("waiting", "yellow"), f": {'; '.join(moment.waiting)}{more}")
    if not moment.drivers:
        return _line(("nobody is at work on it", "yellow"), f"; `vitbench run` goes on{more}")
    drivers = "" if moment.drivers == 1 else f" in {moment.drivers} drivers"
    pace = (
        f"{moment.per_minute:,.1f} trials a minute{drivers}" if moment.per_minute else f"the first trials run{drivers}"
    )
    left = f", about {duration(moment.left_s)} left" if moment.left_s is not None else ""
    if left and moment.unpaced:
        left += f", and {plural(moment.unpaced, 'trial')} of kinds that have not run yet"
    return Text(f"{pace}{left}{more}")  # on two lines of a narrow terminal, rather than cut


def _title(text: str, number: int, lines: int) -> Text:
    more = f"  {lines} of {number:,}" if number > lines else ""
    return Text.assemble((text, "bold"), (more, "dim"))


def _running(moment: Snapshot, lines: int) -> Group:
    rows = []
    for each in moment.running[:lines]:
        age = Text("waits", style="dim") if each.seconds is None else Text(clock(each.seconds), style="cyan")
        rows.append((age, Text(_one_line(each.label))))
    return _table(rows)


def _latest(moment: Snapshot, lines: int) -> Group:
    rows = [
        (Text(record.state, style=SHADES.get(record.state, "red")), _measured(record), Text(_one_line(label)))
        for label, record in moment.latest[:lines]
    ]
    return _table(rows)


def _measured(record: Record) -> Text:
    return Text("" if record.values is None else _one_line(result(record).removeprefix(", ")))


def _troubles(moment: Snapshot, lines: int) -> Group:
    rows = [
        (Text(f"{number:,} ×", justify="right"), Text(state, style=SHADES.get(state, "red")),
         Text(_one_line(reason) or "no reason recorded"))
        for (state, reason), number in sorted(moment.troubles.items(), key=lambda item: (-item[1], item[0]))[:lines]
    ]  # fmt: skip
    return _table(rows)


def _table(rows: Sequence[Sequence[Text]]) -> Group:
    """Rows in columns, each one line that is cut where the terminal ends, so that its last column loses first."""
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        line = Text(no_wrap=True, overflow="ellipsis")
        for cell, width in zip(row[:-1], widths, strict=False):
            room = " " * (width - cell.cell_len)
            line.append_text(Text.assemble(room, cell) if cell.justify == "right" else Text.assemble(cell, room))
            line.append("  ")
        lines.append(line.append_text(row[-1]))
    return Group(*lines)


def clock(seconds: float) -> str:
    """Seconds as a clock shows them: 0:07, 12:30, 3:07:05."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
