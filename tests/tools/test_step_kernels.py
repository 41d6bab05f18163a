"""What a training step launches, as the tool counts it."""

import pytest
import torch

from tests.small import MODEL, TRAIN, train_trial
from tools.step_kernels import main, step_kernels


def test_attention_is_launched_once_a_block_and_step() -> None:
    model = MODEL.model_copy(update={"attention": "sdpa", "depth": 2})
    trial = train_trial(model=model, train=TRAIN)
    rows = step_kernels([trial], torch.device("cpu"))
    assert [us for us, *_ in rows] == sorted((us for us, *_ in rows), reverse=True)
    launches = {name: n for _, n, name in rows}
    # Evaluation, after each epoch and at the end, is forward alone.
    assert launches["aten::_scaled_dot_product_flash_attention_for_cpu_backward"] == 2
    assert launches["aten::_scaled_dot_product_flash_attention_for_cpu"] > 2


def test_a_cell_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("ablations/pooling.toml", "none such", "data.name=synthetic", "data.download=false") == 1
    assert "no cell is called 'none such': " in capsys.readouterr().err
