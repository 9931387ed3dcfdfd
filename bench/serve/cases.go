package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// cases has two models, rows, and what each model predicts for each row.
type cases struct {
	path     string   // file that the server reads
	files    []string // the models
	requests [][]byte
	want     map[string]answers // by sha256 of the model file
}

// answers are the expected answers of a model.
type answers struct {
	values []float64
	before []byte // the body before the value
}

func newCases(s settings, dir string) (*cases, error) {
	c := &cases{path: filepath.Join(dir, "model.rf"), want: map[string]answers{}}
	rows := table(3, 256, s.columns, false)
	names := strings.Split(strings.SplitN(string(rows), "\n", 2)[0], ",")
	for line := range strings.Lines(string(rows[bytes.IndexByte(rows, '\n')+1:])) {
		var cells []string
		for j, v := range strings.Split(strings.TrimSpace(line), ",") {
			cells = append(cells, fmt.Sprintf("%q:%s", names[j], v))
		}
		body := `{"rows":[{` + strings.Join(cells, ",") + `}]}`
		c.requests = append(c.requests, []byte("POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "+
			strconv.Itoa(len(body))+"\r\n\r\n"+body))
	}
	for seed := range uint64(2) {
		m, err := fit(s, seed+1)
		if err != nil {
			return nil, err
		}
		path := fmt.Sprintf("%s.%d", c.path, seed)
		if err := m.Save(path); err != nil {
			return nil, err
		}
		file, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		c.files = append(c.files, path)
		sum := sha256.Sum256(file)
		sha := hex.EncodeToString(sum[:])
		values, err := predictions(m, names, rows, s.float32)
		if err != nil {
			return nil, err
		}
		c.want[sha] = answers{values, []byte(`{"model":"` + sha + `","columns":["prediction"],"rows":[{"prediction":`)}
	}
	return c, c.put(0)
}

// table returns rows of numbers as CSV, with a target if asked for.
func table(seed uint64, n, columns int, target bool) []byte {
	r := rand.New(rand.NewPCG(seed, 7))
	var b bytes.Buffer
	for j := range columns {
		if j > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "column_%d", j)
	}
	if target {
		b.WriteString(",y")
	}
	b.WriteByte('\n')
	for range n {
		sum := 0.0
		for j := range columns {
			v := r.NormFloat64()
			sum += v
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%.5f", v)
		}
		if target {
			fmt.Fprintf(&b, ",%.5f", sum*float64(seed))
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func fit(s settings, seed uint64) (*machine.Model, error) {
	src, err := text.OpenBytes("rows.csv", table(seed, 500, s.columns, true), data.Options{})
	if err != nil {
		return nil, err
	}
	schema, _, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}, Task: data.Regression})
	if err != nil {
		return nil, err
	}
	rows, err := machine.TableRows(src, schema, true)
	if err != nil {
		return nil, err
	}
	r, err := machine.NewRidge(machine.Setup{Outputs: 1, Spec: randfeat.Spec{Kernel: kernel.Kernel{Scale: 8},
		Family:   family.Trig{},
		Coupling: coupling.Orthogonal{}, Dim: schema.Width(), M: s.m, Seed: seed}})
	if err != nil {
		return nil, err
	}
	if err := r.AddRows(rows); err != nil {
		return nil, err
	}
	m, err := r.Model(1)
	if err != nil {
		return nil, err
	}
	m.Schema = schema
	return m, nil
}

func predictions(m *machine.Model, names []string, rows []byte, float32 bool) ([]float64, error) {
	p, err := machine.NewTablePredictor(m, machine.TableOptions{Float32: float32})
	if err != nil {
		return nil, err
	}
	run, err := p.Open(names)
	if err != nil {
		return nil, err
	}
	src, err := text.OpenBytes("rows.csv", rows, data.Options{})
	if err != nil {
		return nil, err
	}
	var out []float64
	err = run.Each(src, run.Kinds(), 64, func(predictions, _ *data.Block) error {
		out = append(out, predictions.Cols[0].Num...)
		return nil
	})
	return out, err
}

// put makes model i the one that the server reads, atomically and with little work, to leave the processors to the
// server.
func (c *cases) put(i int) error {
	next := c.path + ".next"
	if err := os.Link(c.files[i], next); err != nil {
		return err
	}
	return os.Rename(next, c.path)
}

// replace puts the models in place in turn and tells the server, until ctx ends. It returns the times.
func (c *cases) replace(ctx context.Context, every time.Duration, began time.Time,
	server *os.Process) (sent []time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return sent
		case <-tick.C:
		}
		if err := c.put(n % len(c.files)); err != nil {
			fmt.Fprintln(os.Stderr, "serve:", err)
			return sent
		}
		sent = append(sent, time.Since(began))
		if err := server.Signal(syscall.SIGHUP); err != nil {
			fmt.Fprintln(os.Stderr, "serve:", err)
			return sent
		}
	}
}
