"""How benchmarks are printed: for each group a table of four columns, and at the end the ratios that matter."""

import pytest
from tabulate import tabulate

WIDTH = 120
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


@pytest.hookimpl(tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The tables, in place of pytest-benchmark's own, whose nine columns take 200 characters."""
    session = getattr(config, "_benchmarksession", None)
    if session is None:
        return
    session.quiet = True
    ratios = []
    for name, benchmarks in session.groups or []:
        terminalreporter.write_line(f"\n{name or 'others'}")
        terminalreporter.write_line(table(benchmarks))
        ratios += [each["extra_info"]["ratio"] for each in benchmarks if "ratio" in each["extra_info"]]
    if ratios:
        terminalreporter.write_line("\n" + "\n".join(ratios))


def table(benchmarks: list[dict[str, object]]) -> str:
    """Name, median, interquartile range, rounds, and the median over that of the group's first."""
    first = float(str(benchmarks[0]["median"]))
    rows = []
    for each in benchmarks:
        median, spread = float(str(each["median"])), float(str(each["iqr"]))
        factor, unit = next((u for u in UNITS if median >= u[0]), UNITS[-1])
        rows.append([str(each["name"]).removeprefix("test_")[: WIDTH - 60], f"{median / factor:.3g} {unit}",
                     f"{spread / factor:.2g} {unit}", each["rounds"], f"{median / first:.2f}"])  # fmt: skip
    heads = ["", "median", "IQR", "rounds", "× first"]
    return tabulate(rows, heads, disable_numparse=True, colalign=("left", *["right"] * 4))
