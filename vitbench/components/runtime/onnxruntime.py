"""ONNX Runtime on the CPU."""

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
    packages=("onnxruntime", "onnx", "onnxscript"),
    source="https://onnxruntime.ai, its CPU execution provider",
)
class OnnxRuntime(Runtime):
    """ONNX Runtime's own kernels for the CPU, on a graph that it has optimised."""

    def prepare(self, module: nn.Module, example: Tensor) -> Callable[[Tensor], Tensor]:
        """A session of as many threads as PyTorch has."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
        # Threads wait awake for the next operation, as PyTorch's do, but not for the next call: until then the cores
        # are another variant's.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        session = onnxruntime.InferenceSession(as_onnx(module, example), options, providers=["CPUExecutionProvider"])
        (name,) = (each.name for each in session.get_inputs())
        return lambda images: torch.from_numpy(session.run(None, {name: images.numpy()})[0])
