"""Tests of one group share what their fixtures have run: one worker has them all."""

import pytest


@pytest.mark.xdist_group("groups")
def test_a_group_is_known_to_the_scheduler(request: pytest.FixtureRequest) -> None:
    """By the test's id, which pytest and pytest-xdist have to agree on; where they do not, groups are scattered."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("no worker: this is not `make test`")
    assert request.node.nodeid.endswith("@groups")
