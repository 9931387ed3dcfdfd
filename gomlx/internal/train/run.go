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

// Files of a run, in its folder.
const (
	CheckpointFile = "checkpoint.safetensors"
	MetricsFile    = "metrics.jsonl"
	PageFile       = "index.html"
)

// Metric is one line of MetricsFile. Held is absent where nothing was evaluated.
type Metric struct {
	Step     int      `json:"step"` // steps taken
	Loss     float64  `json:"loss"` // mean of the steps since the last line
	Norm     float64  `json:"norm"`
	Rate     float64  `json:"rate"`
	Items    float64  `json:"items_per_s"`
	Held     *float64 `json:"held_loss,omitempty"`
	Accuracy *float64 `json:"held_accuracy,omitempty"`
}

// Run trains to the end, or from where a former run in the same folder stopped. The zero value of every field but
// Dir is useful.
type Run struct {
	Dir   string
	Log   int               // steps between lines; 0: 10
	Held  int               // steps between evaluations; 0: at the end
	Save  int               // steps between checkpoints; 0: at the end
	Extra map[string]string // saved with the parameters, and compared
	// Progress gets a line that is written over, for a terminal; nil: none.
	Progress io.Writer
	Says     func(format string, args ...any) // what happens, one line each; nil: nobody hears
}

// Do runs. A context that ends saves and returns its error; a run that diverges saves the parameters before the step
// at fault. Either way the same command goes on from there.
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
	if t.Done() == 0 { // nothing is lost from the first moment on
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
		if err != nil { // the parameters may be lost in the middle of a step: those of the last checkpoint are not
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

// report puts numbers into the words of a task that has some.
func report(task Task, loss, accuracy float64) string {
	if r, ok := task.(interface {
		Report(loss, accuracy float64) string
	}); ok {
		return r.Report(loss, accuracy)
	}
	return fmt.Sprintf("loss %.4f, perplexity %.2f, accuracy %.4f", loss, math.Exp(loss), accuracy)
}

// openMetrics keeps the lines up to a step: those of steps that a resumed run takes again are dropped.
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

// ReadMetrics reads a MetricsFile. A last line that was cut off, as by a kill, is left out.
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
