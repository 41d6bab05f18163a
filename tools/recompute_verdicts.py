"""Sign-flip, Welch and permutation p of every comparison of the reference studies, side by side, as a Markdown table.

    python -m tools.recompute_verdicts results/reference

The sign-flip column is uncorrected, as are the others; the verdict is that of the report.
"""

import sys
from pathlib import Path

import click
import numpy as np

from vitbench.analysis.differences import permutation_p, unpaired
from vitbench.analysis.paired import sign_flip_ps
from vitbench.report.view import View
from vitbench.store import StudyFolder


def main(folder: Path) -> None:
    """Print a row for each comparison that has four seeds or more."""
    click.echo("| study | comparison | difference | sign-flip p | Welch p | permutation p | p (Holm) | verdict |")
    click.echo("| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for path in sorted(p.parent for p in folder.glob("*/study.json")):
        for group in View(StudyFolder.read(path)).conclusions:
            labels = {id(each.judged): f"claim: {each.hypothesis.claim}" for each in group.hypotheses}
            for judged in group.judged:
                c = judged.comparison
                if judged.n >= 4:
                    arms = np.array([c.variant]), np.array([c.baseline])
                    values = sign_flip_ps([c.deltas])[0], unpaired(*arms).p[0], permutation_p(*arms)[0], judged.p_holm
                    columns = " | ".join(f"{p:.4f}" for p in values)
                    name = labels.get(id(judged), c.label)
                    click.echo(f"| {path.name} | {name} | {judged.mean:+.2f} | {columns} | {judged.verdict} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
