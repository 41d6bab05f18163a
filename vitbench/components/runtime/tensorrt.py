"""TensorRT by Torch-TensorRT. Written from its documentation: not measured yet."""

from collections.abc import Callable

from torch import Tensor, nn

from vitbench.components.contracts import Runtime
from vitbench.registry import component


@component(
    exact=True,
    devices=("cuda",),
    trains_on=(),
    dtypes=("float32", "float16"),
    packages=("torch_tensorrt",),
    source='https://docs.pytorch.org/TensorRT, torch_tensorrt.compile with ir="dynamo"',
)
class TensorRT(Runtime):
    """TensorRT, the whole model as one engine."""

    def prepare(self, module: nn.Module, example: Tensor) -> Callable[[Tensor], Tensor]:
        """An engine for this shape, in the module's dtype; an operation that it does not have is an error."""
        import torch_tensorrt

        compiled: Callable[[Tensor], Tensor] = torch_tensorrt.compile(
            module, ir="dynamo", inputs=[example], enabled_precisions={example.dtype}, disable_tf32=True,
            require_full_compilation=True,
        )  # fmt: skip
        return compiled
