"""Muon by shape: torch's own update, for single matrices and for stacks of them."""

import pytest
import torch
from torch import Tensor, nn

from vitbench.model import muon
from vitbench.model.muon import COEFFICIENTS, ITERATIONS, Muon, orthogonal, shared_stacks

SHAPES = ((32, 32), (96, 32), (32, 128), (96, 32), (32, 32), (32, 32), (8, 24), (20, 12))


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("worth", [0.0, 1e6, 1e12], ids=["by shape", "some share", "one stack"])
@pytest.mark.parametrize("rate", [1e-2, torch.tensor(1e-2)], ids=["number", "tensor"])
@pytest.mark.parametrize("in_bfloat16", [True, False], ids=["bfloat16", "float32"])
def test_an_update_is_torchs(
    in_bfloat16: bool, rate: float | Tensor, worth: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To what bfloat16 leaves of it, in which torch's always is."""
    monkeypatch.setattr(muon, "has_bfloat16", lambda: in_bfloat16)
    monkeypatch.setitem(muon.WORTH_OF_A_STACK, "cpu", worth)
    parameters, copies = ([nn.Parameter(drawn(i, *shape)) for i, shape in enumerate(SHAPES)] for _ in range(2))
    before = [p.detach().clone() for p in parameters]
    ours = Muon(parameters, lr=1e-2, weight_decay=0.1)
    torchs = torch.optim.Muon(copies, lr=1e-2, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    ours.param_groups[0]["lr"] = rate
    for step in range(4):
        for index, (one, other) in enumerate(zip(parameters, copies, strict=True)):
            one.grad = drawn(100 * step + index, *one.shape)
            other.grad = one.grad.clone()
        ours.step()
        torchs.step()
    for one, other, start in zip(parameters, copies, before, strict=True):
        moved = (other.detach() - start).square().mean().sqrt()
        error = (one.detach() - other.detach()).square().mean().sqrt() / moved
        assert (0.0 if in_bfloat16 else 0.001) <= error < 0.01
        assert torch.equal(ours.state[one]["momentum_buffer"], torchs.state[other]["momentum_buffer"]), (
            "in float32, operation by operation"
        )


@pytest.mark.parametrize("shape", [(4, 24, 24), (3, 16, 48), (1, 16, 64)])
def test_what_comes_out_is_nearly_orthogonal(shape: tuple[int, int, int]) -> None:
    """In float64 its singular values are the polynomial's, its singular vectors the matrix's own."""
    matrices = drawn(0, *shape).double() * 1e3
    u, values, v = torch.linalg.svd(matrices, full_matrices=False)
    values = values / matrices.flatten(1).norm(dim=1, keepdim=True)
    first, third, fifth = COEFFICIENTS
    for _ in range(ITERATIONS):
        values = first * values + third * values**3 + fifth * values**5
    update = orthogonal(matrices)
    torch.testing.assert_close(update, u @ torch.diag_embed(values) @ v, atol=1e-10, rtol=0)
    large = torch.linalg.svdvals(orthogonal(matrices.bfloat16()).double())
    assert large.max() < 1.3 and large.median() > 0.6


@pytest.mark.parametrize("shape", [(96, 32), (24, 8, 3, 3), (24, 8, 1, 1)], ids=["matrices", "wide", "tall"])
def test_an_ensemble_is_its_members(shape: tuple[int, ...]) -> None:
    alone = [nn.Parameter(drawn(i, *shape)) for i in range(3)]
    stack = nn.Parameter(torch.stack([p.detach() for p in alone]))
    stack.grad = torch.stack([drawn(10 + i, *shape) for i in range(3)])
    for i, p in enumerate(alone):
        p.grad = drawn(10 + i, *shape)
    Muon([stack], lr=0.1, weight_decay=0.1).step()
    Muon(alone, lr=0.1, weight_decay=0.1).step()
    torch.testing.assert_close(stack.detach(), torch.stack([p.detach() for p in alone]))


@pytest.mark.parametrize("shape", [(24, 8, 3, 3), (24, 8, 1, 1)], ids=["wide", "tall"])
def test_filters_are_a_matrix_of_a_row_for_each(shape: tuple[int, ...]) -> None:
    """Torch's Muon refuses filters, and takes the matrix."""
    filters, matrix = nn.Parameter(drawn(0, *shape)), nn.Parameter(drawn(0, *shape).flatten(1))
    ours = Muon([filters], lr=1e-2, weight_decay=0.1)
    torchs = torch.optim.Muon([matrix], lr=1e-2, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for step in range(4):
        filters.grad = drawn(1 + step, *shape)
        matrix.grad = filters.grad.flatten(1)
        ours.step()
        torchs.step()
    moved = (matrix.detach() - drawn(0, *shape).flatten(1)).square().mean().sqrt()
    assert filters.shape == shape
    assert (filters.detach().flatten(1) - matrix.detach()).square().mean().sqrt() < 0.01 * moved


def test_stacks_are_shared_where_the_zeros_cost_no_more_than_a_stack_is_worth() -> None:
    counts = {(8, 24): 1, (12, 20): 2, (32, 32): 4, (256, 256): 1}

    def cost(m: int, n: int, matrices: int) -> float:
        """Two products over (m, n), one over (m, m), in each iteration; a multiplication and an addition are two."""
        return matrices * ITERATIONS * 2 * (m * n * m + m * m * m + m * m * n)

    zeros = cost(12, 24, 3) - cost(8, 24, 1) - cost(12, 20, 2)
    alone = [(shape,) for shape in counts]
    assert shared_stacks(counts, zeros - 1) == alone
    assert shared_stacks(counts, zeros) == [*alone[2:], ((8, 24), (12, 20))]
    (shared,) = shared_stacks(counts, 1e12)
    assert sorted(shared) == sorted(counts)


def test_no_gradient_is_no_zero_divided() -> None:
    matrix, unused = nn.Parameter(drawn(0, 8, 8)), nn.Parameter(drawn(1, 8, 8))
    matrix.grad = torch.zeros(8, 8)
    Muon([matrix, unused], lr=0.1, weight_decay=0.0).step()
    assert torch.equal(matrix.detach(), drawn(0, 8, 8)) and torch.equal(unused.detach(), drawn(1, 8, 8))
