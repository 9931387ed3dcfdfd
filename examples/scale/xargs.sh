#!/usr/bin/env bash
# xargs.sh RUN WORKERS MODEL: the steps of a run, each by so many processes at a time.
set -euo pipefail
run=$1 workers=$2 model=$3

each() { # each STEP
	seq 0 $((workers - 1)) | xargs -P "$workers" -I{} randfeat parts "$1" "$run" --worker "{}/$workers"
}

each learn
randfeat parts choose "$run"
each sum
randfeat parts finish "$run" -o "$model"
