package cli

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// memory returns the most bytes that this process can have: the smallest of the machine's memory plus swap, the
// cgroup limit (version 2) and ulimit -v; 0 if unknown.
func memory() int64 {
	least := int64(0)
	limit := func(bytes int64) {
		if bytes > 0 && (least == 0 || bytes < least) {
			least = bytes
		}
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		total := int64(0)
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) == 3 && (f[0] == "MemTotal:" || f[0] == "SwapTotal:") {
				kib, _ := strconv.ParseInt(f[1], 10, 64)
				total += kib << 10
			}
		}
		limit(total)
	}
	if b, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		most, _ := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64) // "max" means no limit and parses as 0
		limit(most)
	}
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &r) == nil && r.Cur < 1<<62 { // larger values are RLIM_INFINITY
		limit(int64(r.Cur))
	}
	return least
}
