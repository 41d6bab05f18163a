"""Components against their papers' formulas, written down a second time in float64, without the package's modules."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.components.cases import SMALL
from vitbench.components.contracts import rotate
from vitbench.config.model import ModelSpec
from vitbench.config.recipe import TrainSpec
from vitbench.config.trial import ensemble_problem
from vitbench.model.build import build_model
from vitbench.model.encoder import Block, chosen

B, N, D, H = 3, 17, SMALL.dim, SMALL.heads
K = D // H


def filled(module: torch.nn.Module) -> torch.nn.Module:
    """In float64, every parameter with values of its own: none is where it does not show."""
    stream = torch.Generator().manual_seed(1)
    for parameter in module.double().parameters():
        with torch.no_grad():
            parameter.copy_(torch.randn(parameter.shape, generator=stream, dtype=torch.float64) / 3 + 0.5)
    return module.eval()


def made(slot: str, name: str, **changes: object) -> torch.nn.Module:
    return filled(chosen(slot, spec := SMALL.model_copy(update={slot: name, **changes}))(spec))


def tokens(seed: int = 0, *shape: int) -> Tensor:
    return torch.randn(shape or (B, N, D), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gelu(x: Tensor) -> Tensor:
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def silu(x: Tensor) -> Tensor:
    return x / (1 + torch.exp(-x))


def layernorm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-6) -> Tensor:
    centred = x - x.sum(-1, keepdim=True) / x.shape[-1]
    return centred / ((centred**2).sum(-1, keepdim=True) / x.shape[-1] + eps) ** 0.5 * weight + bias


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": gelu,
    "gelu_tanh": lambda x: x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "relu": lambda x: (x + x.abs()) / 2,
    "relu2": lambda x: ((x + x.abs()) / 2) ** 2,
    "silu": silu,
}
GATES: dict[str, Callable[[Tensor], Tensor]] = {"swiglu": silu, "geglu": gelu, "reglu": ACTIVATIONS["relu"]}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_mlp(name: str) -> None:
    mlp, x = made("mlp", name), tokens()
    p = dict(mlp.named_parameters())
    assert p["up.weight"].shape == (4 * D, D)
    hidden = ACTIVATIONS[name](x @ p["up.weight"].T + p["up.bias"])
    torch.testing.assert_close(mlp(x), hidden @ p["down.weight"].T + p["down.bias"], rtol=1e-12, atol=1e-12)


def test_an_mlp_with_two_activations() -> None:
    mlp, x = made("mlp", "gelu_twice"), tokens()
    p = dict(mlp.named_parameters())
    hidden = gelu(x @ p["up.weight"].T + p["up.bias"])
    torch.testing.assert_close(mlp(x), gelu(hidden @ p["down.weight"].T + p["down.bias"]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", GATES)
def test_gated_mlp(name: str) -> None:
    """Two thirds of the hidden width, to the next multiple of 8: 4 * 32 * 2 / 3 = 85.3 is 88."""
    mlp, x = made("mlp", name), tokens()
    p = dict(mlp.named_parameters())
    assert p["up.weight"].shape == p["gate.weight"].shape == (88, D)
    hidden = GATES[name](x @ p["gate.weight"].T + p["gate.bias"]) * (x @ p["up.weight"].T + p["up.bias"])
    torch.testing.assert_close(mlp(x), hidden @ p["down.weight"].T + p["down.bias"], rtol=1e-12, atol=1e-12)


def test_norm_layers() -> None:
    x, norm = tokens(), made("norm_layer", "layernorm")
    torch.testing.assert_close(norm(x), layernorm(x, norm.weight, norm.bias), rtol=1e-12, atol=1e-12)
    norm = made("norm_layer", "layernorm(eps=0.01)")
    torch.testing.assert_close(norm(x), layernorm(x, norm.weight, norm.bias, 0.01), rtol=1e-12, atol=1e-12)
    norm = made("norm_layer", "rmsnorm")
    rms = ((x**2).sum(-1, keepdim=True) / D + 1e-6) ** 0.5
    torch.testing.assert_close(norm(x), x / rms * norm.weight, rtol=1e-12, atol=1e-12)
    norm = made("norm_layer", "dyt")
    wide = torch.exp(2 * norm.alpha * x)
    torch.testing.assert_close(norm(x), (wide - 1) / (wide + 1) * norm.weight + norm.bias, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("attention", ["batched", "per_head", "sdpa", "sdpa_math"])
@pytest.mark.parametrize("gate", ["none", "headwise", "elementwise"])
@pytest.mark.parametrize("qk_norm", ["none", "layernorm", "rmsnorm", "l2"])
@pytest.mark.parametrize(("heads", "width"), [(H, K), (3, 10)])
def test_attention_with_normed_queries_and_gated_heads(
    heads: int, width: int, attention: str, gate: str, qk_norm: str
) -> None:
    """Head by head and query by query, whichever implementation; q and k have weights of their own."""
    x, module = tokens(), made("attention", attention, gate=gate, qk_norm=qk_norm, heads=heads, head_dim=width)
    p = dict(module.named_parameters())
    q, k, v = (x @ p["qkv.weight"].T + p["qkv.bias"]).split(heads * width, dim=-1)

    def normed(y: Tensor, which: str) -> Tensor:
        if qk_norm == "layernorm":
            return layernorm(y, p[f"{which}_norm.norm.weight"], p[f"{which}_norm.norm.bias"])
        if qk_norm == "rmsnorm":
            return y / ((y**2).mean(-1, keepdim=True) + 1e-6) ** 0.5 * p[f"{which}_norm.norm.weight"]
        if qk_norm == "l2":
            return y / (y**2).sum(-1, keepdim=True) ** 0.5 * width**0.5 * p[f"{which}_norm.weight"]
        return y

    out = []
    for head in range(heads):
        channels = slice(head * width, (head + 1) * width)
        products = torch.einsum("bqk,bjk->bqj", normed(q[..., channels], "q"), normed(k[..., channels], "k"))
        weights = torch.exp((products - products.amax(-1, keepdim=True)) / width**0.5)
        out.append(torch.einsum("bqj,bjk->bqk", weights / weights.sum(-1, keepdim=True), v[..., channels]))
        if gate == "headwise":
            out[-1] = out[-1] / (1 + torch.exp(-(x @ p["gate.scores.weight"][head])))[..., None]
        if gate == "elementwise":
            out[-1] = out[-1] / (1 + torch.exp(-(x @ p["gate.scores.weight"][channels].T)))
    wanted = torch.cat(out, -1) @ p["proj.weight"].T + p["proj.bias"]
    torch.testing.assert_close(module(x), wanted, rtol=1e-9, atol=1e-9)


NORMS = ("pre", "post", "res_post", "sandwich", "none", "compact")


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("residual", ["plain", "none", "layerscale", "rezero"])
@pytest.mark.parametrize("form", ["serial", "parallel"])
def test_block(norm: str, residual: str, form: str) -> None:
    """Where norms stand, what the residual adds, and whether the MLP sees what attention made."""
    spec = SMALL.model_copy(update={"norm": norm, "residual": residual, "block": form})
    block, x = filled(Block(spec, drop_path=0.0)), tokens()
    p = dict(block.named_parameters())

    def step(name: str, f: Callable[[Tensor], Tensor], y: Tensor) -> Tensor:
        def n(z: Tensor, which: str = "norm") -> Tensor:
            return layernorm(z, p[f"{name}_{which}.weight"], p[f"{name}_{which}.bias"])

        def joined(z: Tensor, before: Tensor = y) -> Tensor:
            if residual == "none":
                return z
            factor = {"layerscale": f"{name}_residual.scale", "rezero": f"{name}_residual.alpha"}.get(residual)
            return before + (p[factor] * z if factor else z)

        forms: dict[str, Callable[[], Tensor]] = {
            "pre": lambda: joined(f(n(y))),
            "post": lambda: n(joined(f(y))),
            "res_post": lambda: joined(n(f(y))),
            "sandwich": lambda: joined(n(f(n(y)), "output_norm")),
            "none": lambda: joined(f(y)),
            "compact": lambda: joined(f(n(y)), n(y) if name == "mlp" else y),
        }
        return forms[norm]()

    if form == "serial":
        wanted = step("mlp", block.mlp, step("attention", block.attention, x))
    else:
        wanted = step("attention", lambda z: block.attention(z) + block.mlp(z), x)
    torch.testing.assert_close(block(x), wanted, rtol=1e-12, atol=1e-12)


def test_pooling() -> None:
    x = tokens()
    gem = made("pooling", "gem")
    power = gem.power.item()
    wanted = (x.clamp(min=1e-6) ** power).mean(1) ** (1 / power)
    torch.testing.assert_close(gem(x), wanted, rtol=1e-12, atol=1e-12)
    both = torch.stack([x[:, 0], x[:, 1:].sum(1) / (x.shape[1] - 1)], dim=1).reshape(B, 2 * D)
    assert torch.equal(made("pooling", "cls_mean")(x), both)
    pooling = made("pooling", "map")
    p = dict(pooling.named_parameters())
    q = (p["probe"][0] @ p["q.weight"].T + p["q.bias"])[0]
    k, v = (x @ p["kv.weight"].T + p["kv.bias"]).split(D, dim=-1)
    heads = []
    for head in range(H):
        channels = slice(head * K, (head + 1) * K)
        weights = torch.softmax(k[..., channels] @ q[channels] / K**0.5, dim=1)
        heads.append((weights[..., None] * v[..., channels]).sum(1))
    y = torch.cat(heads, -1) @ p["proj.weight"].T + p["proj.bias"]
    hidden = gelu(layernorm(y, p["norm.weight"], p["norm.bias"]) @ p["up.weight"].T + p["up.bias"])
    torch.testing.assert_close(pooling(x), y + hidden @ p["down.weight"].T + p["down.bias"], rtol=1e-9, atol=1e-9)
    pooling = made("pooling", "sequence")
    p = dict(pooling.named_parameters())
    weights = torch.exp(x @ p["score.weight"][0] + p["score.bias"])
    wanted = (weights[..., None] * x).sum(1) / weights.sum(1)[:, None]
    torch.testing.assert_close(pooling(x), wanted, rtol=1e-12, atol=1e-12)


def test_a_head_with_a_hidden_layer() -> None:
    head, x = made("head", "pre_logits"), tokens(0, B, D)
    p = dict(head.named_parameters())
    hidden = torch.einsum("bd,hd->bh", x, p["hidden.weight"]) + p["hidden.bias"]
    e = torch.exp(2 * hidden)
    wanted = torch.einsum("bh,ch->bc", (e - 1) / (e + 1), p["out.weight"]) + p["out.bias"]
    torch.testing.assert_close(head(x), wanted, rtol=1e-12, atol=1e-12)


def convolved(conv: torch.nn.Module, norm: torch.nn.Module, x: Tensor) -> Tensor:
    """A convolution as a product of unfolded images, and batch norm by running statistics, which are given values."""
    norm.running_mean += torch.arange(norm.num_features) / norm.num_features
    norm.running_var *= 1.7
    (size, _), (stride, _) = conv.kernel_size, conv.stride
    flat = torch.nn.functional.unfold(x, size, padding=size // 2, stride=stride)
    x = (conv.weight.flatten(1) @ flat).unflatten(2, (x.shape[2] // stride, x.shape[3] // stride))
    mean, var, gain, shift = (
        each[:, None, None] for each in (norm.running_mean, norm.running_var, norm.weight, norm.bias)
    )
    return gain * (x - mean) / (var + 1e-5) ** 0.5 + shift


@pytest.mark.parametrize("name", ["conv_stem", "resnet_stem"])
@pytest.mark.parametrize(("patch", "halvings"), [(4, 2), (8, 3)])
def test_a_stem_of_convolutions(patch: int, halvings: int, name: str) -> None:
    """Widths double up to D. A residual block is two convolutions, and a third beside them where it halves."""
    stem, images = made("patching", name, patch_size=patch, image_size=(16, 32)), tokens(0, 2, 3, 16, 32)
    widths = [D // 2**n for n in range(halvings - 1, -1, -1)]
    x, parts = images, [*stem.layers]
    if name == "conv_stem":
        assert [conv.out_channels for conv in parts[::3]] == widths
        for conv, norm in zip(parts[::3], parts[1::3], strict=True):
            x = convolved(conv, norm, x).clamp(min=0)
    else:
        x = convolved(parts[0], parts[1], x).clamp(min=0)
        stages = [widths[0] // 2, *widths]
        assert [block.conv2.out_channels for block in parts[3:]] == [width for width in stages for _ in range(2)]
        assert x.shape[1:] == (stages[0], 16, 32)
        for number, block in enumerate(parts[3:]):
            inner = convolved(block.conv2, block.bn2, convolved(block.conv1, block.bn1, x).clamp(min=0))
            halves = number > 1 and not number % 2
            x = (inner + (convolved(*block.downsample, x) if halves else x)).clamp(min=0)
    wanted = torch.einsum("bchw,dc->bhwd", x, stem.weight[..., 0, 0]).flatten(1, 2) + stem.bias
    assert wanted.shape == (2, 16 * 32 // patch**2, D)
    torch.testing.assert_close(stem(images), wanted, rtol=1e-12, atol=1e-12)


def test_fixed_positions() -> None:
    """Sine of even channels, cosine of odd ones, 10,000^(2i / D)."""
    spec = SMALL.model_copy(update={"image_size": (16, 24), "positions": "sinusoidal"})
    table = chosen("positions", spec)(spec)(torch.zeros(1, spec.tokens, D))[0]
    for token, channel in ((0, 0), (3, 5), (24, 30), (7, 31)):
        angle = token / 10_000 ** (2 * (channel // 2) / D)
        wanted = math.cos(angle) if channel % 2 else math.sin(angle)
        assert float(table[token, channel]) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(("frequencies", "steps"), [("moco_v3", D // 4), ("simple_vit", D // 4 - 1)])
def test_fixed_positions_by_row_and_column(frequencies: str, steps: int) -> None:
    """Halves by axis. SimpleViT's end at the lowest frequency, as in lucidrains/vit-pytorch and big_vision."""
    spec = SMALL.model_copy(update={"image_size": (16, 24), "positions": f"sinusoidal_2d(frequencies={frequencies})"})
    table = chosen("positions", spec)(spec)(torch.zeros(1, spec.tokens, D))[0]
    assert not table[0].any(), "the class token"
    for row, column, channel in ((0, 0, 9), (2, 5, 3), (3, 1, 14), (1, 4, 22), (3, 5, 31), (0, 2, 7), (1, 3, 23)):
        quarter, i = divmod(channel, D // 4)
        angle = (column, column, row, row)[quarter] / 10_000 ** (i / steps)
        wanted = (math.sin, math.cos, math.sin, math.cos)[quarter](angle)
        assert float(table[1 + row * 6 + column, channel]) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("name", ["rope_2d", "learned_rope_2d"])
def test_rotary_positions_in_dinov3_s_coordinates_are_timm_s(name: str) -> None:
    sincos = pytest.importorskip("timm.layers.pos_embed_sincos")
    spec = SMALL.model_copy(update={"image_size": (16, 24), "positions": f"{name}(base=50, coordinates=unit)"})
    theirs = sincos.RotaryEmbeddingDinoV3(K, temperature=50.0, feat_shape=list(spec.grid)).pos_embed_cached
    sine, cosine = theirs.chunk(2, dim=-1)
    rotation = chosen("positions", spec)(spec).rotation[:, spec.prefix :]
    torch.testing.assert_close(rotation, torch.stack((cosine, sine)), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("name", "base"), [("rope_2d", 100), ("rope_2d(base=10000)", 10_000)])
def test_rotary_positions(name: str, base: int) -> None:
    """Scores of rotated vectors, by complex numbers: pairs (i, i + K/2), half by row, half by column."""
    spec = SMALL.model_copy(update={"image_size": (16, 24), "positions": name})
    rotation = chosen("positions", spec)(spec).rotation.double()
    x = tokens(0, 1, 1, spec.tokens, K)
    turned = rotate(x, rotation)[0, 0]
    for token in (0, 1, 9, 24):
        row, column = divmod(token - 1, 6) if token else (0, 0)
        for i in range(K // 2):
            place, number = (row, i) if i < K // 4 else (column, i - K // 4)
            turn = complex(math.cos(a := place * base ** (-number / (K // 4))), math.sin(a)) if token else 1
            wanted = complex(float(x[0, 0, token, i]), float(x[0, 0, token, i + K // 2])) * turn
            assert complex(float(turned[token, i]), float(turned[token, i + K // 2])) == pytest.approx(wanted, abs=1e-6)


def test_coordinates_are_rescaled_in_training_alone() -> None:
    """By one factor a batch, log-uniform between 1 / s and s: the median is 1, and a quarter lies beyond root s."""
    spec = SMALL.model_copy(update={"positions": 'rope_2d(coordinates="unit", rescale=2.0)'})
    rope = build_model(spec, seed=0).positions.double()
    assert torch.equal(rope.eval().turning(), rope.rotation)
    torch.manual_seed(0)
    powers = []
    for _ in range(400):
        cos, sin = rope.train().turning()
        ratios = (torch.atan2(sin, cos) / rope.angles)[1:][rope.angles[1:].abs() < 1.5]
        assert torch.allclose(ratios, ratios[0]), "one factor for all"
        powers.append(math.log2(float(ratios[0])))
    assert -1 <= min(powers) < -0.98 and 0.98 < max(powers) <= 1
    assert abs(sum(each < 0 for each in powers) - 200) < 40 and abs(sum(each > 0.5 for each in powers) - 100) < 35
    assert "positions" in str(ensemble_problem(spec, TrainSpec())) and not ensemble_problem(SMALL, TrainSpec())


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("positions", ["learned", "rope_2d", "sinusoidal_2d"])
def test_registers_attend_have_no_positions_and_are_not_pooled(pooling: str, positions: str) -> None:
    """After the class token; what they are changes the logits, and what the encoder makes of them does not."""
    spec = SMALL.model_copy(update={"pooling": pooling, "positions": positions, "registers": 3})
    model, images = build_model(spec, seed=0).double().eval(), tokens(0, 2, 3, 16, 16)
    plain = build_model(spec.model_copy(update={"registers": 0}), seed=0).double().eval()
    first = spec.pooled_prefix
    entering, without = model.tokens(images), plain.tokens(images)
    torch.testing.assert_close(entering[:, first : first + 3], model.registers.table.expand(2, -1, -1))
    torch.testing.assert_close(torch.cat((entering[:, :first], entering[:, first + 3 :]), 1), without)
    assert not torch.allclose(model(images), plain(images)), "they take part in attention"
    encoded = model.encoder(entering, model.positions.rotation)
    encoded[:, first : first + 3] = torch.nan
    assert model.pooling(model.without_registers(encoded)).isfinite().all()
    if positions == "rope_2d":
        assert torch.equal(model.positions.rotation[0, first : first + 3], torch.ones(3, K, dtype=torch.float64))


def test_scales_and_gates_start_as_published() -> None:
    """λ = 1e-4 (DeiT III), α = 0 (ReZero), α = 0.5 (DyT), p = 3 (GeM); what else is a vector is one, biases zero."""
    wanted = {"residual.scale": 1e-4, "residual.alpha": 0.0, "norm.alpha": 0.5, "power": 3.0}
    for changes in ({"residual": "layerscale"}, {"residual": "rezero"}, {"norm_layer": "dyt"}, {"pooling": "gem"}):
        seen = set()
        for name, parameter in build_model(ModelSpec(**SMALL.model_dump() | changes), seed=0).named_parameters():
            for end, value in wanted.items():
                if name.endswith(end):
                    assert torch.equal(parameter, torch.full_like(parameter, value)), name
                    seen.add(end)
        assert len(seen) == 1


def test_no_residual_is_what_it_was_called_first() -> None:
    """`residual = false` of the attention ladder has the id that it had before there were others."""
    for old, new in ((False, "none"), (True, "plain")):
        assert ModelSpec(residual=old) == ModelSpec(residual=new)
    assert ModelSpec(residual=False).canonical()["residual"] is False and "residual" not in ModelSpec().canonical()
