#!/usr/bin/env bash
# slurm.sh RUN WORKERS MODEL: jobs for the steps of a run; each waits for the one before. Options for sbatch, such as
# --partition and --cpus-per-task, can be given in SBATCH_OPTIONS. Paths are those of the nodes.
set -euo pipefail
run=$1 workers=$2 model=$3

after=()
submit() { # submit COMMAND SBATCH-FLAGS...
	local command=$1
	shift
	# shellcheck disable=SC2086 # several options
	after=("--dependency=afterok:$(sbatch --parsable ${SBATCH_OPTIONS:-} "${after[@]}" "$@" --wrap "$command")")
}

array="--array=0-$((workers - 1))"
submit "randfeat parts learn '$run' --worker \$SLURM_ARRAY_TASK_ID/$workers" "$array"
submit "randfeat parts choose '$run'"
submit "randfeat parts sum '$run' --worker \$SLURM_ARRAY_TASK_ID/$workers" "$array"
submit "randfeat parts finish '$run' -o '$model'"
