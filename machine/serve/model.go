package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// loaded is a model ready to answer. A request keeps the one that it began with, so a reload never mixes two
// models. It is immutable except for ready.
type loaded struct {
	model  *machine.Model
	name   string
	sha256 string // of the model file
	bytes  int
	at     time.Time

	columns []string       // columns of the rows that batchers get: fields, identifiers, constants
	fields  int            // number of fields among them
	ids     int            // number of fields and identifiers; the rest was constant in training
	index   map[string]int // position of each column; unread for known columns that are not read

	spreading sync.Once
	predicted []float64 // see spread

	watch  *watcher // nil: rows are not watched
	s      *Server
	offers func() []string // query parameters that the model supports; computed on first use, because it is slow
	mu     sync.Mutex
	ready  map[machine.TableOptions]*batcher // batchers by options, guarded by mu; few, because options are few
}

const unread = -1

// modelInfo is the answer of /v1/model.
type modelInfo struct {
	Name     string         `json:"name,omitempty"` // name of the file
	SHA256   string         `json:"sha256"`         // checksum of the file
	Bytes    int            `json:"bytes"`
	Loaded   time.Time      `json:"loaded"`
	Kind     machine.Kind   `json:"kind"`
	Task     machine.Task   `json:"task"`
	Outputs  int            `json:"outputs"` // number of targets or classes
	Rows     int64          `json:"rows"`    // training rows
	Lambda   float64        `json:"lambda,omitempty"`
	Features int            `json:"features"`
	Spec     *randfeat.Spec `json:"spec"`
	// History has the date, the program and the scores of the fit, as far as known.
	History *machine.History `json:"history,omitempty"`
	Schema  *data.Schema     `json:"schema"`
	Answers []string         `json:"answers"` // columns of the predictions
	Options []string         `json:"options"` // query parameters of /v1/predict that this model supports
}

func sumOf(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}

// info returns the answer of /v1/model.
func (d *loaded) info() (*modelInfo, error) {
	b, err := d.batcher(machine.TableOptions{})
	if err != nil {
		return nil, err
	}
	m := d.model
	names, _ := b.predictor.Columns()
	return &modelInfo{Name: d.name, SHA256: d.sha256, Bytes: d.bytes, Loaded: d.at, Kind: m.Kind, Task: m.Task,
		Outputs: m.Outputs, Rows: m.Rows, Lambda: m.Lambda, Features: max(m.Weights.Rows,
			len(m.Mass)), Spec: &m.Spec, History: m.History,
		Schema: m.Schema, Answers: names, Options: d.offers()}, nil
}

// options returns the query parameters that the model supports, by trying each.
func (d *loaded) options() []string {
	out := []string{}
	for _, name := range optionNames {
		var o machine.TableOptions
		if setOption(&o, name, "") != nil {
			continue
		}
		if _, err := machine.NewTablePredictor(d.model, o); err == nil {
			out = append(out, name)
		}
	}
	return out
}

// batcher returns the batcher for predictions with the given options. Options that the model does not support
// are errors.
func (d *loaded) batcher(o machine.TableOptions) (*batcher, error) {
	o.Float32, o.Watch, o.Strict = d.s.o.Float32, true, d.s.o.Strict
	o.Readable = true // the sender of a row can correct it, so an unreadable value is an error
	o.Workers = 1     // calls already use all processors, and a panic on another goroutine could not be recovered
	d.mu.Lock()
	defer d.mu.Unlock()
	if b := d.ready[o]; b != nil {
		return b, nil
	}
	p, err := machine.NewTablePredictor(d.model, o)
	if err != nil {
		return nil, err
	}
	b, err := newBatcher(p, d.columns, d.s.o.Limits.Batch)
	if err != nil {
		return nil, err
	}
	b.observe = func(rows int) { d.s.metrics.batch.with().observe(rowsBuckets, float64(rows)) }
	b.panicked, b.surprised = d.s.panicked, d.s.metrics.surprised
	if d.watch != nil {
		b.watched = func(in *data.Block, y dense.Matrix[float64]) { d.watch.add(b, in, y) }
	}
	d.ready[o] = b
	return b, nil
}

// try predicts a row whose values are all missing; that does not count as a surprise here. p is the predictor
// of the requests, because preparing another one would double the time of a reload.
func (d *loaded) try(p *machine.TablePredictor) error {
	// A strict predictor would refuse the row.
	if d.s.o.Strict {
		var err error
		if p, err = machine.NewTablePredictor(d.model, machine.TableOptions{Float32: d.s.o.Float32,
			Workers: 1}); err != nil {
			return err
		}
	}
	b, err := newBatcher(p, d.columns, 1)
	if err != nil {
		return err
	}
	var in, out data.Block
	in.Reset(0, b.kinds)
	for c, k := range b.kinds {
		switch k {
		case data.Number:
			in.Cols[c].Num = append(in.Cols[c].Num, math.NaN())
		case data.Text:
			in.AppendText(c, nil)
		}
	}
	in.Rows = 1
	return b.predict(context.Background(), newJob(&in, &out))
}

func newJob(in, out *data.Block) *job {
	return &job{in: in, out: out, done: make(chan struct{}, 1)}
}

// sameColumns reports whether clients of d can use o without a change: it reads and predicts the same columns.
func (d *loaded) sameColumns(o *loaded) bool {
	targets := func(m *machine.Model) (names []string) {
		for _, t := range m.Schema.Targets {
			names = append(names, t.Name)
		}
		return names
	}
	if d.model.Task != o.model.Task || !slices.Equal(targets(d.model), targets(o.model)) {
		return false
	}
	a, b := slices.Clone(d.columns[:d.fields]), slices.Clone(o.columns[:o.fields])
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

func (m *metrics) use(l *loaded) {
	m.model.replace(1, string(l.model.Kind), l.sha256, string(l.model.Task))
	m.loaded.with().set(float64(l.at.UnixMilli()) / 1e3)
}
