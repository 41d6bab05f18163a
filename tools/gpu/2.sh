#!/usr/bin/env bash
# Training at full width: its tests on a GPU; ViT-Lite-7/4 compiled and as CUDA graphs, by two attentions (its recipe
# drops some); eight seeds as one program beside one; ViT-5-S/16 beside its published speed (256 images of 224 pixels at
# once: not on a CPU); what a step of ViT-Lite launches; ViT-Lite by a third attention; timings of the implementations of
# the default suite. What is wanted most comes first: the limits add up to more than ten minutes.
#   OUT=found IMAGES=cifar10-jpeg.tar.xz bash tools/gpu/2.sh      (at most ten minutes)
. tools/gpu/common.sh
FOLDER=$(images /tmp/vitbench-images)
DATA=(--set data.name=synthetic --set data.download=false)
[ -n "$FOLDER" ] && DATA=(--set data.name=image_folder --set "data.path=$FOLDER" --set data.download=false)
run() { local study=$1; shift; "$PYTHON" -m vitbench run "$@" --device "$DEVICE" --results "$FOUND/$study"; }
export -f run; export PYTHON DEVICE

# The first steps and the capture are a small part of eight epochs.
LITE=(ablations/published.toml --cell ViT-Lite-7/4 "${DATA[@]}" --set train.seeds=1 --set "train.epochs=$(gpu && echo 8 || echo 3)")
TINY=(ablations/training-speed.toml --set train.seeds=8)
if ! gpu; then
  LITE+=(--set data.train_images=256 --set data.test_images=100 --set train.measure_peak=false --set train.precision=float32)
  TINY+=(--small)
fi

gpu && LINES_SHOWN=30 step tests 90 "$PYTHON" -m pytest -m gpu tests/training -n 12 --tb short -p no:cacheprovider
GRAPHS=(--set train.cuda_graphs=true)
gpu || GRAPHS=()
step lite-graphs 120 bash -c 'run "$@"' - lite-graphs "${LITE[@]}" "${GRAPHS[@]}"
lite() {
  sed "s|preset = \"vit-lite-7/4\"|&, attention = \"$1\"|" ablations/published.toml > "$FOUND/lite-$1.toml"
  step "lite-$1" 120 bash -c 'run "$@"' - "lite-$1" "$FOUND/lite-$1.toml" "${LITE[@]:1}" "${GRAPHS[@]}"
}
gpu && lite triton
step seeds 200 bash -c 'run "$@"' - training-speed "${TINY[@]}"
# Few images, and synthetic: each of 224 pixels takes 4 ms to make, twice; of real ones all 60,000 would be resized.
VIT5=(ablations/published.toml --cell ViT-5-S/16 --set data.name=synthetic --set data.download=false)
VIT5+=(--set data.train_images=5120 --set data.test_images=256 --set train.seeds=1)
gpu && step vit5 180 bash -c 'run "$@"' - vit5 "${VIT5[@]}" "${GRAPHS[@]}"
LINES_SHOWN=30 step lite-kernels 120 "$PYTHON" -m tools.step_kernels ablations/published.toml ViT-Lite-7/4 data.name=synthetic data.download=false \
  data.train_images="$(gpu && echo 12800 || echo 256)" data.test_images=100 train.seeds=1 train.epochs=1 train.measure_peak=false \
  train.precision="$(gpu && echo bfloat16 || echo float32)" train.cuda_graphs="$(gpu && echo true || echo false)"
lite batched
IMPLEMENTATIONS=(ablations/components.toml --set 'axes.norm=["pre"]' --set 'axes.positions=["learned"]' "${DATA[@]}" --only timing)
step components 150 bash -c 'run "$@"' - components "${IMPLEMENTATIONS[@]}" --set time.rounds=1 --set time.within=0.5
