# shellcheck shell=bash disable=SC2034,SC2154
# Functions to run Flink for tests: sourced by check.sh. Every process that is started is in $pids, every file below $tmp.

pids=()

# begin NAME COMMAND...: in the background, with its own process group; the log is $tmp/NAME.log, the id in $begun.
begin() {
	local name=$1
	shift
	setsid "$@" >"$tmp/$name.log" 2>&1 &
	begun=$!
	pids+=("$begun")
}

# finish ID...: ends process groups, all if none is named, and waits for them.
finish() {
	local p groups=("$@")
	(($# > 0)) || groups=("${pids[@]}")
	((${#groups[@]} > 0)) || return 0
	for p in "${groups[@]}"; do
		kill -TERM -- "-$p" 2>/dev/null || true
	done
	for p in "${groups[@]}"; do
		for _ in {1..50}; do
			kill -0 -- "-$p" 2>/dev/null || break
			sleep 0.1
		done
		kill -KILL -- "-$p" 2>/dev/null || true
		wait "$p" 2>/dev/null || true
	done
}

# wait_for LOG TEXT SECONDS ID: until the log has the text; not if the process ends before.
wait_for() {
	local end=$((SECONDS + $3))
	until grep -q -- "$2" "$tmp/$1.log" 2>/dev/null; do
		if ((SECONDS > end)) || ! kill -0 "$4" 2>/dev/null; then
			printf '%s did not say "%s":\n' "$1" "$2" >&2
			tail -n 20 "$tmp/$1.log" >&2
			return 1
		fi
		sleep 0.2
	done
}

# java_in MEGABYTES CLASS ARGUMENTS...: the words are in $java_words.
java_words=()
java_in() {
	local heap=$1 class=$2
	shift 2
	java_words=(java "-Xmx${heap}m" -XX:+UseSerialGC "-Djava.io.tmpdir=$tmp/java"
		--add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.util=ALL-UNNAMED
		--add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED
		-cp "$jars/*" "$class" "$@")
}

# job_server PORT MASTER: takes pipelines and gives them to a Flink; [local] is one in the same process, with the settings
# that Flink has without a file.
job_server() {
	local conf=$tmp/conf
	if [[ $2 == '[local]' ]]; then
		conf=$tmp/local
		mkdir -p "$conf"
		: >"$conf/flink-conf.yaml"
	fi
	mkdir -p "$tmp/java" "$tmp/staged"
	java_in 700 org.apache.beam.runners.flink.FlinkJobServerDriver "--job-port=$1" --artifact-port=0 --expansion-port=0 \
		"--flink-master=$2" "--artifacts-dir=$tmp/staged" "--flink-conf-dir=$conf"
	begin "jobs-$1" "${java_words[@]}"
	server=$begun
	wait_for "jobs-$1" 'JobService started' 600 "$server"
}

# cluster: a JobManager; its address is localhost:$rest.
cluster() {
	mkdir -p "$tmp/conf" "$tmp/java"
	cat >"$tmp/conf/flink-conf.yaml" <<-EOF
		jobmanager.rpc.address: localhost
		jobmanager.rpc.port: $rpc
		rest.port: $rest
		rest.address: localhost
		jobmanager.memory.process.size: 1000m
		jobmanager.memory.jvm-overhead.min: 192m
		jobmanager.memory.jvm-overhead.max: 192m
		taskmanager.cpu.cores: 1.0
		taskmanager.memory.network.min: 256m
		taskmanager.memory.network.max: 256m
		taskmanager.memory.task.heap.size: 256m
		taskmanager.memory.task.off-heap.size: 0m
		taskmanager.memory.managed.size: 64m
		taskmanager.memory.framework.heap.size: 128m
		taskmanager.memory.framework.off-heap.size: 128m
		taskmanager.memory.jvm-metaspace.size: 256m
		taskmanager.memory.jvm-overhead.min: 192m
		taskmanager.memory.jvm-overhead.max: 192m
		taskmanager.numberOfTaskSlots: 1
		taskmanager.host: localhost
		io.tmp.dirs: $tmp/java
		blob.storage.directory: $tmp/java
		heartbeat.timeout: 10000
		heartbeat.interval: 2000
		restart-strategy.type: fixed-delay
		restart-strategy.fixed-delay.attempts: 4
		restart-strategy.fixed-delay.delay: 2 s
	EOF
	java_in 500 org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint --configDir "$tmp/conf"
	begin manager "${java_words[@]}"
	wait_for manager 'Rest endpoint listening' 600 "$begun"
}

# task_manager NAME: one more, with one slot. Its workers are in its process group.
task_manager() {
	java_in 500 org.apache.flink.runtime.taskexecutor.TaskManagerRunner --configDir "$tmp/conf" \
		"-Dtaskmanager.resource-id=$1"
	begin "$1" "${java_words[@]}"
	wait_for "$1" 'Successful registration at resource manager' 600 "$begun"
}
