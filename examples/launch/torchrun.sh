#!/usr/bin/env bash
# On every host: NODES=2 NODE_RANK=0 HEAD=host0 ./torchrun.sh, with another NODE_RANK on each.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
run=${RUN:-$here/runs/torchrun}

# Also where all hosts were started again.
resume=()
if compgen -G "$run/checkpoints/step-*" >/dev/null; then resume=(--resume); fi

# After a lost rank torchrun starts all of them again, three times at most. They then resume by themselves.
exec torchrun --nnodes "${NODES:-2}" --node-rank "${NODE_RANK:-0}" --nproc-per-node "${RANKS_PER_NODE:-8}" \
  --master-addr "${HEAD:-localhost}" --master-port 29500 --max-restarts 3 \
  --no-python shardscope train "$here/job.json" -o "$run" "${resume[@]}"
