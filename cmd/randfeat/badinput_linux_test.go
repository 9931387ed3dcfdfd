package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A full disk: the message says so, and no half file is left.
func TestDiskFull(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk")
	if err := os.Mkdir(disk, 0o777); err != nil {
		t.Fatal(err)
	}
	// A file system of 16 KiB, seen by this command only.
	script := func(then string) (string, error) {
		cmd := exec.Command("unshare", "--map-root-user", "--mount", "sh", "-c",
			"mount -t tmpfs -o size=16k none "+disk+" && "+then)
		cmd.Env = append(os.Environ(), asCommand+"=1")
		b, err := cmd.CombinedOutput()
		return string(b), err
	}
	if out, err := script("true"); err != nil {
		t.Skipf("no small file system: %v %s", err, out)
	}
	fit := fmt.Sprintf("'%s' fit --demo --features 256 --bandwidth 2 --lambda 1 --folds 1 --model gp -o %s/model.rf",
		self, disk)
	out, err := script(fit + "; echo exit $?; ls -A " + disk)
	if err != nil || !strings.HasSuffix(out, "exit 1\n") || !strings.Contains(out,
		"model.rf: no space left on device") {
		t.Errorf("fit to a full disk: %v\n%s", err, out)
	}
	table, model := filepath.Join(dir, "demo.csv"), filepath.Join(dir, "model.rf")
	ok(t, "fit", "--demo", "--features", "16", "--bandwidth", "2", "--lambda", "1", "--folds", "1", "-o", model,
		"--save-data", table)
	predict := fmt.Sprintf("'%s' predict %s %s -o %s/out.csv", self, model, table, disk)
	out, err = script(predict + "; echo exit $?; ls -A " + disk)
	if err != nil || !strings.HasSuffix(out, "exit 1\n") || !strings.Contains(out, "out.csv: no space left on device") {
		t.Errorf("predict to a full disk: %v\n%s", err, out)
	}
	// Parts of a worker, in a folder on the full disk.
	init := fmt.Sprintf("'%s' parts init %s/run %s --target kwh --features 256 --bandwidth 2 --lambda 1 && "+
		"'%s' parts learn %s/run", self, disk, table, self, disk)
	out, err = script(init + "; echo exit $?; ls -A " + disk + "/run")
	if err != nil || !strings.HasSuffix(out, "exit 1\nrun.json\n") || !strings.Contains(out,
		"learn-000000-000000.part: no space left on device") {
		t.Errorf("learn to a full disk: %v\n%s", err, out)
	}
	// Files that cannot be replaced are written directly.
	fails(t, exitFailed, "cannot write /dev/full: no space left on device", "fit", "--demo", "--features", "16",
		"--bandwidth", "2", "--lambda", "1", "--folds", "1", "-o", "/dev/full")
}

func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("the superuser reads everything")
	}
	b := badInput{t, t.TempDir()}
	path := b.put("secret.csv", badHead+rowsOf(60, quantity))
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	b.says(exitFailed, "secret.csv: permission denied", b.fit(path, "--target", "y")...)
	b.says(exitFailed, "secret.csv: permission denied", "inspect", path)
	if err := os.Mkdir(b.path("locked"), 0o555); err != nil {
		t.Fatal(err)
	}
	good := b.put("good.csv", badHead+rowsOf(60, quantity))
	b.says(exitFailed, "m.rf: permission denied", append([]string{"fit", good, "--target", "y", "-o",
		b.path("locked/m.rf")}, quick...)...)
}

// Features whose matrices cannot be held are refused before the fit: the runtime would die of them with a trace.
func TestFeaturesBeyondMemory(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"--map random", "--model gp"} {
		cmd := exec.Command("sh", "-c", `ulimit -v 3500000 && exec "$0" fit --demo --features 16384 --bandwidth 2 --lambda 1 `+
			`--folds 1 `+kind, self)
		cmd.Env = append(os.Environ(), asCommand+"=1")
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != exitFailed || string(out) !=
			"randfeat: --features 16384 takes at least 4.0 GiB of memory, this process can have 3.3 GiB: choose fewer\n" {
			t.Errorf("%s: exit %d, %s", kind, code, out)
		}
	}
}

// A million columns take little memory.
func TestMillionColumnsMemory(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "wide.csv")
	line := bytes.Repeat([]byte("1,"), 999_999)
	if err := os.WriteFile(path, bytes.Join([][]byte{line, line, nil}, []byte("1\n")), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "fit", path, "--target", "c1", "-o", "/dev/null")
	cmd.Env = append(os.Environ(), asCommand+"=1")
	out, _ := cmd.CombinedOutput()
	if !strings.Contains(string(out), "1000000 columns, the limit is 65536") {
		t.Errorf("%s", out)
	}
	// 30 MiB for the line and the first 65536 names, and the program itself; a million learners would take 5 GiB.
	if mib := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10; mib > 512 {
		t.Errorf("a million columns took %d MiB", mib)
	}
}
