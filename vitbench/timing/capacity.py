"""Capacity: the largest batch that fits into a device's memory."""

import torch

from vitbench.config.trial import TimeTrial
from vitbench.devices import synchronise
from vitbench.timing.subject import Subject

WITHIN = 1.05  # Ratio of the least batch known not to fit to the largest known to fit, at which the search ends


def largest_batch(trial: TimeTrial, device: torch.device) -> int | None:
    """The largest batch of which one iteration fits into a GPU's memory, within 5 %; 0 where not even one image does.

    By doubling until a batch does not fit, then by halving what lies between. None on other devices: a CPU's memory is
    the machine's, and to ask for all of it would end other programs.

    Raises:
        RuntimeError: where the first batch fails for another reason than memory, or any leaves the device unusable.
    """
    if device.type != "cuda":
        return None
    fits, fails, batch = 0, None, trial.batch_size
    while fails is None or (fits * WITHIN < fails and fails - fits > 1):
        try:
            _iterate(trial.model_copy(update={"batch_size": batch}), device)
            fits = batch
        except torch.OutOfMemoryError:
            fails = batch
        except RuntimeError:  # of a library without memory, or of a kernel whose grid is too large for such a batch
            synchronise(device)  # raises again where an error has left the device unusable
            if not fits and fails is None:
                raise
            fails = batch
        batch = fits * 2 if fails is None else (fits + fails) // 2
    return fits


def _iterate(trial: TimeTrial, device: torch.device) -> None:
    try:
        subject = Subject(trial, device)
        subject.iterate()
        synchronise(device)
    finally:
        subject = None  # type: ignore[assignment]  # its tensors go before the cache is emptied
        torch.cuda.empty_cache()
