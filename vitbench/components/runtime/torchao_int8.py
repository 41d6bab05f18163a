"""Linear layers in int8 by torchao."""

from collections.abc import Callable

from torch import Tensor, nn

from vitbench.components.runtime.compiled import Compiled
from vitbench.registry import component


@component(
    devices=("cpu",),
    trains_on=(),
    dtypes=("float32",),
    packages=("torchao",),
    source="torchao, arXiv 2507.16099: Int8DynamicActivationInt8WeightConfig",
)
class TorchaoInt8(Compiled):
    """Linear layers in int8, compiled: weights rounded by channel, activations by token as they come."""

    def prepare(self, module: nn.Module, example: Tensor) -> Callable[[Tensor], Tensor]:
        """A compiled module; without torch.compile each step of the rounding would be an operation by itself.

        torchao's settings of the compiler are left out: they hold for the whole process, and so for other variants.
        """
        from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_

        quantize_(module, Int8DynamicActivationInt8WeightConfig(set_inductor_config=False))
        return super().prepare(module, example)
