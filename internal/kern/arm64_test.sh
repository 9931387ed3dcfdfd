#!/usr/bin/env bash
# Tests the arm64 kernels on any machine: natively on arm64, else under QEMU user emulation.
#
#	apt-get install -y qemu-user        # Debian, Ubuntu (or qemu-user-static)
#	internal/kern/arm64_test.sh         # short tests, a few minutes
#	internal/kern/arm64_test.sh -v      # arguments go to go test; "-full" for all sizes
#
# Emulation shows results, never speed. Without an emulator the script checks what it can (vet with asmdecl, both
# platforms compile, the assembly is what its generator writes), says that nothing ran, and succeeds.
set -euo pipefail
cd "$(dirname "$0")/../.."
export CGO_ENABLED=0

(
	fresh=$(mktemp -d)
	trap 'rm -rf "$fresh"' EXIT
	(cd internal/kern/_gen && go run ./neon -dir "$fresh")
	for f in "$fresh"/*.s; do
		diff -u "internal/kern/$(basename "$f")" "$f" || { echo "$(basename "$f") is stale: go run ./neon in internal/kern/_gen" >&2; exit 1; }
	done
)
GOOS=linux GOARCH=arm64 go vet ./internal/kern
GOOS=darwin GOARCH=arm64 go vet ./internal/kern

emulator=()
if [[ "$(go env GOHOSTARCH)" != arm64 ]]; then
	qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static || true)
	if [[ -z "$qemu" ]]; then
		echo 'SKIPPED: the arm64 kernels were compiled but not run: no qemu-aarch64 (apt-get install qemu-user)'
		exit 0
	fi
	echo "running arm64 tests under $("$qemu" --version | head -1)"
	# The plain Go kernels are those of every platform: tested where they are not emulated.
	emulator=(-exec "$qemu" -skip '//table=go')
	export GOOS=linux
fi
GOARCH=arm64 go test -count=1 -timeout 20m "${emulator[@]}" ./internal/kern ./internal/exec "$@"
