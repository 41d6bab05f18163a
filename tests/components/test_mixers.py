"""Biases of scores, and what stands in the place of exact attention: by formula in float64, and beside timm."""

import cmath
import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.components.cases import SMALL
from tests.components.test_formulas import B, D, H, K, N, filled, gelu, layernorm, made, tokens
from vitbench import registry
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import TrainSpec
from vitbench.config.trial import ensemble_problem, mismatches
from vitbench.model.build import build_model
from vitbench.model.encoder import chosen
from vitbench.model.exactness import deviations, is_compared
from vitbench.model.optimiser import weights

GRID = (3, 4)
WIDE = SMALL.model_copy(update={"image_size": (12, 16), "heads": 4})
BIASED = [name for name in registry.names("attention") if "bias" in registry.facts("attention", name).offers]
BIASES = [name for name in registry.names("bias") if name != "none"]


def softmax(scores: Tensor) -> Tensor:
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True)


def close(actual: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(actual, wanted, rtol=1e-9, atol=1e-9)


def pair(token: int, prefix: int) -> tuple[int, int] | None:
    """Row and column of a token in GRID; None before the patches."""
    return divmod(token - prefix, GRID[1]) if token >= prefix else None


def bias_of(name: str, prefix: int) -> tuple[nn.Module, ModelSpec]:
    changes = {0: {"pooling": "mean"}, 1: {}, 3: {"registers": 2}}[prefix]
    spec = WIDE.model_copy(update={"bias": name, **changes})
    assert spec.prefix == prefix and spec.grid == GRID
    return filled(chosen("bias", spec)(spec)), spec


@pytest.mark.parametrize("prefix", [0, 1, 3])
def test_relative(prefix: int) -> None:
    """The number in the table that BEiT's own index has for a pair, written out pair by pair."""
    module, spec = bias_of("relative", prefix)
    table, bias = module.table, module()
    of_patches = (2 * GRID[0] - 1) * (2 * GRID[1] - 1)
    assert table.shape == (of_patches + 3 * (prefix > 0), spec.heads) and bias.shape == (
        spec.heads,
        spec.tokens,
        spec.tokens,
    )
    for query in range(spec.tokens):
        for key in range(spec.tokens):
            q, k = pair(query, prefix), pair(key, prefix)
            if q and k:
                place = (q[0] - k[0] + GRID[0] - 1) * (2 * GRID[1] - 1) + q[1] - k[1] + GRID[1] - 1
            else:
                place = of_patches + (2 if not (q or k) else 1 if q else 0)
            assert torch.equal(bias[:, query, key], table[place])


@pytest.mark.parametrize("prefix", [0, 1, 3])
def test_relative_mlp(prefix: int) -> None:
    module, spec = bias_of("relative_mlp", prefix)
    p, bias = dict(module.named_parameters()), module()

    def scaled(offset: int, side: int) -> float:
        x = offset / (side - 1) * 8
        return math.copysign(math.log2(abs(x) + 1) / 3, x) if x else 0.0

    for query, key in ((0, 0), (1, 5), (4, 3), (11, 4), (3, 11)):
        q, k = pair(query, prefix), pair(key, prefix)
        wanted = torch.zeros(spec.heads, dtype=torch.float64)
        if q and k:
            offset = torch.tensor([scaled(q[i] - k[i], GRID[i]) for i in (0, 1)], dtype=torch.float64)
            hidden = (p["up.weight"] @ offset + p["up.bias"]).clamp(min=0)
            wanted = 16 / (1 + torch.exp(-(p["down.weight"] @ hidden)))
        torch.testing.assert_close(bias[:, query, key], wanted, rtol=1e-6, atol=1e-6)  # offsets are kept in float32


@pytest.mark.parametrize("prefix", [0, 1, 3])
@pytest.mark.parametrize(
    ("heads", "slopes"), [(4, [2**-2, 2**-4, 2**-6, 2**-8]), (1, [2**-8]), (3, [2**-4, 2**-8, 2**-2])]
)
def test_alibi_2d(prefix: int, heads: int, slopes: list[float]) -> None:
    _, spec = bias_of("alibi_2d", prefix)
    spec = spec.model_copy(update={"heads": heads, "dim": 24})
    bias = chosen("bias", spec)(spec)()
    for query in range(spec.tokens):
        for key in range(spec.tokens):
            q, k = pair(query, prefix), pair(key, prefix)
            distance = math.dist(q, k) if q and k else 0.0
            assert bias[:, query, key].tolist() == pytest.approx([-slope * distance for slope in slopes], abs=1e-6)


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("attention", BIASED)
def test_a_bias_is_added_to_the_scores(attention: str, bias: str) -> None:
    """With zero queries an attention mixes by the softmax of the bias; the exact ones keep the error rule."""
    spec = SMALL.model_copy(update={"attention": attention, "bias": bias})
    assert not spec.conflicts()
    if is_compared("attention", attention):
        for dtype in (torch.float32, torch.bfloat16):
            assert all(each.within for each in deviations("attention", spec, torch.device("cpu"), dtype))
    module, x = made("attention", attention, bias=bias), tokens()
    changed = module.bias
    with torch.no_grad():
        before = module(x)
        for parameter in changed.parameters():
            parameter.zero_()
        if bias == "alibi_2d":
            changed.distances.zero_()
        assert not torch.allclose(module(x), before), "the bias has no part in it"


def test_what_cannot_take_a_bias_is_refused_by_rule() -> None:
    for name in set(registry.names("attention")) - set(BIASED):
        conflicts = SMALL.model_copy(update={"attention": name, "bias": "relative"}).conflicts()
        assert f'bias "relative" needs "bias", which attention "{name}" does not offer' in conflicts


@pytest.mark.parametrize("changes", [{"bias": "alibi_2d"}, {"attention": "token_mlp"}])
def test_what_needs_every_patch_is_not_pretrained_with_some_hidden(changes: dict[str, str]) -> None:
    ((slot, name),) = changes.items()
    spec = SMALL.model_copy(update=changes)
    recipe = TrainSpec(pretrain_epochs=1)
    assert mismatches(spec, recipe) == [
        ("pretrain_epochs", f'{slot} "{name}" needs every patch of an image, and some would be hidden')
    ]
    assert not mismatches(SMALL, recipe)


def test_tables_of_biases_start_as_positions_do_and_neither_decay_nor_turn() -> None:
    """σ = 0.02 whatever the weights have, as in Swin; Muon is for matrices that are multiplied."""
    spec = SMALL.model_copy(update={"bias": "relative", "init_std": "fan_in", "depth": 1, "heads": 4})
    model = build_model(spec, seed=0)
    (table,) = (w for w in weights(model) if w.name.endswith("bias.table"))
    assert not table.decays and not table.hidden and 0.015 < float(table.parameter.detach().std()) < 0.025
    assert "relative" in str(ensemble_problem(spec, TrainSpec()))


Heads = Callable[[nn.Module, list[Tensor], list[Tensor], list[Tensor], list[Tensor]], list[Tensor]]


def _talking(module: nn.Module, q: list[Tensor], k: list[Tensor], v: list[Tensor], bias: list[Tensor]) -> list[Tensor]:
    p = dict(module.named_parameters())
    scores = [a @ b.mT / K**0.5 + c for a, b, c in zip(q, k, bias, strict=True)]

    def over(name: str, each: list[Tensor]) -> list[Tensor]:
        weight, shift = p[f"{name}.weight"], p[f"{name}.bias"]
        return [sum((weight[i, j] * each[j] for j in range(H)), shift[i]) for i in range(H)]  # type: ignore[misc]

    mixed = over("of_probabilities", [softmax(s) for s in over("of_scores", scores)])
    return [w @ x for w, x in zip(mixed, v, strict=True)]


def _differential(
    module: nn.Module, q: list[Tensor], k: list[Tensor], v: list[Tensor], _: list[Tensor]
) -> list[Tensor]:
    """The heads of block 2: λ₀ = 0.8 - 0.6 exp(-0.6)."""
    p, half = dict(module.named_parameters()), K // 2
    start = 0.8 - 0.6 * math.exp(-0.6)
    a, b, c, d = p["lambdas"].tolist()
    weight = math.exp(math.fsum(x * y for x, y in zip(a, b, strict=True)))
    weight += start - math.exp(math.fsum(x * y for x, y in zip(c, d, strict=True)))
    heads = []
    for q_, k_, v_ in zip(q, k, v, strict=True):
        first, second = (
            softmax(q_[..., part] @ k_[..., part].mT / half**0.5) for part in (slice(half), slice(half, K))
        )
        y = (first - weight * second) @ v_
        heads.append((1 - start) * y / ((y**2).sum(-1, keepdim=True) / K + 1e-5) ** 0.5 * p["norm.weight"])
    return heads


def _linear(_: nn.Module, q: list[Tensor], k: list[Tensor], v: list[Tensor], __: list[Tensor]) -> list[Tensor]:
    """As N × N weights, which the component never makes."""

    def feature(x: Tensor) -> Tensor:
        return torch.where(x > 0, x + 1, x.exp())

    weights_ = [feature(a) @ feature(b).mT for a, b in zip(q, k, strict=True)]
    return [w / w.sum(-1, keepdim=True) @ x for w, x in zip(weights_, v, strict=True)]


def _channels(module: nn.Module, q: list[Tensor], k: list[Tensor], v: list[Tensor], _: list[Tensor]) -> list[Tensor]:
    heads = []
    for head, (q_, k_, v_) in enumerate(zip(q, k, v, strict=True)):
        lengths = (q_**2).sum(1)[..., None] ** 0.5 * (k_**2).sum(1)[:, None] ** 0.5
        weights_ = softmax(torch.einsum("bni,bnj->bij", q_, k_) / lengths * module.temperature[head])
        heads.append(torch.einsum("bij,bnj->bni", weights_, v_))
    return heads


def _landmarks(_: nn.Module, q: list[Tensor], k: list[Tensor], v: list[Tensor], __: list[Tensor]) -> list[Tensor]:
    """Means of neighbours, and six steps towards the inverse of each singular value."""
    count = 6

    def means(x: Tensor) -> Tensor:
        ends = [(i * N // count, -(-(i + 1) * N // count)) for i in range(count)]
        return torch.stack([x[:, start:end].mean(1) for start, end in ends], dim=1)

    heads = []
    for q_, k_, v_ in zip(q, k, v, strict=True):
        some_q, some_k = means(q_), means(k_)
        left, values, right = torch.linalg.svd(among := softmax(some_q @ some_k.mT / K**0.5))
        inverse = values / among.sum(1).max(1).values[:, None]
        for _ in range(6):
            s = values * inverse
            inverse = inverse * (13 - s * (15 - s * (7 - s))) / 4
        z = right.mT @ torch.diag_embed(inverse) @ left.mT
        heads.append(softmax(q_ @ some_k.mT / K**0.5) @ z @ softmax(some_q @ k_.mT / K**0.5) @ v_)
    return heads


FORMULAS: Mapping[str, Heads] = {
    "unscaled": lambda _, q, k, v, bias: [
        softmax(a @ b.mT + d) @ c for a, b, c, d in zip(q, k, v, bias, strict=True)
    ],
    "unscaled(divisor=model)": lambda _, q, k, v, bias: [
        softmax(a @ b.mT / D**0.5 + d) @ c for a, b, c, d in zip(q, k, v, bias, strict=True)
    ],
    "sigmoid": lambda _, q, k, v, bias: [
        1 / (1 + N * torch.exp(-(a @ b.mT / K**0.5 + d))) @ c for a, b, c, d in zip(q, k, v, bias, strict=True)
    ],
    "talking_heads": _talking, "differential": _differential, "linear": _linear, "cross_covariance": _channels,
    "nystrom(landmarks=6)": _landmarks,
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_attention_that_is_not_exact(name: str) -> None:
    """Head by head; with a bias where it takes one."""
    biased = name.partition("(")[0] in BIASED
    module, x = made("attention", name, bias="relative" if biased else "none"), tokens()
    module.block = 2
    p = dict(module.named_parameters())
    parts = (x @ p["qkv.weight"].T + p["qkv.bias"]).split(D, dim=-1)
    q, k, v = ([part[..., h * K : (h + 1) * K] for h in range(H)] for part in parts)
    bias = [*module.bias()] if biased else [torch.zeros(N, N, dtype=torch.float64)] * H
    wanted = torch.cat(FORMULAS[name](module, q, k, v, bias), -1) @ p["proj.weight"].T + p["proj.bias"]
    close(module(x), wanted)


def convolved(patches: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """(B, height, width, D), each channel by itself, tap by tap, zero beyond the edge."""
    _, height, width, _ = patches.shape
    reach, out = weight.shape[-1] // 2, torch.zeros_like(patches)
    for row in range(height):
        for column in range(width):
            for y in range(max(row - reach, 0), min(row + reach + 1, height)):
                for x in range(max(column - reach, 0), min(column + reach + 1, width)):
                    out[:, row, column] += weight[:, 0, y - row + reach, x - column + reach] * patches[:, y, x]
    return out + bias


def test_what_mixes_tokens_without_attention() -> None:
    module, x = made("attention", "token_mlp"), tokens()
    p = dict(module.named_parameters())
    hidden = gelu(torch.einsum("bnd,hn->bhd", x, p["up.weight"]) + p["up.bias"][:, None])
    assert hidden.shape[1] == D // 2
    close(module(x), torch.einsum("bhd,nh->bnd", hidden, p["down.weight"]) + p["down.bias"][:, None])

    def waves(count: int) -> Tensor:
        return torch.tensor(
            [[cmath.exp(-2j * math.pi * i * j / count) for j in range(count)] for i in range(count)],
            dtype=torch.complex128,
        )

    fourier = made("attention", "fourier")
    close(fourier(x), torch.einsum("nm,bmc,cd->bnd", waves(N), x.to(torch.complex128), waves(D)).real)
    assert fourier(x.bfloat16()).dtype == torch.bfloat16
    spec = WIDE.model_copy(update={"attention": "depthwise_conv", "pooling": "mean", "registers": 2})
    conv, y = filled(chosen("attention", spec)(spec)), tokens(0, B, 14, D)
    assert not spec.conflicts() and spec.model_copy(update={"pooling": "cls"}).conflicts()
    wanted = gelu(convolved(y[:, 2:].unflatten(1, GRID), conv.conv.weight, conv.conv.bias)).flatten(1, 2)
    close(conv(y)[:, 2:], wanted)
    assert not conv(y)[:, :2].any(), "registers have no place in the grid"


def test_positions_by_a_convolution_and_two_kinds_at_once() -> None:
    spec = WIDE.model_copy(update={"positions": "conditional"})
    positions, x = filled(chosen("positions", spec)(spec)), tokens(0, B, 13, D)
    patches = x[:, 1:].unflatten(1, GRID)
    wanted = (patches + convolved(patches, positions.conv.weight, positions.conv.bias)).flatten(1, 2)
    close(positions(x), torch.cat((x[:, :1], wanted), 1))
    both = made("positions", "learned_rope_2d")
    close(both(tokens()), tokens() + both.table)
    assert torch.equal(both.rotation, made("positions", "rope_2d").rotation)


def test_rms_norm_without_a_gain() -> None:
    norm, x = made("norm_layer", "rmsnorm_plain"), tokens()
    assert not [*norm.parameters()]
    close(norm(x), x / ((x**2).sum(-1, keepdim=True) / D + 1e-6) ** 0.5)


def _theirs(timm: Any, name: str) -> tuple[nn.Module, dict[str, str]]:
    """timm's module, and its names → ours."""
    of_attention = {f"{part}.{kind}": f"{part}.{kind}" for part in ("qkv", "proj") for kind in ("weight", "bias")}
    if name == "talking_heads":
        own = {f"{a}.{kind}": f"{b}.{kind}" for a, b in (("proj_l", "of_scores"), ("proj_w", "of_probabilities"))
               for kind in ("weight", "bias")}  # fmt: skip
        return timm.models.cait.TalkingHeadAttn(D, H, qkv_bias=True), of_attention | own
    if name == "cross_covariance":
        return timm.models.xcit.XCA(D, H, qkv_bias=True), of_attention | {"temperature": "temperature"}
    own = {f"lambda_{letter}{i + 1}": f"lambdas.{2 * i + j}" for i in (0, 1) for j, letter in enumerate("qk")}
    layers = pytest.importorskip("timm.layers.diff_attention")
    return layers.DiffAttention(D, H, qkv_bias=True, depth=2), of_attention | own | {"sub_norm.weight": "norm.weight"}


@pytest.mark.parametrize("name", ["talking_heads", "cross_covariance", "differential"])
def test_attention_is_timm_s(name: str) -> None:
    """Output and the gradient of every parameter, of the same weights."""
    timm = pytest.importorskip("timm")
    theirs, names = _theirs(timm, name)
    theirs, attention = filled(theirs), made("attention", name)
    attention.block = 2
    ours = dict(attention.named_parameters())

    def of(their_name: str, where: Mapping[str, Tensor]) -> Tensor:
        module, _, number = names[their_name].partition(".")
        return where[module][int(number)] if number.isdigit() else where[names[their_name]]

    with torch.no_grad():
        for their_name, parameter in theirs.named_parameters():
            of(their_name, ours).copy_(parameter.squeeze())
    results = [module(tokens()) for module in (theirs, attention)]
    for result in results:
        result.square().sum().backward()
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-5)  # timm has λ in float32
    gradients = {name: p.grad for name, p in ours.items() if p.grad is not None}
    for their_name, parameter in theirs.named_parameters():
        assert parameter.grad is not None
        wanted = parameter.grad.squeeze()
        torch.testing.assert_close(of(their_name, gradients), wanted, rtol=1e-5, atol=1e-5 * float(wanted.abs().max()))


def test_biases_mixers_and_convolutions_are_timm_s() -> None:
    layers, twins = pytest.importorskip("timm.layers"), pytest.importorskip("timm.models.twins")
    mixer = pytest.importorskip("timm.models.mlp_mixer")
    module, spec = bias_of("relative", 1)
    table = layers.RelPosBias(GRID, spec.heads, prefix_tokens=1).double()
    table.relative_position_bias_table.data.copy_(module.table)
    close(module(), table.get_bias()[0])
    module, spec = bias_of("relative_mlp", 1)
    network = layers.RelPosMlp(GRID, spec.heads, hidden_dim=512, prefix_tokens=1, mode="swin").double().eval()
    network.mlp.load_state_dict({
        name.replace("up", "fc1").replace("down", "fc2"): tensor for name, tensor in module.state_dict().items()
    })  # fmt: skip
    torch.testing.assert_close(module(), network.get_bias()[0], rtol=1e-6, atol=1e-6)
    ours = made("attention", "token_mlp")
    block = mixer.MixerBlock(D, N).double()
    block.mlp_tokens.load_state_dict({
        name.replace("up", "fc1").replace("down", "fc2"): tensor for name, tensor in ours.state_dict().items()
    })  # fmt: skip
    x = tokens()
    normed = layernorm(x, block.norm1.weight, block.norm1.bias)
    close(ours(normed), block.mlp_tokens(normed.transpose(1, 2)).transpose(1, 2))
    wide = WIDE.model_copy(update={"positions": "conditional", "pooling": "mean"})
    positions = filled(chosen("positions", wide)(wide))
    conv = twins.PosConv(D, D).double()
    conv.proj[0].load_state_dict(positions.conv.state_dict())
    y = tokens(0, B, 12, D)
    close(positions(y), conv(y, GRID))


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 1), (4, 2), (2, 2)])
def test_groups_of_heads_share_keys_and_values(heads: int, kv_heads: int) -> None:
    spec = SMALL.model_copy(update={"attention": f"grouped(kv_heads={kv_heads})", "heads": heads})
    module, x, width = filled(chosen("attention", spec)(spec)), tokens(), D // heads
    assert not spec.conflicts() and spec.model_copy(update={"attention": "grouped(kv_heads=3)"}).conflicts()
    weight, bias = module.qkv.weight, module.qkv.bias
    rows = torch.einsum("bnd,rd->bnr", x, weight) + bias
    out = []
    for head in range(heads):
        group = head * kv_heads // heads
        q = rows[..., head * width : (head + 1) * width]
        k = rows[..., D + group * width : D + (group + 1) * width]
        v = rows[..., D + (kv_heads + group) * width : D + (kv_heads + group + 1) * width]
        weights = torch.exp(torch.einsum("bik,bjk->bij", q, k) / width**0.5)
        out.append(torch.einsum("bij,bjk->bik", weights / weights.sum(-1, keepdim=True), v))
    close(module(x), torch.cat(out, -1) @ module.proj.weight.T + module.proj.bias)
    if kv_heads == heads:
        reference = spec.model_copy(update={"attention": "batched"})
        plain = chosen("attention", reference)(reference).double()
        plain.load_state_dict(module.state_dict())
        close(module(x), plain(x))


@pytest.mark.parametrize("shift", [True, False])
@pytest.mark.parametrize("block", [0, 1])
def test_patches_attend_within_windows(block: int, shift: bool) -> None:
    """By a mask over all pairs: of one window, and on one side of the edge that a shift turns around."""
    changes = {"image_size": (16, 24), "attention": f"window(size=2, shift={str(shift).lower()})", "pooling": "mean"}
    spec = SMALL.model_copy(update={**changes, "registers": 2})
    module, x = filled(chosen("attention", spec)(spec)), tokens(0, B, 26, D)
    module.block = block
    by = 1 if shift and block else 0
    places = [divmod(n, 6) for n in range(24)]

    def window(at: int, side: int) -> tuple[int, bool]:
        return (at - by) % side // 2, at < by

    same = torch.tensor([[window(a, 4) == window(c, 4) and window(b, 6) == window(d, 6) for c, d in places]
                         for a, b in places])  # fmt: skip
    q, k, v = (module.qkv(x)[:, 2:, n * D : (n + 1) * D].unflatten(-1, (H, K)).transpose(1, 2) for n in range(3))
    scores = torch.einsum("bhik,bhjk->bhij", q, k) / K**0.5
    weights = torch.where(same, torch.exp(scores), 0.0)
    mixed = torch.einsum("bhij,bhjk->bihk", weights / weights.sum(-1, keepdim=True), v).flatten(2)
    wanted = mixed @ module.proj.weight.T + module.proj.bias
    close(module(x)[:, 2:], wanted)
    assert torch.equal(module(x)[:, :2], module.proj.bias.expand(B, 2, D)), "registers take no part"


def test_windows_fit_into_the_grid_or_are_refused() -> None:
    spec = SMALL.model_copy(update={"attention": "window(size=3)", "pooling": "mean"})
    assert spec.conflicts() == [
        'attention "window(size=3)" needs a grid_height divisible by 3, not 4',
        'attention "window(size=3)" needs a grid_width divisible by 3, not 4',
    ]


def test_soft_experts_work_on_mixtures_of_tokens() -> None:
    module, x = made("mlp", "soft_moe(experts=3, slots=2)"), tokens()
    p = dict(module.named_parameters())

    def unit(v: Tensor) -> Tensor:
        return v / (v * v).sum(-1, keepdim=True) ** 0.5

    e = torch.exp(torch.einsum("bnd,sd->bns", unit(x), p["scale"].detach() * unit(p["queries"])))
    slots = torch.einsum("bns,bnd->bsd", e / e.sum(1, keepdim=True), x)
    made_of = []
    for slot in range(6):
        expert = slot // 2
        hidden = gelu(slots[:, slot] @ p[f"up.{expert}.weight"].T + p[f"up.{expert}.bias"])
        made_of.append(hidden @ p[f"down.{expert}.weight"].T + p[f"down.{expert}.bias"])
    close(module(x), torch.einsum("bns,sbd->bnd", e / e.sum(2, keepdim=True), torch.stack(made_of)))
