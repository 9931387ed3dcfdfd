#!/usr/bin/env bash
# kubernetes.sh: the Jobs of jobs.yaml, one after the other. A pod that fails is started again, up to the backoffLimit of
# its Job; its step begins anew.
set -euo pipefail
cd "$(dirname "$0")"
for step in learn choose sum finish; do
	kubectl apply -f jobs.yaml -l "step=$step"
	kubectl wait --for=condition=complete --timeout=24h "job/randfeat-$step"
done
