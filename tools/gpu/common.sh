# What the scripts for a GPU machine share. Each runs from the repository's root:  OUT=FOLDER bash tools/gpu/1.sh
#   PYTHON   python3      with torch, and what vitbench needs
#   DEVICE   cuda         cpu: a rehearsal, with small sizes
#   IMAGES   unset        cifar10-jpeg.tar.xz; without it the images are synthetic
# Every step has a limit, and a step that fails does not stop those after it. What was found so far is packed into
# $OUT/<script>.tar.gz after each step and every minute of it, so that a script that is cut off loses little.
set -uo pipefail
PYTHON=${PYTHON:-python3}
DEVICE=${DEVICE:-cuda}
OUT=${OUT:?a folder for what is found}
NAME=$(basename "$0" .sh)
FOUND=/tmp/vitbench-found/$NAME  # outside $OUT: a machine may give back few files
rm -rf "$FOUND" && mkdir -p "$FOUND" "$OUT"
export FOUND PYTHONUNBUFFERED=1 PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} TORCHINDUCTOR_CACHE_DIR=${TORCHINDUCTOR_CACHE_DIR:-/tmp/inductor}
export TORCHINDUCTOR_COMPILE_THREADS=${TORCHINDUCTOR_COMPILE_THREADS:-8}  # training is not timed by its compiler
BEGAN=$SECONDS

gpu() { [ "$DEVICE" != cpu ]; }

# Files may change meanwhile: tar's exit status is then 1. Of a pack that a step's end stopped the part goes.
pack() {
  local part="$OUT/$NAME.$BASHPID.part"
  rm -f "$OUT/$NAME".*.part
  tar czf "$part" -C "$FOUND" --exclude='*/weights' --exclude='*/checkpoints' . 2> "$FOUND.pack"
  [ $? -le 1 ] && mv "$part" "$OUT/$NAME.tar.gz"
}

# step NAME SECONDS COMMAND…: the output goes to NAME.log, its last lines to the terminal.
step() {
  local name=$1 limit=$2 began=$SECONDS status=0 packing
  shift 2
  while sleep 60 && kill -0 $$; do pack; done > /dev/null 2>&1 &
  packing=$!
  timeout --signal=INT --kill-after=10 "$limit" "$@" > "$FOUND/$name.log" 2>&1 || status=$?
  echo "=== $name: exit $status after $((SECONDS - began)) s (at $((SECONDS - BEGAN)) s)"
  tail -n "${LINES_SHOWN:-12}" "$FOUND/$name.log" | cut -c1-200
  kill "$packing" && wait "$packing" 2> /dev/null
  pack
}

# images FOLDER: unpack the images there, and print what a suite is told of them.
images() {
  if [ -n "${IMAGES:-}" ] && [ -f "$IMAGES" ]; then
    mkdir -p "$1" && tar xJf "$IMAGES" -C "$1" && dirname "$(find "$1" -maxdepth 3 -type d -name train | head -1)"
  fi
}
