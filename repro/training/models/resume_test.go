package models_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/repro/training/models"
)

// A run with everything that a checkpoint must hold: accumulated gradients, redraws and fits.
func resumable() (models.Config, train.Config, train.Run) {
	c := settings(14)
	c.Accumulate, c.Redraw, c.Fit = 2, 5, 3
	m := small("oprf:orthogonal:8")
	m.Dark = true
	return m, c, train.Run{Log: 2, Held: 7, Save: 3, Extra: map[string]string{"data": "pattern"}}
}

const child = "RFX_TRAIN_TEST_DIR"

// TestChild is the process that TestKilled kills.
func TestChild(t *testing.T) {
	dir := os.Getenv(child)
	if dir == "" {
		t.Skip("a process of TestKilled")
	}
	m, c, run := resumable()
	run.Dir = dir
	if err := run.Do(context.Background(), trainer(t, m, c)); err != nil {
		t.Fatal(err)
	}
}

// Killed without warning between and during writes, a run goes on to the same bits as one that was left alone.
func TestKilled(t *testing.T) {
	m, c, run := resumable()
	run.Dir = t.TempDir()
	if err := run.Do(context.Background(), trainer(t, m, c)); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(run.Dir, train.CheckpointFile))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := train.ReadMetrics(filepath.Join(run.Dir, train.MetricsFile))
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	file := filepath.Join(dir, train.CheckpointFile)
	killed := 0
	for done := false; !done; {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestChild$")
		cmd.Env = append(os.Environ(), child+"="+dir)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		begin := -1
		if h, err := train.ReadHeader(file); err == nil {
			begin = h.Step
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		end := make(chan error, 1)
		go func() { end <- cmd.Wait() }()
		for running := true; running; {
			select {
			case err := <-end:
				if err != nil && killed < 100 {
					t.Fatalf("%v\n%s", err, out.String())
				}
				running, done = false, true
			case <-time.After(5 * time.Millisecond):
				// Killed twice, each time after it got on.
				if h, err := train.ReadHeader(file); err == nil && killed < 2 && h.Step > begin && h.Step > 0 {
					_ = cmd.Process.Kill()
					<-end
					killed++
					running = false
				}
			}
		}
	}
	if killed != 2 {
		t.Fatalf("killed %d times", killed)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the checkpoints differ")
	}
	again, err := train.ReadMetrics(filepath.Join(dir, train.MetricsFile))
	if err != nil {
		t.Fatal(err)
	}
	if len(again) != len(lines) || *again[len(again)-1].Held != *lines[len(lines)-1].Held {
		t.Errorf("%d lines of metrics, want %d", len(again), len(lines))
	}
	page, err := os.ReadFile(filepath.Join(dir, train.PageFile))
	if err != nil || !bytes.Contains(page, []byte("</svg>")) {
		t.Errorf("no page: %v", err)
	}
}

// A checkpoint of another run is refused in words that name the difference, and is left as it is.
func TestOtherCheckpoint(t *testing.T) {
	m, c, run := resumable()
	c.Steps, run.Dir = 3, t.TempDir()
	c.Accumulate = 1
	if err := run.Do(context.Background(), trainer(t, m, c)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(run.Dir, train.CheckpointFile)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := c
	other.Rate = 5
	wide := m
	wide.Hidden = 40
	for word, r := range map[string]*train.Trainer{"rate": trainer(t, m, other), "hidden": trainer(t, wide, c)} {
		err := run.Do(context.Background(), r)
		if !errors.Is(err, train.ErrCheckpoint) || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", word, err)
		}
	}
	same := trainer(t, m, c)
	run.Extra = map[string]string{"data": "another"}
	if err := run.Do(context.Background(), same); !errors.Is(err, train.ErrCheckpoint) {
		t.Errorf("other data: %v", err)
	}
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(before, now) {
		t.Errorf("the checkpoint has changed: %v", err)
	}
	// A damaged one, and one of another vocabulary to begin with.
	if err := same.Adopt(file); err != nil {
		t.Errorf("its own parameters: %v", err)
	}
	damaged := filepath.Join(t.TempDir(), "damaged")
	now := bytes.Clone(before)
	now[len(now)-5] ^= 1
	if err := os.WriteFile(damaged, now, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := same.Adopt(damaged); err == nil {
		t.Error("a damaged file is taken")
	}
}

// A run that diverges keeps the parameters before the step at fault, the metrics and the page, names the layer and the
// step, and does so again when it goes on; a bar shows speed and time left.
func TestDivergingRun(t *testing.T) {
	m, c, run := resumable()
	c.Accumulate, c.Clip, c.Rate, c.Warmup, c.Redraw, c.Fit = 1, 0, 1e30, 4, 0, 0 // finite for some steps
	c.Steps, run.Log, run.Held, run.Save = 50, 1, 0, 0
	var bar bytes.Buffer
	run.Dir, run.Progress = t.TempDir(), &bar
	var first string
	for range 2 {
		err := run.Do(context.Background(), trainer(t, m, c))
		if !errors.Is(err, train.ErrDiverged) {
			t.Fatalf("it says %v", err)
		}
		h, err2 := train.ReadHeader(filepath.Join(run.Dir, train.CheckpointFile))
		if err2 != nil {
			t.Fatal(err2)
		}
		if step := fmt.Sprintf("step %d: the ", h.Step); h.Step == 0 || !strings.Contains(err.Error(), step) {
			t.Errorf("the checkpoint is of step %d, it says %v", h.Step, err)
		}
		if first == "" {
			first = err.Error()
		} else if err.Error() != first {
			t.Errorf("it says %q, then %q", first, err)
		}
	}
	store, _, err := train.Load(filepath.Join(run.Dir, train.CheckpointFile))
	if err != nil {
		t.Fatal(err)
	}
	for v := range store.IterVariables() {
		for _, x := range tensors.MustCopyFlatData[float32](v.MustValue()) {
			if x != x || math.IsInf(float64(x), 0) {
				t.Fatalf("%s holds %g", v.Path(), x)
			}
		}
	}
	page, err := os.ReadFile(filepath.Join(run.Dir, train.PageFile))
	if err != nil || !strings.Contains(string(page), "The run stopped at step") {
		t.Errorf("no page that says where it stopped: %v", err)
	}
	for _, word := range []string{"1/50", "tokens/s", " left"} {
		if !strings.Contains(bar.String(), word) {
			t.Errorf("the bar has no %q: %q", word, bar.String())
		}
	}
}

// An interrupted run saves what it has and says where it stopped.
func TestInterrupted(t *testing.T) {
	m, c, run := resumable()
	run.Dir = t.TempDir()
	ctx, stop := context.WithCancel(context.Background())
	stop()
	err := run.Do(ctx, trainer(t, m, c))
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "step 0 of 14") {
		t.Errorf("it says %v", err)
	}
	if h, err := train.ReadHeader(filepath.Join(run.Dir, train.CheckpointFile)); err != nil || h.Step != 0 {
		t.Errorf("step %d, %v", h.Step, err)
	}
}
