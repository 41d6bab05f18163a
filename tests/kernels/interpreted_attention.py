"""Asks all cases and checks of fused attention on the CPU, in Triton's interpreter: a line of JSON for each.

Run with TRITON_INTERPRET=1. A process of its own, since Triton reads the variable once, as the kernels are defined.
"""

import json
import sys
import traceback
from collections.abc import Callable

import torch

from tests.kernels.attention_cases import INTERPRETED_CASES, evaluate
from tests.kernels.attention_checks import INTERPRETED_CHECKS
from vitbench.kernels.attention import INTERPRETED

CHECKS = "checks"  # Set of what is no case


def main() -> None:
    """Print a line for each case of a set, or for each check, whose place is ``part``."""
    assert INTERPRETED
    wanted, (part, parts) = sys.argv[1], map(int, sys.argv[2:])
    torch.set_num_threads(1)  # the parts run side by side, and the interpreter itself has one thread
    jobs: dict[str, Callable[[], object]] = {
        name: lambda case=case: evaluate(case, "cpu") for name, case in INTERPRETED_CASES.items() if case.set == wanted
    }
    if wanted == CHECKS:
        jobs = {name: lambda check=check: check("cpu") for name, check in INTERPRETED_CHECKS.items()}
    for name, job in list(jobs.items())[part::parts]:
        report(name, job)


def report(name: str, run: Callable[[], object]) -> None:
    """Print the result, or the failure."""
    try:
        line = {"name": name, "result": run(), "failure": None}
    except Exception:
        line = {"name": name, "result": None, "failure": traceback.format_exc()}
    sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
