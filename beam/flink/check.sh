#!/usr/bin/env bash
# check.sh JARS: models fitted on Flink have the bytes of those fitted by prism: workers in one process and in two, after a
# worker was killed, and after a TaskManager was killed. JARS is the folder of fetch.sh. See README.md.
# check.sh JARS local, check.sh JARS cluster: one half of it.
set -euo pipefail
[[ $# == 1 || $# == 2 && $2 =~ ^(local|cluster)$ ]] || { echo 'usage: check.sh JARS [local|cluster]' >&2; exit 2; }
for c in java setsid go; do
	command -v "$c" >/dev/null || { printf 'skipped: %s is not installed\n' "$c"; exit 0; }
done
ls "$1"/beam-runners-flink-*.jar >/dev/null 2>&1 || { printf 'skipped: no jars in %s (fetch.sh gets them)\n' "$1"; exit 0; }
jars=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d "${TMPDIR:-/tmp}/rfbeam-flink.XXXXXX")
# shellcheck source=cluster.sh
. "$here/cluster.sh"
trap 'finish; rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
rpc=16123 rest=18081 port=18099 port2=18098
passed=0

say() { printf '%4d s  %s\n' "$SECONDS" "$*"; }

# Where all processes are: nothing of the machine is used but these.
mkdir -p "$tmp/data" "$tmp/models"
if [[ -n ${RFBEAM:-} ]]; then
	cp "$RFBEAM" "$tmp/rfbeam"
else
	(cd "$here/.." && go build -ldflags '-s -w' -o "$tmp/rfbeam" ./cmd/rfbeam)
fi

# A table of 24 files, the first with 20 times the rows of the others.
for i in $(seq 10 33); do
	awk -v shard="$i" 'BEGIN {
		srand(shard); n = shard == 10 ? 6000 : 300
		print "id,a,b,level,y,z,class"
		for (i = 0; i < n; i++) {
			a = rand() * 4 - 2; b = 100 + 40 * rand(); k = int(3 * rand())
			y = sin(2 * a) + (b - 120) / 20 + k + rand() / 4
			printf "%d-%d,%.6f,%.4f,l%d,%.6f,%.6f,%s\n", shard, i, a, b, k, 10 * y, y * y, (y > 1 ? "high" : "low")
		}
	}' >"$tmp/data/part-$i.csv"
done

common=(--id id --features 256 --bandwidth 1.5 --scaling standard --held 500 --sample 1000)
fit() { # fit OUT KIND FLAGS...
	local out=$1 kind=$2 flags
	shift 2
	case $kind in
	regression) flags=(--target y --skip z --skip class --lambda 0.1) ;;
	classification) flags=(--target class --skip y --skip z --lambda 0.1) ;;
	multi-output) flags=(--target y --target z --skip class --lambda 0.1) ;;
	smoother) flags=(--model smoother --target y --skip z --skip class) ;;
	density) flags=(--model density --skip y --skip z --skip class) ;;
	esac
	"$tmp/rfbeam" fit "$tmp/data" "${common[@]}" "${flags[@]}" -o "$tmp/models/$out" "$@" >"$tmp/$out.out"
}
same() { # same NAME KIND: the model NAME has the bytes of that of prism
	local a b
	a=$(sha256sum <"$tmp/models/$2")
	b=$(sha256sum <"$tmp/models/$1")
	if [[ "$a" != "$b" ]]; then
		printf 'FAILED: %s: SHA-256 %s, prism has %s\n' "$1" "$b" "$a" >&2
		exit 1
	fi
	say "$1: SHA-256 ${b:0:16}… as by prism"
	passed=$((passed + 1))
}
kinds=(regression classification multi-output smoother density)
for k in "${kinds[@]}"; do fit "$k" "$k"; done
say 'prism: five models'

workers() { # workers GROUP: the ids of worker processes of a TaskManager
	ps -eo pid=,pgid=,args= | awk -v g="$1" -v p="$tmp/rfbeam" '$2 == g && $3 == p { print $1 }'
}
# killed NAME COMMAND...: a fit during which a command is run, when the sums have begun.
killed() {
	local name=$1
	shift
	fit "$name" regression "${process[@]}" --work "$tmp/work-$name" &
	running=$!
	until compgen -G "$tmp/work-$name/sum/0-*.done" >/dev/null; do
		kill -0 $running 2>/dev/null || { echo "FAILED: $name was over too soon" >&2; exit 1; }
		sleep 0.05
	done
	"$@"
	wait $running
	same "$name" regression
}
kill_worker() {
	local id
	id=$(workers "$first" | head -n 1)
	kill -KILL "$id"
	say "killed worker $id"
}
kill_manager() {
	kill -KILL "$first"
	say "killed the TaskManager $first"
	task_manager third
}
in_one() { # workers in the program that starts the run
	job_server $port '[local]'
	say 'a job server with a Flink inside'
	loopback=(--runner=universal "--endpoint=localhost:$port" --environment_type=LOOPBACK --parallelism=2)
	for k in "${kinds[@]}"; do
		fit "loopback-$k" "$k" "${loopback[@]}"
		same "loopback-$k" "$k"
	done

	# Predictions, as Parquet files, which are a table again.
	"$tmp/rfbeam" predict "$tmp/models/regression" "$tmp/data" -o "$tmp/prism" >/dev/null
	"$tmp/rfbeam" predict "$tmp/models/regression" "$tmp/data" -o "$tmp/flink" "${loopback[@]}" >/dev/null
	diff -r "$tmp/prism" "$tmp/flink"
	say 'predictions of 24 files: the same by prism and Flink'
	"$tmp/rfbeam" evaluate "$tmp/models/regression" "$tmp/data" --json >"$tmp/prism.json"
	"$tmp/rfbeam" evaluate "$tmp/models/regression" "$tmp/data" --json "${loopback[@]}" >"$tmp/flink.json"
	diff "$tmp/prism.json" "$tmp/flink.json"
	say 'scores: the same by prism and Flink'
	"$tmp/rfbeam" predict "$tmp/models/classification" "$tmp/data" --to parquet --scores -o "$tmp/parquet" >/dev/null
	parquet=("$tmp/parquet" --target score_high --id id --skip score_low --features 64 --bandwidth 1 --lambda 1
		--scaling standard)
	"$tmp/rfbeam" fit "${parquet[@]}" -o "$tmp/models/parquet" >/dev/null
	"$tmp/rfbeam" fit "${parquet[@]}" -o "$tmp/models/loopback-parquet" "${loopback[@]}" >/dev/null
	same loopback-parquet parquet

	# What is wrong with a file is said in one line, and there is no model.
	cp -r "$tmp/data" "$tmp/bad"
	echo 'x-1,0.5,cheap,l1,1,1,low' >>"$tmp/bad/part-20.csv"
	if "$tmp/rfbeam" fit "$tmp/bad" --numeric b "${common[@]}" --target y --skip z --skip class -o "$tmp/models/bad" \
		"${loopback[@]}" >/dev/null 2>"$tmp/bad.txt"; then
		echo 'FAILED: a text among numbers was taken' >&2
		exit 1
	fi
	[[ $(wc -l <"$tmp/bad.txt") == 1 && ! -e "$tmp/models/bad" ]] && grep -q part-20.csv "$tmp/bad.txt" || {
		echo 'FAILED: the error is not one line that names the file:' >&2
		cat "$tmp/bad.txt" >&2
		exit 1
	}
	say "$(sed 's/^/bad file: /' "$tmp/bad.txt")"
	finish "$server"
}

in_two() { # workers beside two TaskManagers
	cluster
	task_manager first
	first=$begun
	task_manager second
	second=$begun
	job_server $port2 "localhost:$rest"
	say 'a cluster with two TaskManagers'
	process=(--runner=universal "--endpoint=localhost:$port2" --environment_type=PROCESS --parallelism=2)

	fit process-regression regression "${process[@]}" &
	running=$!
	most=0
	while kill -0 $running 2>/dev/null; do
		n=$(( ($(workers "$first" | wc -l) > 0) + ($(workers "$second" | wc -l) > 0) ))
		((n <= most)) || most=$n
		sleep 0.1
	done
	wait $running
	same process-regression regression
	((most == 2)) || { printf 'FAILED: %d TaskManagers had workers, want 2\n' "$most" >&2; exit 1; }
	for k in classification density; do
		fit "process-$k" "$k" "${process[@]}"
		same "process-$k" "$k"
	done

	killed kill-worker kill_worker
	killed kill-manager kill_manager
}

[[ ${2:-} == cluster ]] || in_one
[[ ${2:-} == local ]] || in_two

# Workers end by themselves.
for _ in {1..100}; do
	[[ -n $(ps -eo args= | awk -v p="$tmp/rfbeam" '$1 == p') ]] || break
	sleep 0.2
done
if ps -eo pid=,args= | awk -v p="$tmp/rfbeam" '$2 == p { print; found = 1 } END { exit !found }'; then
	say 'workers are left; they end with their TaskManagers'
fi
finish
if ps -eo pid=,args= | awk -v p="$tmp/rfbeam" '$2 == p { print; found = 1 } END { exit !found }'; then
	echo 'FAILED: these workers are left' >&2
	exit 1
fi
printf '%d passed, 0 failed\n' "$passed"
