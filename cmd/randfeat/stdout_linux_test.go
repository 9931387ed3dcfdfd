package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Output that cannot be written is a failure that is reported, for every command.
func TestStdoutFull(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	table, model := filepath.Join(dir, "demo.csv"), filepath.Join(dir, "model.rf")
	ok(t, "fit", "--demo", "--features", "16", "--bandwidth", "2", "--lambda", "1", "--folds", "1", "-o", model,
		"--save-data", table)
	process := func(args []string, stdout *os.File) (int, string, *os.ProcessState) {
		var stderr strings.Builder
		cmd := exec.Command(self, args...)
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asCommand+"=1"), stdout, &stderr
		cmd.Run()
		return cmd.ProcessState.ExitCode(), stderr.String(), cmd.ProcessState
	}
	open := func(name string, flag int) *os.File {
		f, err := os.OpenFile(name, flag, 0)
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	full := open("/dev/full", os.O_WRONLY)
	null, closed := open(os.DevNull, os.O_WRONLY), open(os.DevNull, os.O_RDWR)
	r, broken, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer broken.Close()
	for _, line := range []string{"", "--help", "help fit", "fit --help", "--version", "version", "version --json",
		"completion", "completion bash", "completion powershell", "__complete fit --", "families", "couplings --json",
		"schema fit", "data list", "data list --json",
		"theory --help", "parts", "attend --help", "inspect " + model, "predict " + model + " " + table,
		"predict " + model + " " + table + " --json", "evaluate " + model + " " + table} {
		args := strings.Fields(line)
		if code, stderr, _ := process(args, full); code != exitFailed || strings.Contains(stderr, "for usage") ||
			!strings.Contains(stderr, "randfeat: cannot write to stdout: write /dev/stdout: no space left on device\n") {
			t.Errorf("randfeat %s on a full disk: exit %d, %s", line, code, stderr)
		}
		if args = strings.Fields(line); len(args) > 1 && args[0] != "completion" && args[0] != "predict" {
			continue
		}
		if code, stderr, state := process(args, broken); code == exitDone ||
			state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE {
			t.Errorf("randfeat %s to a broken pipe: exit %d, %s", line, code, stderr)
		}
	}
	const warning = "warning: stdout is closed, or is /dev/null"
	if code, stderr, _ := process([]string{"version"}, null); code != exitDone || stderr != "" {
		t.Errorf("/dev/null: exit %d, %s", code, stderr)
	}
	code, stderr, _ := process([]string{"version"}, closed)
	if code != exitDone || !strings.HasPrefix(stderr, warning) {
		t.Errorf("/dev/null for reading and writing: exit %d, %s", code, stderr)
	}
	// Results that are written nowhere else are not lost in silence.
	for _, line := range []string{"predict " + model + " " + table, "predict " + model + " " + table + " --to ndjson"} {
		shell := exec.Command("sh", "-c", `exec "$0" "$@" >&-`, self)
		shell.Args = append(shell.Args, strings.Fields(line)...)
		shell.Env = append(os.Environ(), asCommand+"=1")
		if b, err := shell.CombinedOutput(); shell.ProcessState.ExitCode() != exitFailed ||
			!strings.Contains(string(b), "the results would be lost; name a file with -o") {
			t.Errorf("%s with a closed stdout: %v, %s", line, err, b)
		}
	}
	if code, stderr, _ := process(strings.Fields("predict "+model+" "+table+" -o "+os.DevNull),
		closed); code != exitDone {
		t.Errorf("predict -o /dev/null: exit %d, %s", code, stderr)
	}
	// A table on stdin needs no room for temporary files.
	rows, err := os.Open(table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	fit := exec.Command(self, "fit", "-", "--target", "kwh", "--features", "16", "--bandwidth", "2", "--lambda", "1",
		"--folds", "1", "-o", filepath.Join(dir, "again.rf"))
	fit.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+filepath.Join(dir, "none"))
	fit.Stdin = rows
	if b, err := fit.CombinedOutput(); err != nil {
		t.Errorf("fit - without a TMPDIR: %v, %s", err, b)
	}
	cmd := exec.Command("sh", "-c", `exec "$0" version >&-`, self)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	if b, err := cmd.CombinedOutput(); err != nil || strings.Count(string(b), warning) != 1 {
		t.Errorf("a closed stdout: %v, %s", err, b)
	}
}
