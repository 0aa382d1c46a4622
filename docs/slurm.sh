#!/bin/bash
# A training on several machines under SLURM: sbatch docs/slurm.sh --preset NAME --out DIR
#
# Everything after the script's name goes to `isotherm train`. DIR must be on a disk that all machines share. A few
# minutes before its time is over, or when the job is preempted, SLURM sends SIGTERM: the run saves and the job is put
# into the queue again, where it goes on from there. A worker that dies is started again from the last checkpoint.
#SBATCH --job-name=isotherm
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@180
#SBATCH --open-mode=append
#SBATCH --output=isotherm-%j.txt

first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --kill-on-bad-exit=1 torchrun \
    --nnodes="$SLURM_NNODES" --nproc-per-node="${SLURM_GPUS_ON_NODE:-1}" --max-restarts=3 \
    --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$first:${PORT:-29500}" \
    -m -- isotherm.cli train "$@" --resume &
step=$!

asked=no
trap 'asked=yes; kill -TERM "$step"' TERM
wait "$step"
code=$?
while kill -0 "$step" 2>/dev/null; do # a signal ends `wait`, not the step
    wait "$step"
    code=$?
done

if [ "$asked" = yes ] && [ "$code" -ne 0 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
