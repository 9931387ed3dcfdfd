//go:build linux

package tabular

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/machine"
)

// The tests below start this test binary again as a process that is killed; childEnv tells it what to do.
const childEnv = "RANDFEAT_TEST_CHILD"

// errand is what a child does with the files of a directory.
type errand struct {
	Do    string // fit, save
	Dir   string
	Case  string // of kinds
	Every time.Duration
	Limit uint64 // bytes of a file, as on a full disk; 0: none
}

func (j errand) path(name string) string { return filepath.Join(j.Dir, name) }

// TestChild is no test: it is the process that the others start.
func TestChild(t *testing.T) {
	var j errand
	if json.Unmarshal([]byte(os.Getenv(childEnv)), &j) != nil {
		t.Skip("only as a child of another test")
	}
	if j.Limit > 0 {
		signal.Ignore(syscall.SIGXFSZ) // writes fail with EFBIG instead
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: j.Limit, Max: j.Limit}); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	switch j.Do {
	case "fit":
		err = j.fit()
	case "save":
		err = j.save()
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(3)
	}
}

// fit fits the table, tells every progress, and writes model and report.
func (j errand) fit() error {
	src, err := text.Open(j.path("table.csv"), data.Options{})
	if err != nil {
		return err
	}
	o := kinds()[j.Case]
	o.Checkpoint, o.CheckpointEvery = j.path("checkpoint"), j.Every
	o.Progress = func(stage string, done, _ int64) { report(stage, done) }
	checkpointShare = 1 // half of the time goes into checkpoints: many kills interrupt one
	m, r, err := Fit(context.Background(), src, o)
	if err != nil {
		return err
	}
	if err := m.Save(j.path("model.rf")); err != nil {
		return err
	}
	r.Seconds, r.Stages = 0, nil
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(j.path("report.json"), b, 0o600)
}

// report tells the parent how far the child is, and waits for its answer.
func report(stage string, done int64) {
	fmt.Println("progress", stage, done)
	os.Stdin.Read(make([]byte, 1))
}

// save writes two models in turn over the same file until it is killed, or once on a full disk.
func (j errand) save() error {
	var models []*machine.Model
	for _, name := range []string{"a.rf", "b.rf"} {
		m, err := machine.Load(j.path(name))
		if err != nil {
			return err
		}
		models = append(models, m)
	}
	for i := 0; ; i++ {
		report("save", int64(i))
		if err := models[i%2].Save(j.path("model.rf")); err != nil {
			return err
		}
	}
}

// run starts a child and kills it (SIGKILL) some time after it has reported progress kill times; −1: never. It returns
// the number of reports, what was printed, and how the child ended.
func (j errand) run(t *testing.T, kill int, after time.Duration) (reports int, printed string, state *os.ProcessState) {
	t.Helper()
	b, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childEnv+"="+string(b))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "progress") {
			all.WriteString(lines.Text() + "\n")
			continue
		}
		reports++
		if _, err := in.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if reports == kill {
			time.Sleep(after)
			if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
			break
		}
	}
	_ = cmd.Wait() // the state tells
	return reports, all.String(), cmd.ProcessState
}

func killed(s *os.ProcessState) bool {
	w, ok := s.Sys().(syscall.WaitStatus)
	return ok && w.Signaled() && w.Signal() == syscall.SIGKILL
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

// unresumed is a report without what a resumed fit may say otherwise.
func unresumed(t *testing.T, b []byte) string {
	t.Helper()
	var r Report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	r.Resumed = 0
	b, err := json.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A fit that is killed at random points and started again each time ends with the files of one that never was.
func TestKilledFit(t *testing.T) {
	for name, kills := range map[string]int{"ridge": 30, "classes": 15, "gp": 15, "smoother": 15, "density": 15,
		"logistic": 15} {
		if testing.Short() {
			kills = 5
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(uint64(len(name)), 5))
			j := errand{Do: "fit", Dir: t.TempDir(), Case: name, Every: time.Millisecond}
			write(t, j.path("table.csv"), table(3000))
			total, printed, state := j.run(t, -1, 0)
			if !state.Success() {
				t.Fatalf("%v: %s", state, printed)
			}
			model, report := read(t, j.path("model.rf")), unresumed(t, read(t, j.path("report.json")))
			for _, f := range []string{"model.rf", "report.json", "checkpoint"} {
				if err := os.Remove(j.path(f)); err != nil {
					t.Fatal(err)
				}
			}
			left := map[string]int{} // kills by the rows or steps that the checkpoint had then
			for done := 0; done < kills; {
				// A fit that goes on reports less often than a whole one: some of the kills come too late.
				_, printed, state := j.run(t, 1+r.IntN(total*4/5), time.Duration(r.Int64N(int64(4*time.Millisecond))))
				switch {
				case killed(state):
					done++
				case !state.Success():
					t.Fatalf("after %d kills: %v: %s", done, state, printed)
				default: // over before the kill: begin anew
					if !bytes.Equal(read(t, j.path("model.rf")), model) {
						t.Fatal("another model")
					}
					for _, f := range []string{"model.rf", "report.json", "checkpoint"} {
						if err := os.Remove(j.path(f)); err != nil {
							t.Fatal(err)
						}
					}
				}
				switch s := readState(t, j.path("checkpoint")); {
				case s == nil:
					left["none"]++
				case s.Logistic != nil:
					left[fmt.Sprint(s.Logistic.Iterations, " steps")]++
				default:
					left[fmt.Sprint(s.Rows, " rows")]++
					// A checkpoint of all rows leaves the score alone to be killed: begin anew every other time.
					if s.Rows == 3000 && done%2 == 1 {
						if err := os.Remove(j.path("checkpoint")); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			if _, printed, state := j.run(t, -1, 0); !state.Success() {
				t.Fatalf("%v: %s", state, printed)
			}
			if !bytes.Equal(read(t, j.path("model.rf")), model) {
				t.Error("another model")
			}
			if got := unresumed(t, read(t, j.path("report.json"))); got != report {
				t.Errorf("another report:\n%s\nwant\n%s", got, report)
			}
			t.Logf("kills by what was saved: %v", left)
			if len(left) < 2 && !testing.Short() {
				t.Errorf("%d kills all left the same: %v", kills, left)
			}
			// What killed writers left was removed by those after them.
			if files := names(t, j.Dir); files != "checkpoint model.rf report.json table.csv" {
				t.Errorf("left over: %s", files)
			}
		})
	}
}

// A model file that is replaced again and again by a process that is killed is always the old one or the new one.
func TestKilledSave(t *testing.T) {
	j := twoModels(t)
	a, b := read(t, j.path("a.rf")), read(t, j.path("b.rf"))
	r := rand.New(rand.NewPCG(4, 4))
	kills := 20
	if testing.Short() {
		kills = 5
	}
	seen := map[bool]int{}
	for i := range kills {
		_, printed, state := j.run(t, 1+r.IntN(6), time.Duration(r.Int64N(int64(5*time.Millisecond))))
		if !killed(state) {
			t.Fatalf("%v: %s", state, printed)
		}
		got, err := os.ReadFile(j.path("model.rf"))
		if os.IsNotExist(err) && i == 0 {
			continue
		}
		if err != nil || !bytes.Equal(got, a) && !bytes.Equal(got, b) {
			t.Fatalf("%d bytes that are neither model, %v", len(got), err)
		}
		seen[bytes.Equal(got, a)]++
		if n := len(strings.Fields(names(t, j.Dir))); n > 4 {
			t.Fatalf("files of dead writers pile up: %s", names(t, j.Dir))
		}
	}
	if len(seen) != 2 && !testing.Short() {
		t.Errorf("only one of two models was ever seen, %v", seen)
	}
}

// twoModels is a directory with a small and a large model.
func twoModels(t *testing.T) errand {
	t.Helper()
	j := errand{Do: "save", Dir: t.TempDir()}
	src := opened(t, table(600))
	for name, features := range map[string]int{"a.rf": 16, "b.rf": 512} {
		o := kinds()["ridge"]
		o.Features, o.Bandwidth, o.Lambda = features, 1, 1
		m, _, err := Fit(context.Background(), src, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Save(j.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

// On a full disk nothing half written stays, what was there before is as it was, and the error says what is wrong.
func TestFullDisk(t *testing.T) {
	j := twoModels(t)
	a := read(t, j.path("a.rf"))
	j.Limit = uint64(len(a)) + 100 // the small model fits, the large one does not
	_, printed, state := j.run(t, -1, 0)
	if state.ExitCode() != 3 || !strings.Contains(printed, "cannot write "+j.path("model.rf")) ||
		!strings.Contains(printed, syscall.EFBIG.Error()) {
		t.Errorf("%v: %s", state, printed)
	}
	if !bytes.Equal(read(t, j.path("model.rf")), a) {
		t.Error("the model that was there is gone")
	}
	if left := names(t, j.Dir); left != "a.rf b.rf model.rf" {
		t.Errorf("left over: %s", left)
	}

	// A checkpoint that does not fit leaves the one before, and the fit goes on to the same model.
	f := errand{Do: "fit", Dir: t.TempDir(), Case: "ridge", Every: time.Millisecond}
	write(t, f.path("table.csv"), table(3000))
	if _, printed, state := f.run(t, -1, 0); !state.Success() {
		t.Fatalf("%v: %s", state, printed)
	}
	model := read(t, f.path("model.rf"))
	size := len(read(t, f.path("checkpoint")))
	os.Remove(f.path("model.rf"))
	os.Remove(f.path("checkpoint"))
	f.Limit = uint64(max(size*3/4, len(model)+200)) // the decisions and the model fit, the sums do not
	_, printed, state = f.run(t, -1, 0)
	if !state.Success() || !bytes.Equal(read(t, f.path("model.rf")), model) {
		t.Errorf("%v: another model, or none: %s", state, printed)
	}
	if s := readState(t, f.path("checkpoint")); s == nil || s.Rows != 0 || s.Decision == nil {
		t.Errorf("the checkpoint that was there is gone, or damaged: %+v", s)
	}
	if left := names(t, f.Dir); left != "checkpoint model.rf report.json table.csv" {
		t.Errorf("left over: %s", left)
	}
	os.Remove(f.path("model.rf"))
	f.Limit = 0
	if _, printed, state := f.run(t, -1, 0); !state.Success() {
		t.Fatalf("%v: %s", state, printed)
	}
	if !bytes.Equal(read(t, f.path("model.rf")), model) {
		t.Error("another model after the disk was full, limit " + strconv.Itoa(size))
	}
}
