//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const killEnv = "RANDFEAT_TEST_KILLED"

// TestKilledCommand is no test: it is the command in a process that the next test kills.
func TestKilledCommand(t *testing.T) {
	var args []string
	if json.Unmarshal([]byte(os.Getenv(killEnv)), &args) != nil {
		t.Skip("only as a child of another test")
	}
	os.Exit(runChecked(context.Background(), args, os.Stdin, os.Stdout, os.Stderr))
}

// commandProcess is the command as a process of its own.
func commandProcess(t *testing.T, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	b, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledCommand$")
	// the same date, the same bytes
	cmd.Env = append(os.Environ(), killEnv+"="+string(b), "SOURCE_DATE_EPOCH=1000000000")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out
}

// fit of many files with --checkpoint, killed again and again and started again with the same words, ends with the same
// model file.
func TestFitGoesOnAfterKills(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(9, 9))
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Mkdir(path("table"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		var table bytes.Buffer
		fmt.Fprintln(&table, "a,b,c,y")
		for range 2000 {
			a, b, c := r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
			fmt.Fprintf(&table, "%.4f,%.4f,%.4f,%.4f\n", a, b, c, a*b+c*c+0.1*r.NormFloat64())
		}
		if err := os.WriteFile(path(fmt.Sprintf("table/%d.csv", i)), table.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := func(out string) []string {
		return []string{"fit", path("table/*.csv"), "--target", "y", "--seed", "4", "--features", "128", "--bandwidth",
			"2", "--sample", "512",
			"-o", path(out), "--checkpoint", path("ck"), "--checkpoint-every", "1ms"}
	}
	began := time.Now()
	if cmd, out := commandProcess(t, args("want.rf")...); cmd.Run() != nil {
		t.Fatal(out)
	}
	whole := time.Since(began)
	want, err := os.ReadFile(path("want.rf"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path("ck")); !os.IsNotExist(err) {
		t.Errorf("the checkpoint of a fit that is done: %v", err)
	}
	kills, most, resumed := 0, 10, 0
	if testing.Short() {
		most = 3
	}
	for try := 0; ; try++ {
		cmd, out := commandProcess(t, args("got.rf")...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if kills < most && try < 3*most {
			time.Sleep(time.Duration(r.Int64N(int64(whole))))
			cmd.Process.Kill()
		}
		_ = cmd.Wait()
		if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() && w.Signal() == syscall.SIGKILL {
			kills++
			continue
		}
		if !cmd.ProcessState.Success() {
			t.Fatalf("after %d kills: %v: %s", kills, cmd.ProcessState, out)
		}
		if strings.Contains(out.String(), "taken from the checkpoint") {
			resumed++
		}
		got, err := os.ReadFile(path("got.rf"))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("after %d kills: another model, %v", kills, err)
		}
		if kills >= most || try >= 3*most {
			break
		}
		os.Remove(path("got.rf"))
	}
	t.Logf("%d kills; %d fits went on and ended", kills, resumed)
	if kills == 0 {
		t.Error("no process was killed")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

// Workers that are killed, and started again, end with the model of one process; nothing half-written is left.
func TestPartsAfterKills(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	shards(t, dir, 4, "csv")
	flags := append([]string{path("part-*.csv")}, strings.Fields("--target y --id id --bandwidth 2 --lambda 0.1 "+
		"--features 512 --unit-bytes 4000")...)
	process := func(args ...string) {
		t.Helper()
		if cmd, out := commandProcess(t, args...); cmd.Run() != nil {
			t.Fatal(out)
		}
	}
	process(append([]string{"parts", "fit", "-o", path("want.rf")}, flags...)...)
	process(append([]string{"parts", "init", path("run")}, flags...)...)
	process("parts", "learn", path("run"))
	process("parts", "choose", path("run"))
	r := rand.New(rand.NewPCG(9, 9))
	kills := 0
	for i := range 2 {
		worker := []string{"parts", "sum", path("run"), "--worker", fmt.Sprintf("%d/2", i)}
		began := time.Now()
		process(worker...)
		whole := time.Since(began)
		for range 3 {
			cmd, _ := commandProcess(t, worker...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(r.Int64N(int64(whole))))
			cmd.Process.Kill()
			_ = cmd.Wait()
			if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
				kills++
			}
		}
		process(worker...)
	}
	if kills == 0 {
		t.Error("no process was killed")
	}
	process("parts", "finish", path("run"), "-o", path("got.rf"))
	want, err := os.ReadFile(path("want.rf"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path("got.rf")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("after %d kills: another model, %v", kills, err)
	}
	entries, err := os.ReadDir(path("run"))
	if err != nil || len(entries) != 5 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}
