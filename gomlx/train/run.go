package train

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/randfeat/randfeat/internal/localfile"
)

// Files in the folder of a run.
const (
	CheckpointFile = "checkpoint.safetensors"
	MetricsFile    = "metrics.jsonl"
	PageFile       = "index.html"
)

// Metric is one line of MetricsFile. Held and Accuracy are only there after an evaluation.
type Metric struct {
	Step     int      `json:"step"` // steps taken
	Loss     float64  `json:"loss"` // mean since the last line
	Norm     float64  `json:"norm"`
	Rate     float64  `json:"rate"`
	Items    float64  `json:"items_per_s"`
	Held     *float64 `json:"held_loss,omitempty"`
	Accuracy *float64 `json:"held_accuracy,omitempty"`
}

// Run trains to the end, or from where an earlier run in the same folder stopped. Only Dir must be set.
type Run struct {
	Dir   string
	Log   int               // steps between lines of metrics; 0: 10
	Held  int               // steps between evaluations; 0: at the end
	Save  int               // steps between checkpoints; 0: at the end
	Extra map[string]string // saved with the parameters; a resumed run must have the same
	// Progress receives a line that is redrawn, for a terminal; nil means none.
	Progress io.Writer
	Says     func(format string, args ...any) // receives messages, one line each; nil: none
}

// Do runs. If ctx ends, it saves and returns the context's error. If the run diverges, it saves the parameters
// before the failing step. In both cases the same command continues from there.
func (r Run) Do(ctx context.Context, t *Trainer) error {
	if r.Log == 0 {
		r.Log = 10
	}
	says := r.Says
	if says == nil {
		says = func(string, ...any) {}
	}
	if err := os.MkdirAll(r.Dir, 0o777); err != nil {
		return err
	}
	file := filepath.Join(r.Dir, CheckpointFile)
	h, err := ReadHeader(file)
	switch {
	case err == nil:
		for k, v := range r.Extra {
			if h.Extra[k] != v {
				return fmt.Errorf("%s: made with another %s: %w", file, k, ErrCheckpoint)
			}
		}
		if err := t.Resume(file); err != nil {
			return err
		}
		says("resumed at step %d of %d", t.Done(), t.Config.Steps)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	metrics, err := r.openMetrics(t.Done())
	if err != nil {
		return err
	}
	defer metrics.Close()
	line := json.NewEncoder(metrics)
	bar := progress{w: r.Progress, unit: "tokens", total: t.Config.Steps, first: t.Done(), from: time.Now()}
	if s, ok := t.Source.(interface{ Unit() string }); ok {
		bar.unit = s.Unit()
	}
	defer bar.end()
	save := func() error { return t.Save(file, r.Extra) }
	if t.Done() == 0 { // a first checkpoint, so that a kill at any time loses nothing
		if err := save(); err != nil {
			return err
		}
	}

	var sum float64
	since, began := t.Done(), time.Now()
	var last *float64
	for t.Done() < t.Config.Steps {
		if err := ctx.Err(); err != nil {
			return errors.Join(fmt.Errorf("stopped at step %d of %d", t.Done(), t.Config.Steps), err, save(), r.page(t))
		}
		rate := t.Config.rate(t.Done())
		res, err := t.Step()
		if errors.Is(err, ErrDiverged) {
			return errors.Join(err, save(), r.page(t))
		}
		if err != nil { // a step may have been half applied: keep the last checkpoint instead
			return fmt.Errorf("%w; %s holds the last checkpoint", err, r.Dir)
		}
		sum += res.Loss
		n, end := t.Done(), t.Done() == t.Config.Steps
		speed := float64((n-since)*t.Config.Accumulate*t.Source.Items()) / time.Since(began).Seconds()
		bar.show(n, res.Loss, last, speed)
		held := end || r.Held > 0 && n%r.Held == 0
		if held || n%r.Log == 0 {
			m := Metric{Step: n, Loss: sum / float64(n-since), Norm: res.Norm, Rate: rate, Items: math.Round(speed)}
			if held {
				e, err := t.Evaluate()
				if err != nil {
					return errors.Join(err, save())
				}
				m.Held, m.Accuracy, last = &e.Loss, &e.Accuracy, &e.Loss
				says("step %d: held out %s", n, report(t.Model, e.Loss, e.Accuracy))
			}
			if err := line.Encode(m); err != nil {
				return errors.Join(err, save())
			}
			sum, since, began = 0, n, time.Now()
		}
		if end || r.Save > 0 && n%r.Save == 0 {
			if err := save(); err != nil {
				return err
			}
		}
	}
	return r.page(t)
}

// report describes a result in the words of the task, if it has a method for it.
func report(task Task, loss, accuracy float64) string {
	if r, ok := task.(interface {
		Report(loss, accuracy float64) string
	}); ok {
		return r.Report(loss, accuracy)
	}
	return fmt.Sprintf("loss %.4f, perplexity %.2f, accuracy %.4f", loss, math.Exp(loss), accuracy)
}

// openMetrics opens the file of metrics for appending. It drops the lines after a step, which a resumed run will
// write again.
func (r Run) openMetrics(step int) (*os.File, error) {
	name := filepath.Join(r.Dir, MetricsFile)
	kept, err := ReadMetrics(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var b bytes.Buffer
	line := json.NewEncoder(&b)
	for _, m := range kept {
		if m.Step <= step {
			if err := line.Encode(m); err != nil {
				return nil, err
			}
		}
	}
	if err := localfile.Write(name, b.Bytes()); err != nil {
		return nil, err
	}
	return os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
}

// ReadMetrics reads a MetricsFile. An incomplete last line, left by a kill, is ignored.
func ReadMetrics(name string) ([]Metric, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var all []Metric
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var m Metric
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			if !bytes.HasSuffix(b, []byte("\n")) && bytes.HasSuffix(b, lines.Bytes()) {
				break
			}
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		all = append(all, m)
	}
	return all, lines.Err()
}
