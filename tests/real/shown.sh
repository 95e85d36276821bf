#!/usr/bin/env bash
# A worker that shows which GPUs it sees and what it is told of its gang: one file a container in the folder that is its
# first argument. It runs until FOLDER/stop exists.
folder=$1
log="${folder}/${CONTAINER_ID}.env"
trap 'printf "end=%s\n" "${EPOCHREALTIME}" >>"${log}"' EXIT
trap 'exit 143' TERM
exec {silence}<> <(:)  # never answers: reading it with a timeout is a sleep without a process
for name in NM_HOST CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES CUDA_DEVICE_ORDER \
  YGS_JOB_ID YGS_RANK YGS_WORLD_SIZE YGS_HOSTS YGS_DOMAIN; do
  [[ -v ${name} ]] && printf '%s=%s\n' "${name}" "${!name}"
done >"${log}"
printf 'start=%s\n' "${EPOCHREALTIME}" >>"${log}"
for ((polls = 0; polls < 6000; polls++)); do
  [[ -e ${folder}/stop ]] && break
  read -r -t 0.1 -u "${silence}"
done
