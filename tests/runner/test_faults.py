"""The faults of docs/reliability.md, row by row: each is made to happen, with real processes.

Rows of a cluster are in test_ray.py, of several drivers in test_leases.py, of files in tests/store.
"""

import contextlib
import io
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from PIL import Image

from tests.conftest import wants_compiler
from tests.runner.runs import Runs, all_end, busy, descendants, here, killed, living, sets, until
from tests.small import train_trial
from vitbench.analysis.timings import BESIDE, instability
from vitbench.store import Record, StudyFolder, TimeValues, TrainValues
from vitbench.store.attempts import standing
from vitbench.store.leases import at_work

pytestmark = pytest.mark.slow  # each starts drivers of its own; .ci/run runs them

BESIDE_A_GOOD_ONE = ("--set", 'axes.mlp=["faulty", "gelu"]')
ALONE = ("--set", "model.mlp=faulty")
QUIET = pytest.mark.xdist_group("quiet")
"""Tests that measure how long something takes, and those that keep all cores busy: one worker has them, in turn."""
IN_C = "import re; re.match('(a+)+$', 'a' * 64 + 'b')"  # Busy for ages in C code that never gives the GIL up


def test_f01_f02_sigkill_of_the_driver_loses_what_was_running_and_repeats_nothing(runs: Runs) -> None:
    arguments = ["--set", "train.seeds=[0, 1, 2, 3, 4, 5]", "--set", "train.epochs=8", *runs.plugin("pass"), *ALONE]
    driver = runs.start(*arguments)
    runs.wait_for(2)
    children = descendants(driver)
    killed(driver)
    finished = {r.trial_id: r for r in runs.records()}
    assert 2 <= len(finished) < 6 and set(runs.states()) == {"ok"} and StudyFolder.read(runs.study).damaged == []
    assert all_end(children), "processes outlived the driver"
    before = len(runs.pids())

    runs.complete(*arguments)
    records = runs.records()
    assert len(records) == 6 == len({r.trial_id for r in records})
    assert all(r == finished[r.trial_id] for r in records if r.trial_id in finished)
    assert len(runs.pids()) - before == 6 - len(finished), "each process leaves a file when it starts"
    assert at_work(runs.study / "leases") == []


@pytest.mark.parametrize(
    ("body", "state", "reason", "tries"),
    [
        pytest.param("os.kill(os.getpid(), signal.SIGKILL)", "crashed", "killed by signal 9 (SIGKILL)", 2, id="f03"),
        pytest.param("os._exit(3)", "crashed", "ended with exit status 3 and no result", 2, id="f03-exit"),
        pytest.param("raise RuntimeError('out of luck')", "failed", "RuntimeError: out of luck", 2, id="f04"),
        pytest.param("raise torch.OutOfMemoryError('CUDA out of memory')", "oom", "batch 50, ", 1, id="f08"),
        pytest.param("torch.empty(1 << 60)", "oom", "bytes at the peak: ", 1, id="f08-allocator"),
        pytest.param("raise RuntimeError('CUDA error: an illegal memory access was encountered')", "failed",
                     "illegal memory access", 2, id="f09"),
        pytest.param("return hidden * float('nan')", "diverged", "loss not finite by step 1", 1, id="f10"),
    ],
)  # fmt: skip
def test_f03_f04_f05_f08_f09_f10_a_fault_is_a_word_and_costs_one_trial(
    runs: Runs, body: str, state: str, reason: str, tries: int
) -> None:
    done = runs.run_here(*runs.plugin(body), *BESIDE_A_GOOD_ONE)
    assert done.returncode == 1, done.stdout + done.stderr
    assert runs.states() == {state: tries, "ok": 1}, "the others are unaffected"
    bad = [r for r in runs.records() if r.state == state]
    assert all(reason in r.reason and r.values is None for r in bad), bad
    assert {r.trial.train.batch_size for r in bad if r.trial.kind == "train"} == {50}, "never a smaller batch"
    assert [r.attempt for r in sorted(bad, key=lambda r: r.attempt)] == list(range(1, tries + 1))
    if state == "failed":
        assert body[len("raise RuntimeError('") : -2] in bad[0].details and "faulty.py" in bad[0].details
        assert len(bad[0].details.splitlines()) <= 50
    assert len(runs.pids()) == tries, "each attempt has a process of its own"
    assert reason in done.stdout
    again = runs.run_here(*runs.plugin(body), *BESIDE_A_GOOD_ONE)
    assert again.returncode == 1 and len(runs.pids()) == tries, "a poison trial is tried for ever"


def test_f05_the_number_of_tries_is_the_suites_and_the_report_shows_it(runs: Runs) -> None:
    runs.run_here(*runs.plugin("os._exit(3)"), *BESIDE_A_GOOD_ONE, "--set", "suite.max_attempts=3")
    assert runs.states() == {"crashed": 3, "ok": 1}
    page = runs.report()
    assert "Trials with more than one attempt: 1." in page and "crashed, crashed, crashed" in page


@QUIET
def test_f06_hung_trial_is_killed_after_its_grace_whatever_it_ignores(runs: Runs) -> None:
    """Two at once: one sleeps in Python, the other, of 16 channels, is stuck in C."""
    stuck = f"hidden.shape[-1] == 4 * 16 and exec({IN_C!r}); time.sleep(600)"
    plugin, both = runs.plugin(f"signal.signal(signal.SIGTERM, signal.SIG_IGN); {stuck}"), sets("axes.dim=[16, 32]")
    done = runs.run_here(*plugin, *ALONE, *both, "--workers", "2", "--set", "suite.timeout_s=3.0")
    records = runs.records()
    assert done.returncode == 1 and {r.trial.model.dim for r in records} == {16, 32} and len(records) == 2
    for record in records:
        assert record.state == "timeout" and "still running after 3 s" in record.reason
        assert 10 <= record.seconds - 3 <= 12 + 3, "10 s of grace and 2 s; 3 more for a machine that is busy with tests"
    assert len(runs.pids()) == 2 and not living(runs.pids())


@QUIET
def test_f06_hung_trial_in_c_that_heeds_sigterm_ends_at_once(runs: Runs) -> None:
    runs.run_here(*runs.plugin(f"signal.signal(signal.SIGTERM, signal.SIG_DFL); {IN_C}"), *ALONE,
             "--set", "suite.timeout_s=3.0")  # fmt: skip
    (record,) = runs.records()
    assert record.state == "timeout" and record.seconds < 10


@pytest.mark.parametrize("after", ["time.sleep(600)", "pass"], ids=["hung", "finished"])
def test_f07_no_process_of_a_trials_group_outlives_it(runs: Runs, after: str) -> None:
    body = f"import subprocess; c = subprocess.Popen(['sleep', '600']); (STARTS / str(c.pid)).touch(); {after}"
    runs.run_here(*runs.plugin(body), *ALONE, "--set", "suite.timeout_s=4.0")
    assert runs.states() == ({"ok": 1} if after == "pass" else {"timeout": 1})
    pids = runs.pids()
    assert len(pids) >= 2 and not living(pids)


def test_f07_a_sleeper_that_a_killed_driver_leaves_is_ended_by_the_next(runs: Runs) -> None:
    """The trial is stuck in C when its driver is killed: the kernel ends it, and the next driver ends its child."""
    body = f"import subprocess; c = subprocess.Popen(['sleep', '600']); (STARTS / str(c.pid)).touch(); {IN_C}"
    driver = runs.start(*runs.plugin(body), *ALONE)
    runs.wait_for_starts(2)
    time.sleep(0.5)
    killed(driver)
    pids = runs.pids()
    runs.complete(*runs.plugin("pass"), *ALONE)
    assert all_end(pids)


@QUIET
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_f11_a_signal_ends_the_study_cleanly_and_it_goes_on_from_there(
    runs: Runs, number: signal.Signals, status: int
) -> None:
    arguments = [*runs.plugin("time.sleep(600)"), "--set", 'axes.mlp=["gelu", "faulty"]']
    driver = runs.start(*arguments)
    runs.wait_for_starts(1)
    children = descendants(driver)
    began = time.monotonic()
    driver.send_signal(number)
    driver.wait(timeout=30)
    output = runs.log.read_text()
    assert driver.returncode == status, output
    assert time.monotonic() - began < 15 + 5, "15 s, and 5 more for a machine that is busy with tests"
    assert runs.states() == {"ok": 1, "interrupted": 1}
    assert "the same command goes on from here" in output and "Traceback" not in output
    assert all_end(children)
    assert list((runs.study / "leases").iterdir()) == []
    runs.plugin("pass")
    runs.complete(*arguments)
    assert runs.states() == {"ok": 2, "interrupted": 1}


@QUIET
def test_f11_a_second_ctrl_c_ends_at_once_and_leaves_no_process(runs: Runs) -> None:
    body = f"signal.signal(signal.SIGTERM, signal.SIG_IGN); {IN_C}"
    driver = runs.start(*runs.plugin(body), *ALONE)
    runs.wait_for_starts(1)
    children = descendants(driver)
    driver.send_signal(signal.SIGINT)
    time.sleep(1.0)
    assert driver.poll() is None, "the first one waits for the trial's grace"
    driver.send_signal(signal.SIGINT)
    assert driver.wait(timeout=5) == 130
    assert all_end(children)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_f11_a_signal_while_torch_is_loaded_is_quiet_and_leaves_no_process(
    runs: Runs, number: signal.Signals, status: int
) -> None:
    """A terminal sends it to the fork server, too, which multiprocessing makes ignore it only once all is loaded."""
    driver = runs.start()
    until(lambda: any(of_server(child) for child in psutil.Process(driver.pid).children()), "no fork server")
    children, server = descendants(driver), fork_server(driver.pid)
    server.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert server.status() != psutil.STATUS_ZOMBIE, runs.log.read_text()
    driver.send_signal(number)
    assert driver.wait(timeout=60) == status
    assert all_end(children, within_s=2.0), "a server that loads torch would see its end by itself, but later"
    assert not runs.log.read_text().strip() and not (runs.study / "study.json").exists()


def test_f12_a_folder_that_cannot_be_written_fails_before_the_first_trial(runs: Runs) -> None:
    (runs.folder / "file").write_text("")
    runs.study = runs.folder / "file" / "study"
    done = runs.run_here(*runs.plugin("pass"), *ALONE)
    assert done.returncode == 2 and "cannot be written" in done.stderr and "Traceback" not in done.stderr
    assert list(runs.starts.iterdir()) == []


def test_f12_a_folder_that_vanishes_ends_the_run_with_a_message_and_no_process(runs: Runs) -> None:
    driver = runs.start(*runs.plugin("time.sleep(0.5)"), *ALONE, "--set", "train.seeds=[0, 1, 2]")
    runs.wait_for_starts(1)
    children = descendants(driver)
    shutil.rmtree(runs.study)
    assert driver.wait(timeout=60) == 2
    output = runs.log.read_text()
    assert "cannot be written" in output and "the same command goes on from here" in output
    assert "Traceback" not in output and all_end(children)


def test_f14_a_damaged_record_is_set_aside_by_name_and_its_trial_run_again(runs: Runs) -> None:
    arguments = ["--set", "train.seeds=[0, 1]"]
    runs.run_here(*arguments)
    good, bad = sorted(runs.study.glob("records/*.json"))
    bad.write_bytes(bad.read_bytes()[:200])
    again = runs.run_here(*arguments)
    assert again.returncode == 0 and "1 of them finished before" in again.stdout
    assert f"set aside {bad.name}" in again.stdout and bad.with_name(f"{bad.name}.corrupt").exists()
    assert runs.states() == {"ok": 2} and good.exists()


def test_f20_a_gpu_that_is_not_there_is_never_replaced_by_the_cpu() -> None:
    from vitbench.runner.work import Request, perform

    trial = train_trial().model_copy(update={"device": "cuda"})
    reply = perform(Request(task="train", trial=trial, device="cuda:7", timeout_s=60.0), lambda *_: None)
    assert reply.state == "failed" and "cuda:7 requested" in reply.reason and reply.values is None


@QUIET
def test_f21_foreign_load_while_timing_marks_the_timing(runs: Runs) -> None:
    cores = os.cpu_count() or 1
    with busy(2 * cores):
        runs.run_here("--set", "time.rounds=4", "--set", "time.modes=['inference']", "--only", "timing")
    (values,) = [r.values for r in runs.records()]
    assert isinstance(values, TimeValues)
    assert min(p.foreign_threads or 0.0 for p in values.processes) > cores
    why = instability(values)  # unstable only where the load spoiled the ratio, and then it is named as the cause
    assert not why or BESIDE in why, why


def test_f23_results_of_other_code_are_counted_and_run_again_if_asked(runs: Runs) -> None:
    runs.run_here("--set", "train.seeds=[0, 1]")
    old = sorted(runs.study.glob("records/*.json"))[0]
    body = json.loads(old.read_text())["record"]
    body["environment"]["code"] = "000000000000"
    old.write_text(Record.model_validate_json(json.dumps(body), context={"stored": True}).to_json())
    quiet = runs.run_here("--set", "train.seeds=[0, 1]")
    assert "1 result is of other code than this; --rerun-changed runs it again" in quiet.stdout
    assert len(runs.records()) == 2 and "Results of other code than the latest: 1." in runs.report()
    runs.run_here("--set", "train.seeds=[0, 1]", "--rerun-changed")
    records = StudyFolder.read(runs.study).records()
    assert len(runs.records()) == 3 and len(records) == 2
    codes = {standing(attempts).environment.code for attempts in records.values() if standing(attempts).environment}
    assert "000000000000" not in codes and len(codes) == 1, "the new result stands"
    assert "other code" not in runs.report()
    assert "other code" not in runs.run_here("--set", "train.seeds=[0, 1]").stdout


def test_f25_a_report_of_any_part_of_a_study(runs: Runs) -> None:
    runs.run_here(*runs.plugin("torch.empty(1 << 60)"), "--set", 'axes.mlp=["faulty", "gelu", "relu"]')
    files = sorted(runs.study.glob("records/*.json"))
    for file in files:
        page = runs.report()
        assert all(cell in page for cell in ("faulty", "gelu", "relu")), "a missing result is told, not left blank"
        file.unlink()
    page = runs.report()
    assert "pending" in page and here("status", str(runs.study)).returncode == 0


def test_f26_text_that_is_no_utf8_costs_one_trial(tmp_path: Path) -> None:
    """In an exception, in the names of images, classes, a plug-in's folder, the study's and the working folder."""
    runs = Runs(tmp_path / os.fsdecode(b"runs\xff"))
    runs.study = runs.folder / os.fsdecode(b"st\xff")
    images = runs.folder / os.fsdecode(b"im\xff")
    for part, name, number in itertools.product(("train", "test"), (b"cat\xfe", b"dog"), range(4)):
        folder = images / part / os.fsdecode(name)
        folder.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        Image.new("RGB", (16, 16), (60 * number, 50 * number, 200 - 40 * number)).save(content, "PNG")
        (folder / os.fsdecode(b"%d\xfd.png" % number)).write_bytes(content.getvalue())
    (runs.folder / "images").symlink_to(images)
    data = ["--set", "data.path=images", "--set", "data.train_images=8", "--set", "data.test_images=8", "--set",
            "data.validation_images=0", "--set", "model.num_classes=2", "--set", "train.batch_size=4"]  # fmt: skip
    arguments = [*runs.plugin("raise ValueError('a' + chr(0xdc80) + chr(0xd800))"), *data, *BESIDE_A_GOOD_ONE]
    with contextlib.chdir(runs.folder):
        done = runs.run(*arguments, "--keep-weights")
        assert done.returncode == 1 and "Traceback" not in done.stderr, done.stdout + done.stderr
        assert runs.states() == {"failed": 2, "ok": 1} and StudyFolder.read(runs.study).damaged == []
        assert next(r.reason for r in runs.records() if r.state == "failed") == r"ValueError: a\udc80\ud800"
        assert StudyFolder.read(runs.study).info.class_names == (r"cat\udcfe", "dog")
        out = runs.folder / os.fsdecode(b"out\xff")
        (weights,) = runs.study.glob("weights/*")
        for command in (
            ["plan", str(runs.suite), "--results", str(runs.study), *arguments], ["status", str(runs.study)],
            ["report", str(runs.study), "--out", str(out), "--export", "latex"], ["report", str(runs.study), "--print"],
            ["explain", str(weights), "--out", str(out / "model")],
        ):  # fmt: skip
            result = runs.vitbench(*command)
            assert result.returncode == 0 and "Traceback" not in result.stderr, result.stdout + result.stderr
        refused = runs.run(*data, "--set", os.fsdecode(b'suite.question="a\xff"'))
        assert refused.returncode == 2 and "is no UTF-8 text" in refused.stderr


FLOODS = {
    "line": ("print('x' * 400_000_000, flush=True); os._exit(3)", "crashed", "ended with exit status 3"),
    "message": ("raise ValueError('x' * 400_000_000)", "failed", "ValueError: xxx"),
    "lines": ("raise ValueError('\\\\n' + ('x' * 56 + '\\\\n') * 7_000_000)", "failed", "ValueError: "),
    "progress": ("frame = __import__('sys')._getframe()\n"
                 "        while 'send' not in frame.f_locals: frame = frame.f_back\n"
                 "        frame.f_locals['send']('progress', 'x' * 400_000_000)",
                 "failed", "sent a message of more than"),
}  # fmt: skip


@pytest.mark.parametrize("how", FLOODS)
def test_f29_a_trial_that_floods_leaves_a_bounded_record(runs: Runs, how: str) -> None:
    body, state, reason = FLOODS[how]
    driver = runs.start(*runs.plugin(body), *ALONE)
    runs.wait_for_starts(1)
    before = after = peak_mib(driver.pid)
    while driver.poll() is None:
        after = max(after, peak_mib(driver.pid))
        time.sleep(0.02)
    assert driver.returncode == 1 and after - before < 300, "imports are half of that; the flood is 400 MB"
    assert runs.states() == {state: 2}, "each attempt counts, and there is no third"
    for file in runs.study.glob("records/*"):
        assert file.stat().st_size < 200_000
    assert all(r.reason.startswith(reason) and len(r.reason) <= 1000 for r in runs.records())
    assert all(len(r.details.splitlines()) <= 50 for r in runs.records())
    assert runs.log.stat().st_size < 100_000
    assert "xxx" not in runs.report() or reason.startswith("ValueError"), "what it printed stays in the record"


def peak_mib(pid: int) -> float:
    """The most memory that a process has had so far; 0 of one that has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def test_f32_two_drivers_with_different_plans_hide_no_result(runs: Runs) -> None:
    """The first one's running trials stay planned; what it finishes later is counted, in status and in the report."""
    plugin = runs.plugin("while not STARTS.with_name('go').exists(): time.sleep(0.02)")
    first = runs.start(*plugin, *ALONE, "--set", "train.seeds=[0, 2]", log="first")
    runs.wait_for_starts(1)
    second = runs.start(*plugin, *ALONE, "--set", "train.seeds=[1]", log="second")
    runs.wait_for_starts(2)
    (runs.folder / "go").touch()
    assert (first.wait(timeout=120), second.wait(timeout=120)) == (0, 0)
    assert sorted(p.trial.seed for p in StudyFolder.read(runs.study).info.trials if p.trial.kind == "train") == [0, 1]
    assert runs.states() == {"ok": 3}
    assert "Records of trials outside the plan, in no table here: 1." in runs.report()
    assert "1 record of trials outside the plan" in here("status", str(runs.study)).stdout


def test_f38_a_compiler_killed_in_the_middle_spoils_no_later_trial(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one that writes a program leaves half of it, and its trial is killed; the next attempt is well."""
    wants_compiler()
    compiler, real, once = runs.folder / "c++", shutil.which("c++"), runs.folder / "once"
    compiler.write_text(
        "#!/bin/sh\n"
        f'out=$(echo "$*" | sed -n "s/.*-o \\([^ ]*[.]main[.]so\\).*/\\1/p")\n'
        f'if [ -n "$out" ] && mkdir {once} 2> {os.devnull}; then echo half > "$out"; kill -9 0; fi\n'
        f'exec {real} "$@"\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(runs.folder / "shared"))
    done = runs.run("--set", "train.compile=true", "--set", "train.seeds=[0, 1]")
    assert once.is_dir(), "no compiler was asked for a program"
    assert done.returncode == 0 and runs.states() == {"crashed": 1, "ok": 2}, done.stdout + done.stderr
    first, second = (r.values.first_step_ms for r in runs.records() if isinstance(r.values, TrainValues))
    assert second < first / 2, "a further seed uses what the first has compiled"


def test_f28_a_disk_that_is_full_or_becomes_read_only(tmp_path: Path) -> None:
    """A real one of 200 KB, below a study that is made while it is there."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=200k", "none", str(disk)]
    if subprocess.run(mounted, capture_output=True, check=False).returncode:
        pytest.skip("mounting takes the rights of a root")
    try:
        runs = Runs(tmp_path / "runs")
        runs.study = disk / "study"
        arguments = [*runs.plugin("time.sleep(0.2)"), *ALONE, "--set", "train.seeds=[0, 1, 2, 3]"]
        for become in ("full", "ro"):
            driver = runs.start(*arguments)
            runs.wait_for(1)
            filler = disk / "filler"
            if become == "full":
                with contextlib.suppress(OSError), filler.open("wb") as stream:
                    while True:
                        stream.write(bytes(1024))
                        stream.flush()
            else:
                subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            assert driver.wait(timeout=60) == 2, runs.log.read_text()
            output = runs.log.read_text()
            assert "cannot be written" in output and "the same command goes on from here" in output
            assert "Traceback" not in output and here("status", str(runs.study)).returncode == 0
            subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
            filler.unlink(missing_ok=True)
            shutil.rmtree(runs.study / "records" if become == "full" else runs.folder / "none", ignore_errors=True)
        runs.complete(*arguments)
        assert runs.states() == {"ok": 4}
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_f30_a_vitbench_in_another_namespace_leaves_the_scratch_of_this_one_alone(runs: Runs) -> None:
    """They share the folder for temporary files, and the numbers of one's processes mean nothing to the other."""
    apart = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a namespace takes the rights of a root")
    body = "while not (STARTS.parent / 'go').exists(): time.sleep(0.05)"
    driver = runs.start(*runs.plugin(body), *ALONE, "--workers", "2", "--set", "train.seeds=[0, 1]")
    runs.wait_for_starts(2)
    other = Runs(runs.folder / "other")
    done = subprocess.run([*apart, *other.command()], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (runs.folder / "go").touch()
    assert driver.wait(timeout=120) == 0, runs.log.read_text()
    assert runs.states() == {"ok": 2} and other.states() == {"ok": 1}


def test_f35_threads_that_a_component_leaves_do_not_keep_its_process(runs: Runs) -> None:
    body = "import threading; threading.Thread(target=time.sleep, args=(600,)).start()"
    runs.complete(*runs.plugin(body), *ALONE)
    assert runs.states() == {"ok": 1}


def test_f35_a_fork_server_that_is_stopped_delays_no_deadline(runs: Runs) -> None:
    driver = runs.start(*runs.plugin("time.sleep(600)"), *ALONE, "--set", "suite.timeout_s=3")
    runs.wait_for_starts(1)
    fork_server(driver.pid).suspend()
    assert driver.wait(timeout=100) == 1, runs.log.read_text()
    assert runs.states() == {"timeout": 1}


def test_f35_a_fork_server_that_starts_nothing_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vitbench.runner import process
    from vitbench.runner.forked import end_server
    from vitbench.runner.work import Request

    requests = [Request(task="nothing", trial=train_trial(seed=n), timeout_s=60.0) for n in (0, 1)]
    with contextlib.closing(process.Pool([process.Slot("cpu", 1)], tmp_path, process.Stop())) as pool:
        for outcome, request in zip(pool.run(iter(requests), lambda *_: None), requests, strict=True):
            assert outcome.state == "ok" and outcome.request.trial == request.trial
            fork_server(os.getpid()).suspend()
            monkeypatch.setattr(process, "START_SECONDS", 1.0)
    end_server()  # the last one, which other tests would wait for


def fork_server(driver: int) -> psutil.Process:
    (server,) = filter(of_server, psutil.Process(driver).children())
    return server


def of_server(process: psutil.Process) -> bool:
    return "multiprocessing.forkserver" in " ".join(process.cmdline())


@QUIET
def test_f37_what_waits_for_a_device_says_for_whom_and_status_shows_it(runs: Runs) -> None:
    body = "while not (STARTS.parent / 'go').exists(): time.sleep(0.05)"
    first = runs.start(*runs.plugin(body), *ALONE)
    runs.wait_for_starts(1)
    other = Runs(runs.folder / "other")
    timing = ("--only", "timing", "--set", "time.rounds=1", "--set", 'time.modes=["inference"]')
    second = other.start(*timing)
    sentence = f"in use by process {first.pid}, for {runs.study}"
    until(lambda: f"waiting for cpu: {sentence}" in other.log.read_text(), "it does not say for whom it waits")
    status = " ".join(here("status", str(other.study)).stdout.split())
    assert re.search(rf"waiting: process {second.pid} has waited \d+ s for cpu, {sentence}", status), status
    assert "waiting" not in here("status", str(runs.study)).stdout
    third = other.run(*timing, "--no-wait")
    assert third.returncode == 2 and sentence in " ".join(third.stderr.split()) and "--no-wait" in third.stderr
    (runs.folder / "go").touch()
    assert (first.wait(timeout=120), second.wait(timeout=120)) == (0, 0), other.log.read_text()
    assert not list(Path(tempfile.gettempdir()).glob(f"vitbench-devices-*/cpu.{second.pid}.json"))
