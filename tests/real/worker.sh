#!/usr/bin/env bash
# A worker that logs which GPUs it sees, from when to when: one file a container in the folder that is its first
# argument. It runs for as many seconds as the second says, or until FOLDER/stop exists where that is "stop".
folder=$1 until=$2
log="${folder}/${CONTAINER_ID}.log"
say() { printf '%s %s %s %s\n' "$1" "${EPOCHREALTIME}" "${NM_HOST:-unknown}" "gpus=${CUDA_VISIBLE_DEVICES-unbound}" >>"${log}"; }
trap 'say end; exit 143' TERM
exec {silence}<> <(:)  # never answers: reading it with a timeout is a sleep without a process
say start
if [[ ${until} == stop ]]; then
  for ((polls = 0; polls < 6000; polls++)); do
    [[ -e ${folder}/stop ]] && break
    read -r -t 0.1 -u "${silence}"
  done
else
  read -r -t "${until}" -u "${silence}"
fi
say end
