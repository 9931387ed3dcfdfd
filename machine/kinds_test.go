package machine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

// Every kind of the table keeps the promises of Sums, and its models can be checked, saved, read and run.
func TestKinds(t *testing.T) {
	for _, k := range Kinds() {
		t.Run(string(k.Kind), func(t *testing.T) { conforms(t, k) })
	}
}

// A kind needs an entry in the table and a file of its own. The mean of the targets is the smallest that there is.
func TestNewKind(t *testing.T) {
	toy := KindInfo{Kind: "mean", About: "the mean of the targets", Tasks: []Task{Regression, Classification},
		tensors: linear,
		sums:    sumsOf(func(s Setup) (*meanSums, error) { return newMean(s) })}
	before := kinds
	t.Cleanup(func() { kinds = before })
	kinds = append(slices.Clone(kinds), toy)
	conforms(t, toy)

	// The suite has teeth: it finds sums that forget what they merge, or write it wrongly.
	for _, broken := range []string{"merge", "write", "count"} {
		toy.sums = sumsOf(func(s Setup) (*meanSums, error) {
			m, err := newMean(s)
			if err == nil {
				m.broken = broken
			}
			return m, err
		})
		kinds[len(kinds)-1] = toy
		if !fails(func(r reporter) { conforms(r, toy) }) {
			t.Errorf("sums with a broken %s pass", broken)
		}
	}
}

// reporter is the part of testing.TB that conforms needs.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

type recorder struct{ failed bool }

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Fatalf(string, ...any) { r.failed = true; runtime.Goexit() }

// fails reports whether f does.
func fails(f func(reporter)) bool {
	var r recorder
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(&r)
	}()
	<-done
	return r.failed
}

type meanSums struct {
	setup  Setup
	n      int64
	sum    []float64
	broken string
}

func newMean(s Setup) (*meanSums, error) {
	s, err := s.prepared()
	return &meanSums{setup: s, sum: make([]float64, s.Outputs)}, err
}

func (m *meanSums) Len() int64 { return m.n }

func (m *meanSums) Add(x, y dense.Matrix[float64]) error {
	if err := m.setup.checkBlock(x, y, m.n); err != nil {
		return err
	}
	t := dense.New[float64](y.Rows, m.setup.Outputs+1)
	m.setup.targets(t, y)
	for i := range t.Rows {
		addTo(m.sum, t.Row(i)[:m.setup.Outputs])
	}
	m.n += int64(x.Rows)
	return nil
}

func (m *meanSums) Merge(o Sums) error {
	other, ok := o.(*meanSums)
	if !ok {
		return otherSums(m, o)
	}
	if m.broken != "merge" {
		addTo(m.sum, other.sum)
	}
	if m.broken != "count" {
		m.n += other.n
	}
	return nil
}

func (m *meanSums) AppendBinary(b []byte) ([]byte, error) {
	b = binary.LittleEndian.AppendUint64(b, uint64(m.n))
	for _, v := range m.sum {
		if m.broken == "write" {
			v = 0
		}
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b, nil
}

func (m *meanSums) Size() int64 { return int64(8 * (1 + len(m.sum))) }

func (m *meanSums) Write(w io.Writer) error {
	b, _ := m.AppendBinary(nil)
	_, err := w.Write(b)
	return err
}

func (m *meanSums) Read(r io.Reader, size int64) error {
	if size != m.Size() {
		return ErrCorrupt
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	m.n = int64(binary.LittleEndian.Uint64(b))
	for k := range m.sum {
		m.sum[k] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*(k+1):]))
	}
	return nil
}

func (m *meanSums) Like() (Sums, error) { return newMean(m.setup) }

func (m *meanSums) Model(float64) (*Model, error) {
	if m.n == 0 {
		return nil, ErrNoRows
	}
	fm, err := newMapper[float64](m.setup)
	if err != nil {
		return nil, err
	}
	out := &Model{Kind: "mean", Task: m.setup.Task, Outputs: m.setup.Outputs, Spec: m.setup.Spec, Omega: m.setup.Omega,
		Rows:    m.n,
		Weights: dense.New[float64](fm.m.OutDim(), m.setup.Outputs)}
	for _, v := range m.sum {
		out.Intercept = append(out.Intercept, v/float64(m.n))
	}
	return out, nil
}

// conforms checks an entry of the table.
func conforms(t reporter, k KindInfo) {
	t.Helper()
	if k.About == "" || len(k.Tasks) == 0 || !k.has("weights") && !k.has("mass") {
		t.Fatalf("%s: an entry without description, tasks or weights", k.Kind)
	}
	if got, err := k.Kind.Info(); err != nil || got.Kind != k.Kind {
		t.Fatalf("%s: %v", k.Kind, err)
	}
	for _, task := range []Task{Regression, Classification, Unsupervised} {
		s := Setup{Spec: trigSpec(3, 40), Task: task, Block: 64}
		if k.Averages {
			s.Spec = positiveSpec(3, 40)
		}
		x, y := sample(31, 300, 3, 2)
		switch task {
		case Classification:
			s.Outputs, y = 2, classes(y.ColRange(0, 1), 2)
		case Regression:
			s.Outputs = 2
		default:
			y = dense.Matrix[float64]{}
		}
		if !k.Summed() || !slices.Contains(k.Tasks, task) {
			if _, err := NewSums(k.Kind, s); !errors.Is(err, ErrSetup) {
				t.Errorf("%s for %s: sums, %v", k.Kind, task, err)
			}
			continue
		}
		conformsTo(t, k, s, x, y)
	}
}

func conformsTo(t reporter, k KindInfo, s Setup, x, y dense.Matrix[float64]) {
	t.Helper()
	fatal := func(err error, what string) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s, %s: %s: %v", k.Kind, s.Task, what, err)
		}
	}
	part := func(lo, hi int) Sums {
		t.Helper()
		a, err := NewSums(k.Kind, s)
		fatal(err, "new")
		targets := y
		if y.Cols > 0 {
			targets = y.RowRange(lo, hi)
		}
		fatal(a.Add(x.RowRange(lo, hi), targets), "add")
		if a.Len() != int64(hi-lo) {
			t.Fatalf("%s: %d rows, want %d", k.Kind, a.Len(), hi-lo)
		}
		return a
	}
	if _, err := part(0, 0).Model(1); !errors.Is(err, ErrNoRows) {
		t.Errorf("%s: model of no rows: %v", k.Kind, err)
	}
	whole := part(0, x.Rows)
	merged := part(0, 100)
	fatal(merged.Merge(part(100, x.Rows)), "merge")
	if merged.Len() != whole.Len() {
		t.Errorf("%s: %d rows merged, want %d", k.Kind, merged.Len(), whole.Len())
	}
	b, err := merged.AppendBinary([]byte("before"))
	fatal(err, "write")
	back, err := unmarshalSums(k.Kind, s, bytes.TrimPrefix(b, []byte("before")))
	fatal(err, "read")
	again, err := back.AppendBinary(nil)
	fatal(err, "write again")
	if !bytes.Equal(again, b[len("before"):]) || back.Len() != merged.Len() {
		t.Errorf("%s: read otherwise than written", k.Kind)
	}
	if _, err := unmarshalSums(k.Kind, s, b); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%s: bytes before the sums: %v", k.Kind, err)
	}
	for _, o := range kinds {
		if o.Kind == k.Kind || !o.Summed() || !slices.Contains(o.Tasks, s.Task) {
			continue
		}
		setup := s
		if setup.Spec = trigSpec(3, 40); o.Averages {
			setup.Spec = positiveSpec(3, 40)
		}
		other, err := NewSums(o.Kind, setup)
		fatal(err, "sums of another kind")
		if err := merged.Merge(other); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: merged with sums of %s: %v", k.Kind, o.Kind, err)
		}
	}
	run := func(a Sums) []float64 {
		t.Helper()
		m, err := a.Model(0.5)
		fatal(err, "model")
		if m.Kind != k.Kind || m.Task != s.Task || m.Rows != a.Len() {
			t.Fatalf("%s: a %s %s of %d rows", k.Kind, m.Kind, m.Task, m.Rows)
		}
		if len(m.Quantiles) == 0 && k.has("quantiles") {
			m.Quantiles = []float64{-1, 0}
		}
		var file bytes.Buffer
		_, err = m.WriteTo(&file)
		fatal(err, "model file")
		m, err = Read(file.Bytes())
		fatal(err, "reading the model file")
		p, err := NewPredictor[float64](m)
		fatal(err, "predictor")
		out := dense.New[float64](x.Rows, m.Outputs)
		fatal(p.Predict(out, x, nil), "predict")
		if err := p.Variance(dense.New[float64](x.Rows, m.Outputs), x, nil); (err == nil) != k.Bayesian {
			t.Errorf("%s: variance: %v", k.Kind, err)
		}
		return out.Data
	}
	want := run(whole)
	for what, got := range map[string][]float64{"merged": run(merged), "read": run(back)} {
		for i, v := range got {
			if math.Abs(v-want[i]) > 1e-9*(1+math.Abs(want[i])) {
				t.Fatalf("%s, %s, %s: prediction %d is %g, want %g", k.Kind, s.Task, what, i, v, want[i])
			}
		}
	}
}

// Code that depends on a kind stands in its entry and its own file: no other file names the kind. Commands may offer
// one by name in examples, which is text.
func TestKindsAreNamedInTwoFiles(t *testing.T) {
	files := map[string][]string{}
	constant := regexp.MustCompile(`\bKind(Ridge|Logistic|GP|Smoother|Density)\b`)
	for _, pattern := range []string{"*.go", "*/*.go", "../cmd/*/*.go", "../cmd/*/*/*/*.go"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range constant.FindAllString(string(text), -1) {
				if !slices.Contains(files[name], path) {
					files[name] = append(files[name], path)
				}
			}
		}
	}
	if len(files) != len(kinds) {
		t.Errorf("%d constants found for %d kinds", len(files), len(kinds))
	}
	for name, paths := range files {
		if !slices.Contains(paths, "kinds.go") || len(paths) > 2 {
			t.Errorf("%s is named in %v, want kinds.go and one file", name, paths)
		}
	}
	if len(files) == 0 || fmt.Sprint(files["KindSmoother"]) != "[kinds.go smoother.go]" {
		t.Errorf("smoother is named in %v", files["KindSmoother"])
	}
}
