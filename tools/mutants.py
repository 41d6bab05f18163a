"""Mutants: changes that tests once let pass, each made in a copy of the repository, and whether tests now fail.

python -m tools.mutants [NAME ...]
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[1]


class Mutant(NamedTuple):
    """A text in a file of the package, what takes its place, and the test that ought to fail."""

    file: str
    before: str
    after: str
    test: str


FORMULAS = "tests/components/test_formulas.py"
MUTANTS = {
    "data order without the seed": Mutant(
        "data/batches.py", 'generator=self._stream("order", number)', "generator=torch.Generator().manual_seed(number)",
        "tests/training/test_recipes.py::test_the_order_of_the_images_is_the_seed_s_and_the_epoch_s",
    ),
    "base of RoPE": Mutant(
        "components/positions/rope_2d.py", '"base": (100.0,', '"base": (10_000.0,',
        f"{FORMULAS}::test_rotary_positions",
    ),
    "width of SwiGLU": Mutant(
        "components/mlp/_gated.py", "spec.hidden * 2 / 3", "spec.hidden / 2", f"{FORMULAS}::test_gated_mlp"
    ),
    "cosines in two dimensions": Mutant(
        "components/positions/sinusoidal_2d.py", "columns.cos()", "columns.sin()",
        f"{FORMULAS}::test_fixed_positions_by_row_and_column",
    ),
    "place of post-norm": Mutant(
        "components/norm/post.py", "norm(join(tokens, sublayer(tokens)))", "join(tokens, norm(sublayer(tokens)))",
        f"{FORMULAS}::test_block",
    ),
    "axis of sequence pooling": Mutant(
        "components/pooling/sequence.py", ".softmax(dim=1)", ".softmax(dim=2)", f"{FORMULAS}::test_pooling",
    ),
    "timing's bootstrap without processes": Mutant(
        "analysis/timings.py", "chosen = chance.integers(len(arrays), size=(len(arrays), DRAWS))",
        "chosen = np.repeat(np.arange(len(arrays))[:, None], DRAWS, axis=1)",
        "tests/analysis/test_timings.py::test_processes_are_drawn_and_then_rounds_within_each",
    ),
    "t over processes as of a mean": Mutant(
        "analysis/timings.py", " * math.sqrt(math.pi / 2)", "",
        "tests/analysis/test_timings.py::test_what_processes_differ_by_is_in_the_interval_as_of_a_median",
    ),
    "gate ten times as wide": Mutant(
        "model/exactness.py", "FACTOR = 2.0", "FACTOR = 20.0",
        "tests/model/test_gate.py::test_planted_defects_are_refused",
    ),
    "one order of rounds in all processes": Mutant(
        "timing/measure.py", "digest([baseline.id, process])", "digest([baseline.id])",
        "tests/timing/test_measure.py::test_each_process_has_an_order_of_its_own",
    ),
}  # fmt: skip


def fails(test: str, mutant: Mutant | None = None) -> bool:
    """Whether a test fails in a copy of the repository, with a mutant in it or as it is."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("vitbench", "tests", "docs"):
            shutil.copytree(REPOSITORY / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(REPOSITORY / "pyproject.toml", copy)
        if mutant is not None:
            path = copy / "vitbench" / mutant.file
            text = path.read_text(encoding="utf-8")
            if text.count(mutant.before) < 1:
                raise ValueError(f'{mutant.file} holds no "{mutant.before}": the mutant is out of date')
            path.write_text(text.replace(mutant.before, mutant.after), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", test],
            cwd=copy, env={**os.environ, "PYTHONPATH": folder}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode not in (0, 1):
            raise ValueError(f"{test}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.returncode == 1


def main(names: list[str]) -> int:
    """Print what became of each mutant; 1 if one lives, or a test fails without one."""
    bad = 0
    for name in names or MUTANTS:
        mutant = MUTANTS[name]
        outcome = "fails without it" if fails(mutant.test) else "dead" if fails(mutant.test, mutant) else "lives"
        bad += outcome != "dead"
        sys.stdout.write(f"{outcome:16} {name}: {mutant.test}\n")
        sys.stdout.flush()
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
