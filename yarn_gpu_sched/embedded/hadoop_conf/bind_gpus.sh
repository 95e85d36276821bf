# bind_gpus.sh: shows a container the GPUs that the scheduling service gave to it, and no others.
#
# The NodeManager's admin-env names this file in BASH_ENV, so that the bash of each container reads it before the
# user's command. It reads $YGS_BINDING_DIR/$CONTAINER_ID, a file that the node monitor (or the service, on its own
# machine) writes whole:
#
#   line 1        the GPUs, all by UUID (GPU-1a2b,GPU-3c4d) or all by index (0,3); empty: no GPU
#   more lines    YGS_NAME=value for the environment: job, rank, world size, hosts, domain
#   or one line   !reason: the container is not to be started
#
# It binds, it does not isolate: a process may set the variables again. It exports YGS_CHECKPOINT_FILE too: a container
# that touches this file says that it wrote a checkpoint. For commands that no bash starts there is ygs-launch.
#
#   YGS_BINDING_DIR      folder of the bindings; required on servers with GPUs
#   YGS_BINDING_WAIT_S   seconds to wait for the binding, 10 by default, at most 3600
#   YGS_BINDING_MISSING  what to do without one: fail (the default), or run: go on unbound, with all GPUs in sight
#   YGS_SERVER_GPUS      0 on servers without GPUs: nothing is waited for, no GPU is shown
#
# Exit code 78: no binding in time, or one that cannot be read. 79: not to be started, since a GPU was not really free.
# Written for bash alone (no other program is started, nothing of the file is evaluated), and for `set -eu`.

__ygs_refuse() {
  printf 'ygs: %s: %s\n' "${CONTAINER_ID}" "$2" >&2
  exit "$1"
}

__ygs_unreadable() {
  __ygs_refuse 78 "${file} $1; not starting without a GPU binding"
}

# Ends the container for want of a binding, or lets it go on without one.
__ygs_missing() {
  case ${YGS_BINDING_MISSING:-fail} in
    fail) __ygs_refuse 78 "$1; not starting without a GPU binding" ;;
    run) printf 'ygs: %s: %s; going on unbound (YGS_BINDING_MISSING=run)\n' "${CONTAINER_ID}" "$1" >&2 ;;
    *) __ygs_refuse 78 "YGS_BINDING_MISSING is '${YGS_BINDING_MISSING}', should be fail or run" ;;
  esac
}

# Waits until the binding file is there. The pipe that is open for both ends never answers, so that `read` on it is a
# sleep without a process.
__ygs_await() {
  local wait_s=${YGS_BINDING_WAIT_S:-10} polls pipe nothing
  [[ ${wait_s} =~ ^[0-9]{1,4}$ ]] && ((10#${wait_s} <= 3600)) ||
    __ygs_refuse 78 "YGS_BINDING_WAIT_S is '${wait_s}', should be whole seconds from 0 to 3600"
  exec {pipe}<> <(:)
  for ((polls = 10#${wait_s} * 50; polls > 0; polls--)); do
    [[ -r ${file} ]] && break
    read -r -t 0.02 -u "${pipe}" nothing || :
  done
  exec {pipe}>&-
  [[ -r ${file} ]] || __ygs_missing "no ${file} after ${wait_s} s (does the node monitor run on this server?)"
}

# Reads the binding: the GPUs into `gpus`, the rest into the environment.
__ygs_read() {
  local LC_ALL=C lines=() line names=' '
  mapfile -n 34 lines 2>/dev/null <"${file}" || __ygs_unreadable 'cannot be read'
  ((${#lines[@]} > 0)) || __ygs_unreadable 'holds no whole line'
  ((${#lines[@]} < 34)) || __ygs_unreadable 'has more than 33 lines'
  for line in "${lines[@]}"; do
    # A line without its end was cut short: the file is written whole and renamed into place.
    [[ ${line} == *$'\n' ]] || __ygs_unreadable 'holds no whole line'
    [[ ${line%$'\n'} != *[!\ -~]* ]] || __ygs_unreadable 'should be printable ASCII'
  done
  gpus=${lines[0]%$'\n'}
  [[ ${gpus} != '!'* ]] || __ygs_refuse 79 "infrastructure: ${gpus#!}"
  ((${#gpus} <= 6000)) || __ygs_unreadable 'has more GPUs than a server'
  [[ -z ${gpus} || ${gpus} =~ ^[0-9]{1,4}(,[0-9]{1,4})*$ || ${gpus} =~ ^GPU-[A-Za-z0-9-]+(,GPU-[A-Za-z0-9-]+)*$ ]] ||
    __ygs_unreadable 'should begin with GPU indices such as 0,3 or UUIDs such as GPU-1a2b'
  for line in "${lines[@]:1}"; do
    __ygs_export "${line%$'\n'}"
  done
}

__ygs_export() {
  local name=${1%%=*}
  [[ $1 == *=* && ${name} =~ ^YGS_[A-Z_]+$ && ${names} != *" ${name} "* ]] ||
    __ygs_unreadable 'should have lines of YGS_NAME=value, no name twice'
  case ${name} in YGS_BIND* | YGS_BOUND* | YGS_CHECKPOINT* | YGS_SERVER_*)
    __ygs_unreadable "should not set ${name}" ;;
  esac
  names+="${name} "
  export "${name}=${1#*=}"
}

__ygs_bind() {
  local gpus='' file=${YGS_BINDING_DIR:-}/${CONTAINER_ID}
  unset YGS_JOB_ID YGS_RANK YGS_WORLD_SIZE YGS_HOSTS YGS_DOMAIN # of a container around this one
  if [[ ${YGS_SERVER_GPUS:-} != 0 ]]; then
    [[ -n ${YGS_BINDING_DIR:-} ]] ||
      __ygs_refuse 78 'YGS_BINDING_DIR is not set by yarn.nodemanager.admin-env; not starting without a GPU binding'
    [[ -r ${file} ]] || __ygs_await
    if [[ -r ${file} ]]; then __ygs_read; else gpus=unbound; fi
    if [[ -w ${YGS_BINDING_DIR}/~checkpoints/${CONTAINER_ID} ]]; then
      export YGS_CHECKPOINT_FILE=${YGS_BINDING_DIR}/~checkpoints/${CONTAINER_ID}
    fi
  fi
  __ygs_show "${gpus}"
}

__ygs_show() {
  export YGS_BOUND_CONTAINER=${CONTAINER_ID}
  export YGS_BOUND_GPUS=$1
  export CUDA_DEVICE_ORDER=PCI_BUS_ID # indices are those of nvidia-smi; CUDA's own order is another
  if [[ $1 == unbound ]]; then
    [[ ${CUDA_VISIBLE_DEVICES:-} != -1 ]] || unset CUDA_VISIBLE_DEVICES
    [[ ${NVIDIA_VISIBLE_DEVICES:-} != void ]] || unset NVIDIA_VISIBLE_DEVICES
  else
    export CUDA_VISIBLE_DEVICES=$1
    export NVIDIA_VISIBLE_DEVICES=${1:-void} # an unset or empty one lets an image's own "all" through
  fi
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
unset -f __ygs_bind __ygs_show __ygs_export __ygs_read __ygs_await __ygs_missing __ygs_unreadable __ygs_refuse
