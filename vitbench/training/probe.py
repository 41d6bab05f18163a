"""Linear probe: a linear head trained on frozen features."""

from typing import Self

from torch import Tensor, nn

from vitbench.model.build import Model


class Probe(nn.Module):
    """Images (B, C, height, width) → logits (B, classes): a model's features, normalised by batch, and its head.

    The head alone is trained, from its initial weights: those of pretrained weights, learned without the normalisation,
    are not taken. The rest works as it does when it is judged. Without the normalisation a rate that
    suits the features of one start is far from right for those of another.
    Source: He et al. 2022, arXiv 2111.06377, appendix A.1: a batch norm without scale and shift.

    Args:
        model: its other weights no longer move.
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model.requires_grad_(requires_grad=False)
        self.norm = nn.BatchNorm1d(model.head.in_features, affine=False, device=model.head.weight.device)
        model.head.requires_grad_()

    def train(self, mode: bool = True) -> Self:
        """Training is the normalisation's alone."""
        super().train(mode)
        self.model.eval()
        return self

    def forward(self, images: Tensor) -> Tensor:
        """Logits."""
        features = self.model.features(images)
        self.norm.train(self.training and len(features) > 1)  # one image has no deviation from the mean of its batch
        logits: Tensor = self.model.head(self.norm(features))
        return logits
