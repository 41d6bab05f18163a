"""The sparse mixture of experts, token by token in float64: who goes where, and the loss that balances."""

import torch
from torch import Tensor

from tests.components.test_formulas import B, N, gelu, made, tokens
from vitbench.components.contracts import with_loss

EXPERTS, SLOTS = 3, 2


def test_tokens_go_to_the_experts_that_want_them_most_as_far_as_these_have_room() -> None:
    module, x = made("mlp", f"moe(experts={EXPERTS}, slots={SLOTS})"), tokens()
    p = {name: value.detach() for name, value in module.named_parameters()}
    shares = torch.exp(x @ p["router.weight"].T)
    shares = shares / shares.sum(-1, keepdim=True)
    wanted, passed_over = torch.zeros_like(x), 0
    for image in range(B):
        chosen = [sorted(range(EXPERTS), key=lambda e, n=n: -shares[image, n, e])[:2] for n in range(N)]
        for e in range(EXPERTS):
            queue = sorted((n for n in range(N) if e in chosen[n]), key=lambda n, e=e: -shares[image, n, e])
            passed_over += len(queue[SLOTS:])
            for n in queue[:SLOTS]:
                hidden = gelu(x[image, n] @ p[f"up.{e}.weight"].T + p[f"up.{e}.bias"])
                made_of = hidden @ p[f"down.{e}.weight"].T + p[f"down.{e}.bias"]
                wanted[image, n] += shares[image, n, e] * made_of
    assert passed_over, "some find no room"
    torch.testing.assert_close(module.eval()(x), wanted, rtol=1e-9, atol=1e-9)


def test_in_training_the_loss_gains_what_balances_the_experts() -> None:
    module, x = made("mlp", "moe(experts=3, slots=2, balance=0.5)"), tokens()
    module.eval()(x).square().mean().backward()
    alone = module.router.weight.grad.clone()
    module.zero_grad()
    module.train()(x).square().mean().backward()
    weight = module.router.weight.detach().clone().requires_grad_()
    shares = (x @ weight.T).softmax(dim=-1)
    two = shares.argsort(dim=-1, descending=True)[..., :2].flatten()
    falls = torch.bincount(two, minlength=EXPERTS) / two.numel()
    (0.5 * EXPERTS * sum(falls[e] * shares[..., e].mean() for e in range(EXPERTS))).backward()
    torch.testing.assert_close(module.router.weight.grad, alone + weight.grad, rtol=1e-9, atol=1e-9)
    assert weight.grad.abs().max() > 1e-4


def test_a_loss_beside_is_added_whatever_the_model_s_own() -> None:
    x, w = torch.randn(4, requires_grad=True), torch.randn(4, requires_grad=True)

    def both(x: Tensor, w: Tensor) -> Tensor:
        return with_loss(x, w.square().sum())

    (3 * both(x, w)).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((4,), 3.0))
    torch.testing.assert_close(w.grad, 2 * w.detach())
