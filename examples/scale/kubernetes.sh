#!/usr/bin/env bash
# kubernetes.sh: the Jobs of jobs.yaml, one after the other. A pod that fails is started again, up to the backoffLimit of
# its Job; its step begins anew. A Job that fails for good ends the script with its last lines of output. Every call
# makes new Jobs, so that a run can be repeated; a step that was done writes the same files again.
set -euo pipefail
cd "$(dirname "$0")"
for step in learn choose sum finish; do
	job=$(kubectl create -f jobs.yaml -l "step=$step" -o name)
	echo "$job"
	while :; do
		# FailureTarget comes as soon as a Job is to fail, Failed when its last pod has ended.
		case $(kubectl get "$job" -o 'jsonpath={.status.conditions[?(@.status=="True")].type}') in
		*Fail*)
			kubectl logs "$job" --tail=20 --prefix >&2 || true
			echo "$job failed: kubectl describe $job" >&2
			exit 1
			;;
		*Complete*) break ;;
		esac
		sleep "${POLL_SECONDS:-5}"
	done
done
