"""Classes of cells that train the same function with equivalent implementations."""

from vitbench.config.base import by_identity, dumps
from vitbench.config.model import ModelSpec
from vitbench.config.trial import TimeTrial, images_body
from vitbench.store.builder import text_of_spec
from vitbench.store.plan_tables import PlannedTrial
from vitbench.store.trials import Trials

Function = tuple[str, str, str]
"""Equal for trials that compute the same, whichever exact components do it, and with whichever seed."""


class Functions:
    """Functions that trials compute; specs that they share are written once."""

    def __init__(self) -> None:
        self.model, self.recipe = by_identity(ModelSpec.canonical), by_identity(text_of_spec)
        self.images = by_identity(lambda data, identity: dumps(images_body(data, identity)))

    def __call__(self, planned: PlannedTrial) -> Function:
        """The function of one trial."""
        trial = planned.trial
        model = {k: v for k, v in self.model(trial.model).items() if not planned.exact.get(k)}
        if isinstance(trial, TimeTrial):
            return trial.kind, str(model), ""
        return trial.kind, str(model), self.recipe(trial.train) + self.images(trial.data, trial.data_identity)


def classes(trials: Trials) -> list[list[PlannedTrial]]:
    """Trials with the first seed of each function that two cells or more train, in the plan's order."""
    function, members = Functions(), dict[tuple[str, Function], list[PlannedTrial]]()
    for planned in trials.up_to_seed:
        if planned.trial.kind == "train":
            members.setdefault((planned.trial.device, function(planned)), []).append(planned)
    return [trained for trained in members.values() if len(trained) > 1]
