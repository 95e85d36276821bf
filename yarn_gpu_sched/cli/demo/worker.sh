#!/usr/bin/env bash
# worker.sh FOLDER STAY_S [GO]: a container's work in the demo. It writes down which GPUs it sees and when it began,
# stays STAY_S seconds and then until the file GO is there (300 s at most), and writes down when it ended, or was stopped.
set -u
export LC_ALL=C # a decimal point in EPOCHREALTIME, whatever the user's language

say() {
  printf '%s event=%s container=%s host=%s gpus=%s\n' \
    "${EPOCHREALTIME}" "$1" "${CONTAINER_ID}" "${NM_HOST}" "${CUDA_VISIBLE_DEVICES-unset}"
}

log="$1/${CONTAINER_ID}.log"
trap 'say stopped >>"${log}"; exit 143' TERM
say start | tee -a "${log}"
sleep "$2"
deadline_s=$((SECONDS + 300))
until [[ -z ${3:-} || -e $3 ]] || ((SECONDS >= deadline_s)); do sleep 0.5; done
trap - TERM
say end | tee -a "${log}"
