#!/usr/bin/env bash
# Right, and fast? What the machine is; the tests that need a GPU; attention tuned and timed beside every SDPA backend.
#   OUT=found bash tools/gpu/1.sh      (at most ten minutes: BUDGET_S of them for the tuning)
. tools/gpu/common.sh
BUDGET_S=${BUDGET_S:-280}

gpu && step machine 20 nvidia-smi
step doctor 60 "$PYTHON" -m vitbench doctor
LINES_SHOWN=40 step tests 170 "$PYTHON" -m pytest -m gpu tests/kernels tests/timing -n 14 --maxfail 20 --tb short -p no:cacheprovider
gpu && LINES_SHOWN=20 step clock 40 "$PYTHON" -m pytest -m gpu tests/test_clock.py -n 0 --tb short -p no:cacheprovider  # alone
LINES_SHOWN=60 step tune $((BUDGET_S + 60)) "$PYTHON" -m tools.tune_attention --out "$FOUND/tuned.json" --budget-s "$BUDGET_S"
