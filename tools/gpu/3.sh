#!/usr/bin/env bash
# The claims: the speedrun's goals with real images; attention and whole models side by side in the harness; reports.
#   OUT=found IMAGES=cifar10-jpeg.tar.xz bash tools/gpu/3.sh      (at most ten minutes)
. tools/gpu/common.sh
FOLDER=$(images /tmp/vitbench-images)
DATA=(--set data.name=synthetic --set data.download=false)
[ -n "$FOLDER" ] && DATA=(--set data.name=image_folder --set "data.path=$FOLDER" --set data.download=false)
SEEDS=${SEEDS:-1}
SMALL=()
gpu || SMALL=(--small)
vitbench() { "$PYTHON" -m vitbench "$@"; }
export -f vitbench; export PYTHON

step speedrun "${SPEEDRUN_S:-300}" bash -c 'vitbench "$@"' - run ablations/speedrun.toml "${SMALL[@]}" "${DATA[@]}" \
  --set train.seeds="$SEEDS" --device "$DEVICE" --results "$FOUND/speedrun"
KERNELS=(--set 'axes.attention=["sdpa_cudnn", "sdpa_flash", "sdpa_efficient", "triton"]')
gpu || KERNELS=()
step attention "${ATTENTION_S:-300}" bash -c 'vitbench "$@"' - time ablations/attention-timing.toml "${KERNELS[@]}" --device "$DEVICE" \
  --set time.rounds=2 --results "$FOUND/attention-timing"
VIT=()
for attention in sdpa batched triton; do VIT+=(--cell "$attention · ViT-Ti/16 at 224, 197 tokens"); done
step models "${MODELS_S:-220}" bash -c 'vitbench "$@"' - time ablations/model-timing.toml "${VIT[@]}" --device "$DEVICE" \
  --set time.rounds=2 --set "time.batch_sizes=[$(gpu && echo 512 || echo 1)]" --results "$FOUND/model-timing"
for study in speedrun attention-timing model-timing; do
  step "report-$study" 60 bash -c 'vitbench "$@"' - report "$FOUND/$study" --print
done
