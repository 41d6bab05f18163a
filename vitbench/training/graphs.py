"""CUDA graphs: whole steps of training, captured once and replayed, so that a step costs the host one launch.

The first steps of a process are launched one by one, and are steps like any other: in them memory is taken, libraries
set themselves up, and what is to be compiled is compiled. The next one is captured and replayed. A batch of another
size, the last of an epoch, is launched one by one as well.
Source of the rules: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
"""

import gc
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from vitbench.data.batches import Batch
from vitbench.devices import copy_all

FIRST_STEPS = 3  # Steps that are launched one by one before one is captured; torch's own advice
Work = Callable[[Sequence[Batch]], Tensor | None]
"""A step on a batch of each member, with all that it adds up; gives gradient norms (S,), or None."""


class CapturePace:
    """Learning rate and share of the average of an epoch's steps, on the device, which counts its steps itself.

    So a step that is replayed has its own rate, and the host sends nothing.

    Attributes:
        rate: (), of the step at hand.
        share: (), by which the average moves in it.

    Args:
        steps: of an epoch, at the most.
        device: of the model.
    """

    def __init__(self, steps: int, device: torch.device) -> None:
        self.table = torch.zeros(steps, 2, device=device)
        self.next = torch.zeros(1, dtype=torch.int64, device=device)
        self.now = torch.zeros(1, 2, device=device)
        self.rate, self.share = self.now[0].unbind()

    def begin(self, coming: Sequence[tuple[float, float]]) -> None:
        """Set rate and share of the steps that come now, until the next call."""
        self.table[: len(coming)].copy_(torch.tensor(coming).reshape(-1, 2))
        self.next.zero_()

    def tick(self) -> None:
        """Go on to the next step. Reads nothing from the host."""
        self.now.copy_(self.table.index_select(0, self.next))
        self.next.add_(1)


class Graph:
    """Steps on batches of one size as one CUDA graph, and those on others launched one by one.

    Batches are copied to where the graph reads. Weights, state of the optimiser and all sums are changed in place.

    Attributes:
        replays: of the graph, so far.
        notice: why there is no graph, as a record says it; None where there is one, or may be one yet.

    Args:
        size: images of a batch that the graph is for.
        parameters: whose gradients are looked at between two steps.
        device: where all of it is.
    """

    def __init__(self, size: int, parameters: Sequence[nn.Parameter], device: torch.device) -> None:
        self.size, self.parameters = size, parameters
        # One stream for the first steps and the capture, so that what the first leave behind (work space of cuBLAS,
        # nodes of autograd) is of the stream that is captured; and not the default one, which cannot be.
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.notice: str | None = None
        self.replays = 0
        self._first = 0
        self._inputs: list[Batch] = []
        self._replay: Callable[[], object] | None = None
        self._norms: Tensor | None = None
        self._gradients: list[Tensor | None] = []
        self._strayed = False

    def step(self, batch: Sequence[Batch], work: Work) -> Tensor | None:
        """One step of a kind of work that is the same in each call; gives what it gives.

        Raises:
            torch.OutOfMemoryError: in the capture, too: what does not fit is not run in another way.
        """
        if len(batch[0]) != self.size or self.notice is not None:
            self._strayed = True
            return work(batch)
        if not self._inputs:
            self._inputs = [each.map(torch.clone) for each in batch]
        else:
            pairs = zip(self._inputs, batch, strict=True)
            copy_all(pair for place, given in pairs for pair in zip(place.tensors(), given.tensors(), strict=True))
        if self._first < FIRST_STEPS:
            self._first += 1
            return self._beside(work)
        if self._replay is None:
            self._capture(work)
            if self._replay is None:
                return work(self._inputs)
        if self._strayed:  # who reads a gradient after a replay must find those of the graph
            for parameter, gradient in zip(self.parameters, self._gradients, strict=True):
                parameter.grad = gradient
            self._strayed = False
        self._replay()
        self.replays += 1
        return self._norms

    def _beside(self, work: Work) -> Tensor | None:
        """A step on the stream that is captured later; the present one waits for it."""
        if self.stream is None:
            return work(self._inputs)
        present = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(present)
        with torch.cuda.stream(self.stream):
            norms = work(self._inputs)
        present.wait_stream(self.stream)
        return norms

    def _capture(self, work: Work) -> None:
        """Capture a step, which does nothing yet."""

        def step() -> None:
            self._norms = work(self._inputs)

        try:
            self._replay = record(step, self.stream)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, AssertionError) as error:  # the second where torch has no CUDA at all
            cause = error.__context__ or error  # a capture that fails in the middle fails at its end once more
            reason = (str(cause).strip() or type(cause).__name__).splitlines()[0]
            self.notice = f"CUDA graphs were asked for, and training ran without: {reason}"
            self._norms, self._strayed = None, True
            return
        self._gradients = [parameter.grad for parameter in self.parameters]
        self._strayed = False


def record(step: Callable[[], None], stream: torch.cuda.Stream | None) -> Callable[[], object]:
    """Capture what a function launches on a stream; what is returned launches it again, on the present stream."""
    gc.collect()  # the graph and the memory of an earlier stage, which may not be given back in a capture
    graph = torch.cuda.CUDAGraph()
    # Outside, the present stream: torch leaves the other one in its place where a capture fails as it ends.
    # Thread-local: what other threads of the process ask of CUDA meanwhile is none of the capture's business.
    with (
        torch.cuda.stream(torch.cuda.current_stream()),
        torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"),
    ):
        step()
    return graph.replay
