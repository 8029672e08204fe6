#!/usr/bin/env bash
#SBATCH --job-name=shardscope
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-node=8
#SBATCH --time=24:00:00
# SIGTERM comes 120 s before the time is over: the job saves itself and leaves.
#SBATCH --signal=TERM@120
# After a lost host Slurm starts the job again. After a lost rank the end of this script does. The job then resumes.
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

run=${RUN:-$SLURM_SUBMIT_DIR/runs/$SLURM_JOB_ID}

resume=()
if compgen -G "$run/checkpoints/step-*" >/dev/null; then resume=(--resume); fi

# srun starts a process for each rank. Every one finds its place in the variables of Slurm.
# --kill-on-bad-exit: the others do not wait for a rank that is gone. On CPUs set SLURM_MPI_TYPE=pmix: ranks then talk over MPI.
code=0
srun --kill-on-bad-exit=1 --cpu-bind=cores shardscope train "$SLURM_SUBMIT_DIR/job.json" -o "$run" "${resume[@]}" || code=$?

# 3: the disk or a device failed; 4: a rank was lost; above 130: a signal killed one. Five times at most.
if ((code == 3 || code == 4 || code > 130)) && ((${SLURM_RESTART_COUNT:-0} < 5)); then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
