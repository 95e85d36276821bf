# Run by the client's bash: submits a gang whose containers show their GPUs, and shows what they printed. $1: the command
# of Hadoop's distributed shell.
set -euo pipefail
cat >show.sh <<'SCRIPT'
#!/usr/bin/env bash
echo "rank $YGS_RANK of $YGS_WORLD_SIZE on $NM_HOST has $CUDA_VISIBLE_DEVICES"
SCRIPT
# shellcheck disable=SC2086 # a command and its words
$1 -queue research -num_containers 2 -application_tags gang:2x2 -shell_script show.sh -master_memory 256 \
    -container_resources memory-mb=256,vcores=1,yarn.io/gpu=2 >submit.log 2>&1 || { tail -n 20 submit.log; exit 1; }
job=$(grep -m1 -oE 'application_[0-9]+_[0-9]+' submit.log)
echo "$job has run; its containers printed"
for ((tries = 0; tries < 30; tries++)); do # until YARN has collected what they printed
    lines=$(yarn logs -applicationId "$job" 2>/dev/null | grep '^rank ' || true)
    [ "$(grep -c . <<<"$lines")" = 2 ] && break
    sleep 1
done
echo "$lines"
