"""What a suite plans beside its cells: seeds by number, budgets, nuisance axes, facts, a small form."""

from pathlib import Path

import pytest

from tests.config.test_suite import messages, read
from vitbench.config import SpecError
from vitbench.config.reading import read_suite
from vitbench.config.suite import RESERVED
from vitbench.runner.plan import plan

BASE = """
[suite]
name = "t"
question = "?"
[model]
dim = 32
depth = 2
[data]
name = "synthetic"
train_images = 200
test_images = 60
validation_images = 40
[train]
learning_rate = 1e-3
[axes]
positions = ["learned", "none"]
"""

TUNE = """
[tune]
seeds = 2
train.learning_rate = [1e-3, 1e-2]
train.weight_decay = [0.0, 0.1]
"""

FACT = """
[[facts]]
claim = "positions matter"
axis = "positions"
value = "none"
against = "learned"
expected = "lower"
size = -6.9
source = "someone"
"""


def test_a_number_of_seeds_is_drawn_from_the_master_seed(tmp_path: Path) -> None:
    def seeds(*overrides: str) -> set[tuple[int, ...]]:
        return {cell.seeds for cell in read(tmp_path, BASE, *overrides).cells}

    assert seeds("train.seeds=3") == {(0, 1, 2)}
    assert seeds("train.seeds=3", "suite.seed=7") == {(7000, 7001, 7002)}
    assert seeds("train.seeds=[4, 2]", "suite.seed=7") == {(4, 2)}
    assert "must be" in messages(tmp_path, BASE, "train.seeds=0")[0]


def test_synthetic_images_are_of_the_master_seed_unless_they_have_their_own(tmp_path: Path) -> None:
    def image_seeds(*overrides: str) -> set[int]:
        return {cell.data.image_seed for cell in read(tmp_path, BASE, *overrides).cells}

    assert image_seeds() == {0}
    assert image_seeds("suite.seed=7") == {7}
    assert image_seeds("suite.seed=7", "data.image_seed=1") == {1}


def test_every_cell_has_the_same_settings_to_choose_from(tmp_path: Path) -> None:
    suite = read(tmp_path, BASE + TUNE)
    assert suite.tune is not None and suite.tune.seeds == 2
    for cell in suite.cells:
        assert [(s.train.learning_rate, s.train.weight_decay) for s in cell.settings] == [
            (1e-3, 0.0), (1e-3, 0.1), (1e-2, 0.0), (1e-2, 0.1)
        ]  # fmt: skip
    assert all(not cell.settings for cell in read(tmp_path, BASE).cells)


WRONG_TUNE = [
    ("tune.train.learning_rat=[1.0]", 'tune.train.learning_rat: is no field of the recipe; did you mean "train.learn'),
    ("tune.axes.train.betas=[[0.9, 0.9]]", "tune.axes.train.betas: is no field of the recipe: write train.betas"),
    ("tune.betas=[[0.9, 0.9]]", "tune.betas: is no field of the recipe: write train.betas = [...] in [tune] itself"),
    ("tune.train.learning_rate=1e-3", "tune.train.learning_rate: must be an array of values, got number 0.001"),
    ("tune.train.learning_rate=[]", "tune.train.learning_rate: must be an array of values"),
    ("tune.train.epochs=[1, 2]", "tune.train.epochs: is the same for all settings that are compared: it is not tuned"),
    ("tune.train.seeds=[1, 2]", "tune.train.seeds: is the same for all settings"),
    ("tune.train.learning_rate=[0.1, 0.1]", "tune.train.learning_rate: has a value twice"),
    ("data.validation_images=0", "tune: needs data.validation_images"),
    ("tune.train.test_sizes=[[16], [15]]", "cell learned: tune: learning_rate=0.001, weight_decay=0, test_sizes=15: "
     "train.test_sizes: 15: patch_size: 4 does not divide the image height 15 and"),
]  # fmt: skip


@pytest.mark.parametrize(("override", "message"), WRONG_TUNE)
def test_a_mistake_in_tune_is_named(tmp_path: Path, override: str, message: str) -> None:
    assert f"suite.toml: {message}" in messages(tmp_path, BASE + TUNE, override)[0]


def test_a_mistake_in_the_recipe_is_no_missing_recipe(tmp_path: Path) -> None:
    (message,) = messages(tmp_path, BASE + TUNE, "train.epochs=0")
    assert message.startswith("suite.toml: train.epochs: ")
    assert "tune: there is no [train] table" in messages(tmp_path, BASE.partition("[train]")[0] + TIMED + TUNE)[0]


TIMED = "[time]\nmodes = ['inference']\n"


def test_a_run_has_one_budget(tmp_path: Path) -> None:
    both = BASE.replace("[train]", "[train]\nepochs = 2\nflops = 1e9")
    assert messages(tmp_path, both) == ["suite.toml: train: epochs and flops are budgets of one run: give one of them"]
    assert "say the same twice" in messages(tmp_path, BASE, "train.match=flops", "train.flops=1e9")[0]
    assert read(tmp_path, BASE, "train.images=500").cells[0].train is not None


def test_a_budget_that_is_given_later_takes_the_place_of_the_earlier_one(tmp_path: Path) -> None:
    def budgets(text: str, *overrides: str, small: bool = False) -> set[tuple[int | None, int]]:
        cells = read(tmp_path, text, *overrides, small=small).cells
        return {(cell.train.images, cell.train.epochs) for cell in cells if cell.train}

    timed = BASE.replace("[train]", "[train]\nepochs = 3")
    assert budgets(timed, "train.images=500") == {(500, 10)}
    assert budgets(timed + "[small.train]\nimages = 70\n", small=True) == {(70, 10)}
    counted = BASE.replace("[train]", "[train]\nimages = 100").replace("[axes]", "[axes]\ntrain.epochs = [1, 3]")
    assert budgets(counted) == {(None, 1), (None, 3)}, "an axis of epochs is one, whatever the base's budget"


def test_what_is_under_study_is_not_tuned(tmp_path: Path) -> None:
    both = BASE.replace("[axes]", "[axes]\ntrain.learning_rate = [1e-4, 1e-2]") + TUNE
    assert "tune.train.learning_rate: is under study: an axis or a variant sets it" in messages(tmp_path, both)[0]


def test_a_preset_leaves_fields_of_the_base_out(tmp_path: Path) -> None:
    base = BASE.partition("[axes]")[0].replace("depth = 2", "depth = 2\nheads = 2\nhead_dim = 32")
    text = base + '[[variants]]\nname = "a"\n[[variants]]\nname = "b"\nset.preset = "cnn"\n'
    (tmp_path / "suite.toml").write_text(text)
    models = [planned.trial.model for planned in plan(read_suite(tmp_path / "suite.toml"), "cpu").trials]
    assert [model.head_dim for model in models] == [32, None]


def test_a_variant_that_differs_from_its_baseline_in_more_than_it_sets_is_named(tmp_path: Path) -> None:
    """It starts from the base, and the baseline of all is the first cell of the axes."""
    variants = '[[variants]]\nname = "{}"\nset = {{ mlp_ratio = 2.0, {} }}\n'
    text = BASE.replace('["learned", "none"]', '["none", "learned"]') + variants.format("far", "heads = 2")
    (notice,) = read(tmp_path, text + variants.format("near", 'positions = "none"')).notices
    assert notice == 'variants: far: their baseline, the first cell "none", also differs in positions'
    assert not read(tmp_path, BASE + variants.format("far", "heads = 2")).notices


@pytest.mark.parametrize("name", ["mode", "state", "seed", "commit"])
def test_an_axis_is_not_named_as_a_column(tmp_path: Path, name: str) -> None:
    text = BASE.replace("[axes]", "").replace('positions = ["learned", "none"]', "")
    axis = f'[[axes.{name}]]\nname = "a"\n[[axes.{name}]]\nname = "b"\nset.depth = 1\n'
    assert f"axes.{name}: is the name of a column" in messages(tmp_path, text + axis)[0]


def test_every_column_of_a_study_is_reserved(tmp_path: Path) -> None:
    from vitbench.analysis.frames import PLAN, TRIAL, VALUES, WHERE

    assert {*TRIAL, *WHERE, *PLAN, *VALUES} <= RESERVED


def test_a_fact_is_kept_as_it_was_claimed(tmp_path: Path) -> None:
    (fact,) = read(tmp_path, BASE + FACT).facts
    assert (fact.value, fact.against, fact.expected, fact.size) == ("none", "learned", "lower", -6.9)


GOAL = """
[[goals]]
cell = "positions=none"
test_accuracy = 60.0
"""


def test_a_goal_names_a_cell_and_goes_into_the_plan(tmp_path: Path) -> None:
    label = read(tmp_path, BASE).cells[1].label
    suite = read(tmp_path, BASE + GOAL.replace("positions=none", label))
    assert [(goal.cell, goal.test_accuracy) for goal in plan(suite, "cpu").goals] == [(label, 60.0)]


def test_a_goal_that_is_said_twice_is_named(tmp_path: Path) -> None:
    goal = GOAL.replace("positions=none", read(tmp_path, BASE).cells[1].label)
    assert messages(tmp_path, BASE + goal + goal)[0].startswith('suite.toml: goals[2]: says again that "')


MISTAKES = [
    (
        FACT,
        {'axis = "positions"': 'axis = "position"'},
        'facts[1].axis: "position" is no axis; did you mean "po',
    ),
    (
        FACT,
        {'value = "none"': 'value = "nine"'},
        'facts[1].value: "nine" is no value of positions; did you mean',
    ),
    (FACT, {'expected = "lower"': 'expected = "worse"'}, 'facts[1].expected: "worse" is not allowed'),
    (FACT, {"source": 'where = { depth = "2" }\nsource'}, 'facts[1].where: "depth" is no other axis'),
    (
        FACT,
        {'axis = "positions"\n': "", '"none"': '"nothing"'},
        'facts[1].value: "nothing" is no label of a cell',
    ),
    (FACT, {'claim = "positions matter"\n': ""}, "facts[1].claim: is required"),
    (FACT, {'"none"': '"learned"'}, 'facts[1].value: "learned" is what it is compared with'),
    (FACT, {'"lower"': '"equal"'}, 'facts[1].expected: "equal" needs suite.margin'),
    (GOAL, {"positions=none": "nine"}, 'goals[1].cell: "nine" is no label of a cell'),
    (GOAL, {"60.0": "100.1"}, "goals[1].test_accuracy"),
]


@pytest.mark.parametrize(("table", "changes", "message"), MISTAKES)
def test_a_mistake_in_a_fact_or_a_goal_is_named(
    tmp_path: Path, table: str, changes: dict[str, str], message: str
) -> None:
    for old, new in changes.items():
        assert old in table
        table = table.replace(old, new)
    assert messages(tmp_path, BASE + table)[0].startswith(f"suite.toml: {message}")


def test_the_small_form_replaces_what_it_names_and_has_a_name_of_its_own(tmp_path: Path) -> None:
    text = BASE + FACT + '[small.train]\nepochs = 3\n[small.axes]\npositions = ["learned", "none", "sinusoidal"]\n'
    small, full = read(tmp_path, text, small=True), read(tmp_path, text)
    assert (small.info.name, full.info.name) == ("t-small", "t")
    assert (len(small.cells), len(full.cells)) == (3, 2)
    recipes = [suite.cells[0].train for suite in (small, full)]
    assert [r.epochs for r in recipes if r] == [3, 10] and {r.learning_rate for r in recipes if r} == {1e-3}
    assert small.facts == full.facts


def test_a_type_of_device_has_its_own_values_and_the_small_form_goes_before_them(tmp_path: Path) -> None:
    text = BASE + "[device.cuda.train]\nimages = 700\nbatch_size = 32\n[small.train]\nepochs = 3\n"
    recipes = {
        (device, small): read(tmp_path, text, small=small, device=device).cells[0].train
        for device in ("cpu", "cuda") for small in (False, True)
    }  # fmt: skip
    budgets = {key: (r.epochs, r.images, r.batch_size) for key, r in recipes.items() if r}
    assert budgets["cpu", False][1:] == (None, 128) and budgets["cuda", False][1:] == (700, 32)
    assert budgets["cpu", True] == (3, None, 128) and budgets["cuda", True] == (3, None, 32)
    assert read(tmp_path, text, "train.batch_size=16", device="cuda").cells[0].train.batch_size == 16  # type: ignore[union-attr]


def test_a_mistake_in_a_devices_values_is_told_on_every_device(tmp_path: Path) -> None:
    assert messages(tmp_path, BASE + "[device.cuda.train]\nepoch = 3\n") == [
        'suite.toml: train.epoch: unknown key; did you mean "epochs"?'
    ]
    assert messages(tmp_path, BASE + "[device.gpu.train]\nepochs = 3\n")[0].startswith(
        "suite.toml: device.gpu: unknown"
    )
    assert messages(tmp_path, "device = 3\n" + BASE) == ["suite.toml: device: must be a table, got integer 3"]


def test_a_mistake_in_the_small_form_is_one_in_the_suite(tmp_path: Path) -> None:
    assert messages(tmp_path, BASE + "[small.train]\nepoch = 3\n") == [
        'suite.toml: train.epoch: unknown key; did you mean "epochs"?'
    ]
    with pytest.raises(SpecError, match="and so no small form"):
        read(tmp_path, BASE, small=True)
