"""The fork server and what it is asked for: either may be killed at any time."""

import os
import signal

import pytest

from vitbench.errors import UserError
from vitbench.runner.forked import PATHS, forked


def test_f35_a_process_that_is_killed_before_it_answers_is_said_and_a_killed_server_is_replaced() -> None:
    with pytest.raises(UserError, match="images was ended"):
        forked("os:_exit", 1)
    before = {name: os.environ.get(name) for name in PATHS}
    server = forked("os:getppid")
    os.kill(server, signal.SIGKILL)
    assert forked("os:getppid") not in (server, os.getpid())
    assert {name: os.environ.get(name) for name in PATHS} == before


def test_a_trial_s_collector_runs_and_leaves_what_the_server_has_imported_alone() -> None:
    assert forked("gc:isenabled") and forked("gc:get_freeze_count") > 100_000
