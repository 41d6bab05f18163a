"""The contract of every component, whatever its slot. New files in vitbench/components are picked up by themselves."""

import inspect
import itertools
import re
import time
from collections.abc import Callable, Iterator

import pytest
import torch

from tests.components.cases import COMPILED, COMPONENTS, EXACT, SMALL, device_for, slow_where_compiled, small
from tests.conftest import REPOSITORY
from vitbench import registry
from vitbench.components import contracts
from vitbench.config.model import ModelSpec
from vitbench.devices import DTYPES
from vitbench.environment import has_bfloat16
from vitbench.model import contract
from vitbench.model.build import build_model
from vitbench.model.contract import CHECKS
from vitbench.model.counting import forward_flops
from vitbench.model.exactness import deviations
from vitbench.model.initial import initialise
from vitbench.runner.cost import approximate_flops

GUIDE = REPOSITORY / "docs" / "guide"

BASES = {
    "attention": contracts.Sublayer,
    "bias": contracts.Bias,
    "block": contracts.BlockForm,
    "gate": contracts.Gate,
    "head": torch.nn.Module,
    "mlp": contracts.Sublayer,
    "norm": contracts.Placement,
    "norm_layer": torch.nn.Module,
    "patching": contracts.Patching,
    "pooling": contracts.Pooling,
    "positions": contracts.Positions,
    "qk_norm": contracts.QKNorm,
    "reduction": contracts.Reduction,
    "residual": contracts.Residual,
    "runtime": contracts.Runtime,
}


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    """Each test compiles flex_attention anew: shapes of earlier ones count towards the compiler's limit."""
    yield
    torch.compiler.reset()


def test_the_guide_s_table_has_every_component() -> None:
    components: dict[str, set[str]] = {}
    slot = ""
    for row in re.findall(
        r"^\| (`.*|) ?\| (`.*`) \| .* \|$", (GUIDE / "components.md").read_text(), flags=re.MULTILINE
    ):
        slot = row[0].strip(" `") or slot
        components.setdefault(slot, set()).update(re.findall(r"`(\w+)`", row[1]))
    assert components == {slot: set(registry.names(slot)) for slot in registry.slots()}


@pytest.mark.parametrize(("slot", "name"), COMPONENTS)
def test_declares_what_it_is(slot: str, name: str) -> None:
    facts = registry.facts(slot, name)
    cls = registry.load(slot, name)
    assert issubclass(cls, BASES[slot])
    assert facts.source, "where it comes from"
    assert cls.__doc__ and facts.summary == cls.__doc__.splitlines()[0].rstrip(".")
    keywords = {each.name for each in inspect.signature(cls).parameters.values() if each.kind is each.KEYWORD_ONLY}
    assert keywords == {*facts.options}
    for other, feature in facts.needs.items():
        assert any(feature in registry.facts(other, n).offers for n in registry.names(other)), "nobody offers it"


@pytest.mark.parametrize("slot", registry.slots())
def test_at_most_one_reference(slot: str) -> None:
    names = registry.names(slot)
    references = [n for n in names if registry.facts(slot, n).reference]
    assert len(references) <= 1
    assert references or not any(registry.facts(slot, n).exact for n in names), "exact, and nothing to compare with"


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("slot", "name"), slow_where_compiled(*COMPONENTS))
def test_keeps_the_contract(slot: str, name: str, check: str) -> None:
    """Trains in a model, takes rectangles, is exact and starts like the reference where it says so."""
    trains = registry.facts(slot, name).trains_on != ()  # a runtime does not, and the model that it is given does
    device = device_for(small(slot, name), training=trains)
    assert not CHECKS[check](slot, name, device)


def test_images_of_another_size_are_judged_on_the_device_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A component that runs on a GPU alone has nothing on the CPU."""
    devices = set()

    def at_size(model: torch.nn.Module, size: int) -> Callable[[torch.Tensor], torch.Tensor]:
        devices.update(p.device.type for p in model.parameters())
        return lambda images: devices.add(images.device.type) or torch.zeros(len(images), SMALL.num_classes)

    monkeypatch.setattr(contract, "at_size", at_size)
    assert not contract.takes_other_sizes("attention", "sdpa", torch.device("meta"))
    assert devices == {"meta"}


@pytest.mark.parametrize(("slot", "name"), [c for c in COMPONENTS if registry.facts(*c).among])
def test_each_size_that_a_rule_names_runs_and_others_are_refused(slot: str, name: str) -> None:
    for quantity, values in registry.facts(slot, name).among.items():
        if quantity not in ModelSpec.model_fields:
            continue  # of the head width: tests of the kernel
        for value in (*values, max(values) + 1):
            spec = small(slot, name).model_copy(update={"image_size": max(values) * 2, quantity: value})
            assert bool(spec.conflicts()) == (value not in values)
            if not spec.conflicts():
                assert build_model(spec, 0)(torch.randn(1, 3, spec.image_size, spec.image_size)).shape == (1, 5)


@pytest.mark.parametrize(("slot", "name"), [c for c in COMPONENTS if "dim" in registry.facts(*c).multiple_of])
def test_each_width_that_a_rule_allows_runs_and_others_are_refused(slot: str, name: str) -> None:
    widths, allowed = range(8, 33), 0
    for dim in widths:
        spec = small(slot, name).model_copy(update={"dim": dim, "heads": 1})
        if not spec.conflicts():
            allowed += 1
            assert build_model(spec, 0)(torch.randn(1, 3, 16, 16)).shape == (1, 5)
    assert 2 <= allowed <= len(widths) - 8


STEMS = ("conv_tokenizer", "conv_stem", "resnet_stem", "resnet_stem(blocks=1)", "resnet_stem(blocks=3)")


@pytest.mark.parametrize(("slot", "name"), COMPONENTS)
def test_what_a_component_says_it_computes_is_what_is_counted(slot: str, name: str) -> None:
    spec = small(slot, name).model_copy(update={"mlp_ratio": 3.0})
    assert approximate_flops(spec) == forward_flops(spec)


@pytest.mark.parametrize("patch", [2, 4, 8, 16])
@pytest.mark.parametrize("name", STEMS)
def test_what_a_stem_computes_at_each_size_of_its_patches(name: str, patch: int) -> None:
    changes = {"patching": name, "patch_size": patch, "image_size": (16, 32), "channels": 5, "dim": 48, "heads": 1}
    spec = SMALL.model_copy(update=changes)
    if spec.conflicts():
        pytest.skip("; ".join(spec.conflicts()))
    assert approximate_flops(spec) == forward_flops(spec)


@pytest.mark.parametrize(
    ("slot", "name", "dtype"),
    slow_where_compiled(*((*each, dtype) for each in EXACT for dtype in ("float32", "bfloat16", "float16"))),
)
def test_exact_components_keep_the_error_rule(slot: str, name: str, dtype: str) -> None:
    """Output and every gradient against the float64 reference; attention also rotated, with q and k normed, gated."""
    plain, everything = ("learned", "none", "none"), ("rope_2d", "rmsnorm", "headwise")
    variations = [plain, everything] if name in COMPILED else itertools.product(*zip(plain, everything, strict=True))
    for positions, qk_norm, gate in variations if slot == "attention" else [plain]:
        changes = {"positions": positions, "qk_norm": qk_norm, "gate": gate}
        spec = small(slot, name).model_copy(update=changes)
        if spec.conflicts():
            continue
        training = registry.facts(slot, name).trains_on != ()
        training &= spec.unsupported("cpu", dtype, True) is None or torch.cuda.is_available()
        device = device_for(spec, training=training, dtype=dtype)
        results = deviations(slot, spec, device, DTYPES[dtype], backward=training)
        assert results[0].quantity == "output"
        assert len(results) >= (4 if training else 1) + training * (2 * (qk_norm != "none") + (gate != "none"))
        assert all(d.within for d in results), [changes, *(str(d) for d in results if not d.within)]


@pytest.mark.parametrize("name", registry.names("qk_norm"))
def test_normed_queries_keep_their_type(name: str) -> None:
    """Under autocast, too, where a norm gives float32: kernels take queries, keys and values of one type."""
    spec = SMALL.model_copy(update={"qk_norm": name})
    norm = registry.load("qk_norm", name)(spec)
    initialise(norm, spec.init_std, seed=0)
    q = torch.randn(2, spec.heads, 17, spec.head_width)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        with torch.autocast("cpu", torch.bfloat16):
            assert norm(q.to(dtype)).dtype == dtype
        assert norm.to(dtype)(q.to(dtype)).dtype == dtype
        norm.float()


@pytest.mark.parametrize(
    "name", slow_where_compiled(*((n,) for n in registry.names("attention") if registry.facts("attention", n).exact))
)
@pytest.mark.parametrize("positions", ["learned", "rope_2d"])
def test_attention_maps_are_those_of_the_reference(name: str, positions: str) -> None:
    spec = SMALL.model_copy(update={"attention": name, "positions": positions})
    if spec.conflicts():
        pytest.skip(spec.conflicts()[0])
    device = device_for(spec, training=False)
    images = torch.randn(2, 3, 16, 16)
    maps = build_model(spec, seed=0).to(device).attention_maps(images.to(device))
    wanted = build_model(spec.reference(), seed=0).attention_maps(images)
    assert [m.shape for m in maps] == [(2, 2, 17, 17)] * 2
    for actual, expected in zip(maps, wanted, strict=True):
        torch.testing.assert_close(actual.cpu().sum(-1), torch.ones(2, 2, 17))
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("bias", ["none", "relative"])
@pytest.mark.parametrize("attention", ["sdpa", "unscaled", "linear"])
def test_attention_maps_are_what_the_model_mixes_with(attention: str, bias: str) -> None:
    """The map of the first layer, applied by hand, gives the attention's output."""
    spec = SMALL.model_copy(update={"depth": 1, "attention": attention, "bias": bias})
    if spec.conflicts():
        pytest.skip(spec.conflicts()[0])
    model = build_model(spec, seed=0).eval()
    images = torch.randn(2, 3, 16, 16)
    block = model.encoder.blocks[0]
    with torch.no_grad():
        x = block.attention_norm(model.tokens(images))
        v = block.attention.split(block.attention.qkv(x), None)[2]
        mixed = model.attention_maps(images)[0] @ v
        torch.testing.assert_close(block.attention.proj(mixed.transpose(1, 2).flatten(2)), block.attention(x))


@pytest.mark.parametrize("name", ["sdpa", "grouped"])
def test_bfloat16_trains_on_a_cpu_without_torchs_slow_flash_attention(name: str) -> None:
    """Processor time of a step of attention: 0.5 of that with flash attention where bfloat16 is emulated.

    With instructions for bfloat16 it is 0.3 of it, and 0.65 of that of torch's plain backend by itself.
    """
    seconds = {}
    for each in (name, "sdpa_flash", "sdpa_math"):
        attention = (
            build_model(ModelSpec(dim=128, heads=4, depth=1, attention=each), seed=0).encoder.blocks[0].attention
        )
        x = torch.randn(64, 65, 128)
        q, k, v = (part.detach().bfloat16().requires_grad_() for part in attention.split(attention.qkv(x), None))
        laps = [time.process_time()]
        for _ in range(7):
            attention.attend(q, k, v).sum().backward()
            laps.append(time.process_time())
        seconds[each] = min(b - a for a, b in itertools.pairwise(laps))
    assert seconds[name] < 0.8 * seconds["sdpa_flash"]
    assert not has_bfloat16() or seconds[name] < 0.85 * seconds["sdpa_math"]


def test_a_model_without_attention_has_no_maps() -> None:
    with pytest.raises(ValueError, match='"none" has no attention maps'):
        build_model(small("attention", "none"), seed=0).attention_maps(torch.randn(1, 3, 16, 16))


def test_without_attention_tokens_do_not_mix() -> None:
    model = build_model(small("attention", "none"), seed=0).eval()
    images = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        assert torch.equal(*model(images)), "the class token has seen a patch"


@pytest.mark.parametrize("name", registry.names("positions"))
def test_positions_matter_or_not(name: str) -> None:
    """Shuffled patches: the same logits without positions, others with them."""
    spec = SMALL.model_copy(update={"positions": name, "pooling": "mean", "init_std": 0.5})
    model = build_model(spec, seed=0).double().eval()
    images = torch.randn(1, 3, 16, 16, dtype=torch.float64)
    shuffled = images.unflatten(2, (4, 4)).roll(1, dims=2).flatten(2, 3)
    with torch.no_grad():
        same = torch.allclose(model(images), model(shuffled), atol=1e-9)
    assert same == (name == "none")


def test_conflicts_are_named_before_anything_is_built() -> None:
    for given, message in (
        (
            {"attention": "mha", "positions": "rope_2d"},
            'positions "rope_2d" needs "rotary", which attention "mha" does',
        ),
        ({"attention": "flex", "attention_dropout": 0.1}, 'attention "flex" has no attention_dropout'),
        ({"attention": "triton", "dim": 48, "heads": 4}, "takes a head_width of 16, 32, 64, 80, 96, 128, not 12"),
    ):
        with pytest.raises(ValueError, match=message):
            build_model(ModelSpec.model_validate(given), seed=0)
