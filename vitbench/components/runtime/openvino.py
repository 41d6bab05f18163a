"""OpenVINO on the CPU."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from vitbench.components.contracts import Runtime, as_onnx
from vitbench.registry import component


@component(
    exact=True,
    devices=("cpu",),
    trains_on=(),
    dtypes=("float32",),
    packages=("openvino", "onnx", "onnxscript"),
    source="https://docs.openvino.ai, its CPU device",
)
class OpenVino(Runtime):
    """OpenVINO's plug-in for CPUs, in float32."""

    def prepare(self, module: nn.Module, example: Tensor) -> Callable[[Tensor], Tensor]:
        """A compiled model of as many threads as PyTorch has.

        It is read from ONNX: OpenVINO's converter of PyTorch models reports its use over the network.
        """
        import openvino

        core = openvino.Core()
        how = {
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f32",  # by default bfloat16 on processors that have it
            "ENABLE_CPU_PINNING": False,  # nobody else's threads keep to their cores
        }
        compiled = core.compile_model(core.read_model(as_onnx(module, example)), "CPU", how)
        return lambda images: torch.from_numpy(compiled(images.numpy(), share_inputs=True)[0])
