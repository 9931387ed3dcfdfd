// Package lab repeats experiments of the papers with models small enough to train within minutes: DARKFormer's
// Figures 2–5, the vision Transformers of Chefs' Random Tables (Figure 4) and SimRF (Figure 9), Chefs' Table 2, and
// the Conformers of Chefs' Figure 3 and HRF's Table 2.
//
// Make a [Lab] and call one of its experiments: DarkFormer, Pretrain, ViT, Speed, GLUE, Encoder, Language, Speech or
// Words. Every measurement is one [Row]; [Tables] turns rows into Markdown, with intervals over seeds and the
// orderings that the papers claim.
//
// Methods whose graphs differ only in numbers share one compiled model (session), because compiling takes longer
// than many runs.
package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/gomlx/compute"

	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/repro/training/models"
)

// Row is one measurement.
type Row struct {
	Experiment string  `json:"experiment"`
	Part       string  `json:"part"` // the methods compared
	Method     string  `json:"method"`
	Seed       uint64  `json:"seed"`
	Rate       float64 `json:"rate,omitempty"`
	Step       int     `json:"step,omitempty"`
	Loss       float64 `json:"loss,omitempty"`
	Accuracy   float64 `json:"accuracy,omitempty"`
	Patches    int     `json:"patches,omitempty"`
	PerSecond  float64 `json:"steps_per_s,omitempty"`
	Spikes     int     `json:"spikes"`
	Worst      float64 `json:"worst,omitempty"` // largest training loss after the first steps
	Error      string  `json:"error,omitempty"`
}

// Size says how large the models are and how long they are trained.
type Size int

// Sizes.
const (
	Full  Size = iota // for a GPU
	Small             // for the Go backend: smaller models, minutes on one core, the same comparisons
	Quick             // for tests: a few steps; the numbers mean nothing
)

// Lab runs experiments.
type Lab struct {
	Backend compute.Backend
	Data    string // folder of the data sets
	Size    Size
	Out     io.Writer // rows as lines of JSON
	Log     io.Writer
	Until   time.Time // start no run after this time; zero: no limit
	Seeds   int       // 0: 3, or 2 if Quick
	First   uint64    // seeds are First+1, First+2, …, to add seeds to an earlier run
	Only    []string  // methods to report; nil: all. Models that others start from are trained anyway
	Sets    []string  // sets of GLUE; nil: all
	Parts   []string  // parts of an experiment, such as full, partial, M only, sweep; nil: all
	Steps   int       // steps of a fine-tuning of DarkFormer or a training of the others; 0: by size and time
	// Parallel compiles and runs different graphs at the same time, for backends that spend most of the time
	// compiling.
	Parallel bool

	mu sync.Mutex // guards Out and Log
}

// together runs functions one after the other or, with Parallel, concurrently. The first one must be the one that
// the others wait for (see promise).
func (l *Lab) together(all ...func() error) error {
	if !l.Parallel {
		for _, f := range all {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, f := range all {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// promise holds the parameters that fine-tunings start from. One run gives them, the others wait.
type promise struct {
	done chan struct{}
	once sync.Once
	base map[string][]float32
}

func newPromise() *promise { return &promise{done: make(chan struct{})} }

// give sets the parameters and ends the waiting. If they are nil, those who wait get an error.
func (p *promise) give(base map[string][]float32) {
	p.once.Do(func() {
		p.base = base
		close(p.done)
	})
}

func (p *promise) wait() (map[string][]float32, error) {
	<-p.done
	if p.base == nil {
		return nil, errors.New("there are no parameters to begin with")
	}
	return p.base, nil
}

// ErrTime is returned when Until has passed.
var ErrTime = errors.New("out of time")

// pick returns the number for the size.
func (l *Lab) pick(full, small, quick int) int { return [...]int{full, small, quick}[l.Size] }

func (l *Lab) seeds() int {
	if l.Seeds > 0 {
		return l.Seeds
	}
	return l.pick(3, 3, 2)
}

// seed returns the i-th seed.
func (l *Lab) seed(i int) uint64 { return l.First + uint64(i) + 1 }

// steps returns the number of training steps.
func (l *Lab) steps(full, small, quick int) int {
	if l.Steps > 0 && l.Size != Quick {
		return l.Steps
	}
	return l.pick(full, small, quick)
}

// wants reports whether a method is measured.
func (l *Lab) wants(how method) bool { return l.Only == nil || slices.Contains(l.Only, how.name) }

// part reports whether a part of an experiment is measured.
func (l *Lab) part(name string) bool { return l.Parts == nil || slices.Contains(l.Parts, name) }

func (l *Lab) write(r Row) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return json.NewEncoder(l.Out).Encode(r)
}

func (l *Lab) says(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Log != nil {
		fmt.Fprintf(l.Log, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
	}
}

func (l *Lab) late() bool { return !l.Until.IsZero() && time.Now().After(l.Until) }

// method is one kind of attention in an experiment.
type method struct {
	name, attention string
	fit             bool
	fitAfter        int           // steps before the fit; 0: 1
	still           []train.Group // groups of the shared graph that it does not train
	constant        bool          // M is zero, so all keys have the same weight
}

// session is a compiled model. Runs share it, and so do methods whose graphs differ only in numbers.
type session struct {
	*Lab
	t *train.Trainer
}

// open compiles a model and takes one step, which compiles the rest.
func (l *Lab) open(m models.Config, c train.Config, s train.Source) (*session, error) {
	from := time.Now()
	c.OneGraph = true
	t, err := train.New(l.Backend, m, c, s)
	if err == nil {
		_, err = t.Step()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Attention, err)
	}
	l.says("%s: compiled in %.1f s", m, time.Since(from).Seconds())
	return &session{l, t}, nil
}

// run trains a method, starting from base or, if it is nil, from new parameters, and writes a row at each step in at
// and at the last. A run that diverges ends with a row that says so.
func (s *session) run(how method, row Row, c train.Config, base map[string][]float32, at map[int]bool) error {
	if s.late() {
		return ErrTime
	}
	t := s.t
	m := t.Model.(models.Config)
	m.Attention = how.attention
	t.Model = m
	if c.Fit = 0; how.fit {
		c.Fit = max(1, how.fitAfter) // the first step has seen rows to fit to
	}
	c.Accumulate, c.OneGraph, c.Still = 1, true, how.still
	c.Beta1, c.Beta2 = t.Config.Beta1, t.Config.Beta2
	if c.Regime == "" {
		c.Regime = train.Full
	}
	t.Config = c
	if err := t.Reset(row.Seed); err != nil {
		return err
	}
	if base != nil {
		if err := t.Put(base); err != nil {
			return err
		}
	}
	if how.constant {
		if err := s.zeroM(); err != nil {
			return err
		}
	}
	row.Method, row.Rate = how.name, c.Rate
	from := time.Now()
	var w spikes
	for range c.Steps {
		r, err := t.Step()
		if errors.Is(err, train.ErrDiverged) {
			row.Error, row.Step = err.Error(), t.Done()
			return s.write(row)
		}
		if err != nil {
			return err
		}
		w.add(r.Loss)
		if at[t.Done()] || t.Done() == c.Steps {
			e, err := t.Evaluate()
			if err != nil {
				return err
			}
			row.Step, row.Loss, row.Accuracy, row.Spikes, row.Worst = t.Done(), e.Loss, e.Accuracy, w.count, w.worst
			if err := s.write(row); err != nil {
				return err
			}
		}
	}
	s.says("%s %s seed %d rate %g: loss %.4f accuracy %.4f, %.1f s", row.Part, row.Method, row.Seed, row.Rate, row.Loss,
		row.Accuracy, time.Since(from).Seconds())
	return nil
}

// zeroM sets M to zero, and with it all scores.
func (s *session) zeroM() error {
	p, err := s.t.Get()
	if err != nil {
		return err
	}
	for name, x := range p {
		if s.t.Model.Group(name) == train.Kernel {
			clear(x)
		}
	}
	return s.t.Put(p)
}

// spikes counts sharp increases of a loss: more than 0.3 nats above the mean of the previous 20 steps.
type spikes struct {
	last  []float64
	count int
	worst float64
}

func (s *spikes) add(loss float64) {
	if n := len(s.last); n >= 20 {
		var mean float64
		for _, x := range s.last[n-20:] {
			mean += x / 20
		}
		if loss > mean+0.3 {
			s.count++
		}
		s.worst = max(s.worst, loss)
	}
	s.last = append(s.last, loss)
}
