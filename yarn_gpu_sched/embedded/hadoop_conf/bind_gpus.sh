# bind_gpus.sh: shows a container the GPUs that the scheduling service gave to it, and no others.
#
# The NodeManager's admin-env names this file in BASH_ENV, so that the bash of each container reads it before the
# user's command. It reads $YGS_BINDING_DIR/$CONTAINER_ID, one line of GPU indices ("0,3"; empty: no GPU), which the
# service writes. That folder is on one machine: the binding reaches containers on the service's own machine only,
# until the node monitor delivers it. It binds, it does not isolate: a process may set the variable again.
#
# It exports YGS_CHECKPOINT_FILE too: a container that touches this file says that it wrote a checkpoint.
#
#   YGS_BINDING_DIR     folder of the bindings; required on servers with GPUs
#   YGS_BINDING_WAIT_S  seconds to wait for the binding, 10 by default, at most 3600
#   YGS_SERVER_GPUS     0 on servers without GPUs: nothing is waited for, no GPU is shown
#
# Without a binding in time, or with one that cannot be read, the container ends with exit code 78 and never runs
# unbound. Written for bash alone (no other program is started), and for scripts that run under `set -eu`.

__ygs_refuse() {
  printf 'ygs: %s: %s; not starting without a GPU binding\n' "${CONTAINER_ID}" "$1" >&2
  exit 78
}

# Waits until the binding file is there. The pipe that is open for both ends never answers, so that `read` on it is a
# sleep without a process.
__ygs_await() {
  local file=$1 wait_s=${YGS_BINDING_WAIT_S:-10} polls pipe nothing
  [[ ${wait_s} =~ ^[0-9]{1,4}$ ]] && ((10#${wait_s} <= 3600)) ||
    __ygs_refuse "YGS_BINDING_WAIT_S is '${wait_s}', should be whole seconds from 0 to 3600"
  exec {pipe}<> <(:)
  for ((polls = 10#${wait_s} * 50; polls > 0; polls--)); do
    [[ -r ${file} ]] && break
    read -r -t 0.02 -u "${pipe}" nothing || :
  done
  exec {pipe}>&-
  [[ -r ${file} ]] || __ygs_refuse "no ${file} after ${wait_s} s (is the scheduling service running on this machine?)"
}

__ygs_read() {
  local file=$1
  gpus=''
  # A file without a line end was cut short: the service writes whole lines and renames the file into place.
  IFS= read -r gpus <"${file}" || __ygs_refuse "${file} holds no whole line"
  [[ -z ${gpus} || ${gpus} =~ ^[0-9]{1,4}(,[0-9]{1,4})*$ ]] ||
    __ygs_refuse "${file} should hold GPU indices such as 0,3"
}

__ygs_bind() {
  local gpus=''
  if [[ ${YGS_SERVER_GPUS:-} != 0 ]]; then
    [[ -n ${YGS_BINDING_DIR:-} ]] || __ygs_refuse 'YGS_BINDING_DIR is not set by yarn.nodemanager.admin-env'
    [[ -r ${YGS_BINDING_DIR}/${CONTAINER_ID} ]] || __ygs_await "${YGS_BINDING_DIR}/${CONTAINER_ID}"
    __ygs_read "${YGS_BINDING_DIR}/${CONTAINER_ID}"
    if [[ -w ${YGS_BINDING_DIR}/~checkpoints/${CONTAINER_ID} ]]; then
      export YGS_CHECKPOINT_FILE=${YGS_BINDING_DIR}/~checkpoints/${CONTAINER_ID}
    fi
  fi
  __ygs_show "${gpus}"
}

__ygs_show() {
  export CUDA_VISIBLE_DEVICES=$1
  export CUDA_DEVICE_ORDER=PCI_BUS_ID          # indices are those of nvidia-smi; CUDA's own order is another
  export NVIDIA_VISIBLE_DEVICES=${1:-void}     # an unset or empty one lets an image's own "all" through
  export YGS_BOUND_CONTAINER=${CONTAINER_ID}
  export YGS_BOUND_GPUS=$1
}

# Once in a container: a nested bash must keep what torchrun or mpirun set for each rank. The first bash may be one of
# the NodeManager's own (DefaultContainerExecutor), whose launch script then exports admin-env again: -1 for GPUs, and
# this file. Hence -1 is put right, and nothing else.
if [[ -n ${CONTAINER_ID:-} ]]; then
  if [[ ${YGS_BOUND_CONTAINER:-} != "${CONTAINER_ID}" ]]; then
    __ygs_bind
  elif [[ ${CUDA_VISIBLE_DEVICES:-} == -1 ]]; then
    __ygs_show "${YGS_BOUND_GPUS:-}"
  fi
  unset BASH_ENV
fi
unset -f __ygs_bind __ygs_show __ygs_read __ygs_await __ygs_refuse
