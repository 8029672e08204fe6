#!/usr/bin/env bash
# MPI across the hosts of hosts.txt; started again after a lost rank, five times at most.
# RANKS_PER_HOST: 8 unless it is given.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
run=${RUN:-$here/runs/mpirun}

for attempt in 0 1 2 3 4 5; do
  resume=()
  if compgen -G "$run/checkpoints/step-*" >/dev/null; then resume=(--resume); fi
  code=0
  mpirun --hostfile "${HOSTS:-$here/hosts.txt}" --map-by "ppr:${RANKS_PER_HOST:-8}:node" --bind-to core --mca btl tcp,self,vader \
    shardscope train "$here/job.json" -o "$run" "${resume[@]}" || code=$?
  # 3: the disk or a device failed; 4: a rank was lost. mpirun says 137 and its likes for a rank that was killed.
  if ((code != 3 && code != 4 && code <= 130)); then exit "$code"; fi
  echo "ended with $code after attempt $attempt" >&2
done
exit "$code"
