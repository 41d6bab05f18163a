"""StudyInfo: a study's plan and settings, as ``study.json`` holds them."""

from typing import Annotated, Literal

from pydantic import Field

from vitbench.config.base import Positive, Seed, Strict, Text
from vitbench.config.suite import Goal, Hypothesis, Info, Value
from vitbench.store.trials import Trials


class Disagreement(Strict):
    """Implementations that ought to be equivalent and disagree with the first seed: each is trained with every one."""

    cells: tuple[str, ...]
    reason: str


class LookPlan(Strict):
    """Looks that the plan has from the start: cells that are decided at one are trained with no further seed."""

    seeds: tuple[Seed, ...] = Field(description="all that there may be, in their order")
    at: tuple[Positive, ...] = Field(description="how many of them have been run at each look")
    trainings: Annotated[int, Field(ge=0)] = Field(description="training runs if nothing stopped early")


class StudyInfo(Strict):
    """A study's plan and settings: written when a run starts, replaced when its suite has changed."""

    schema_version: Literal[3] = 3
    suite: Info
    suite_file: Text
    options: tuple[Text, ...] = Field((), description="of the command line, that changed what the file says")
    commands: tuple[tuple[str, ...], ...] = Field(
        (), description="arguments of each command line that planned some of the trials; empty where not all are known"
    )
    axes: dict[str, tuple[Value, ...]]
    data_name: str = Field(description="what the images are called in the report")
    data_identity: str = Field(description="empty where nothing is trained")
    fallback: Text | None = Field(None, description="why the data are not those that the suite asks for")
    class_names: tuple[str, ...] = ()
    excluded: tuple[tuple[str, str], ...] = ()
    facts: tuple[Hypothesis, ...] = ()
    goals: tuple[Goal, ...] = ()
    tuned: dict[str, tuple[Value, ...]] = Field(
        default_factory=dict, description="nuisance axes and their values; each cell has its own choice of them"
    )
    untuned: tuple[str, ...] = Field((), description="cells whose training waits for the choice of a setting")
    implementations: Literal["one", "all"] | None = Field(
        None, description="of equivalent ones, which are trained with further seeds; None: nothing is trained"
    )
    split: tuple[Disagreement, ...] = ()
    looks: LookPlan | None = Field(None, description="None: every seed is run, whatever comes out")
    history: Annotated[int, Field(ge=0, le=1_000_000)] = Field(0, description="number of the history's last entry")
    trials: Trials

    def to_json(self) -> str:
        """Text of ``study.json``: schema version 3, in which trials stand as the tables of what they share."""
        head = self.model_dump_json(indent=1, exclude_defaults=True, exclude={"schema_version", "trials"})
        return f'{head[:-2]},\n "schema_version": 3,\n "trials": {self.trials.tables.to_json()}\n}}\n'
