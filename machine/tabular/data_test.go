package tabular

import (
	"bytes"
	"context"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// numbers is a table in memory.
type numbers struct {
	names []string
	rows  [][]float64
	most  int // rows of one Read; 0: as many as asked for
}

func (s *numbers) Name() string      { return "numbers" }
func (s *numbers) Columns() []string { return s.names }

func (s *numbers) Open(want []data.Kind) (data.Reader, error) {
	if want == nil {
		want = make([]data.Kind, len(s.names))
	}
	kinds, err := data.CheckKinds(want, len(s.names), func(int) data.Kind { return data.Number })
	return &numbersReader{s: s, want: kinds}, err
}

type numbersReader struct {
	s    *numbers
	want []data.Kind
	at   int
}

func (r *numbersReader) Columns() []string  { return r.s.names }
func (r *numbersReader) Where(i int) string { return "numbers:" + strconv.Itoa(i) }
func (r *numbersReader) Close() error       { return nil }
func (r *numbersReader) Read(b *data.Block, most int) error {
	b.Reset(int64(r.at), r.want)
	if r.s.most > 0 {
		most = min(most, r.s.most)
	}
	hi := min(r.at+most, len(r.s.rows))
	if r.at == hi {
		return io.EOF
	}
	for ; r.at < hi; r.at++ {
		for j, v := range r.s.rows[r.at] {
			switch r.want[j] {
			case data.Number:
				b.Cols[j].Num = append(b.Cols[j].Num, v)
			case data.Text:
				b.AppendText(j, strconv.AppendFloat(nil, v, 'g', -1, 64))
			}
		}
		b.Rows++
	}
	return nil
}

// csv is the same table as text, to the same bits.
func (s *numbers) csv(t testing.TB) data.Source {
	t.Helper()
	var b bytes.Buffer
	for j, n := range s.names {
		if j > 0 {
			b.WriteByte(',')
		}
		b.WriteString(n)
	}
	for _, row := range s.rows {
		for j, v := range row {
			b.WriteByte(",\n"[max(0, 1-j)])
			b.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
		}
	}
	b.WriteByte('\n')
	src, err := text.OpenBytes("numbers.csv", b.Bytes(), data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// waves are n rows a, b with y = sin 2a + b/2 + noise, z = 10⁶·(cos a + noise) and class, whether y > 0.
func waves(n int, seed uint64) *numbers {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &numbers{names: []string{"a", "b", "y", "z", "class"}}
	for range n {
		a, b := r.NormFloat64(), r.NormFloat64()
		y := math.Sin(2*a) + b/2 + 0.3*r.NormFloat64()
		class := 0.0
		if y > 0 {
			class = 1
		}
		s.rows = append(s.rows, []float64{a, b, y, 1e6 * (math.Cos(a) + 0.1*r.NormFloat64()), class})
	}
	return s
}

// learn names the targets; the other answers of waves are skipped.
func learn(targets ...string) data.LearnOptions {
	o := data.LearnOptions{Targets: targets}
	for _, n := range []string{"y", "z", "class"} {
		found := false
		for _, t := range targets {
			found = found || t == n
		}
		if !found {
			o.Skip = append(o.Skip, n)
		}
	}
	return o
}

// mustFit fits, with standardised columns unless another scaling is asked for: trials of scalings have tests of their
// own, and take their time.
func mustFit(t testing.TB, src data.Source, o Options) (*machine.Model, *Report) {
	t.Helper()
	if o.Scaling == "" && o.Schema == nil {
		o.Scaling = scalingStandard
	}
	m, r, err := Fit(context.Background(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	return m, r
}

func modelBytes(t testing.TB, m *machine.Model) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := m.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// evaluate scores a model on a table.
func evaluate(t testing.TB, m *machine.Model, src data.Source) []machine.Score {
	t.Helper()
	rows, err := machine.TableRows(src, m.Schema, m.Task != machine.Unsupervised)
	if err != nil {
		t.Fatal(err)
	}
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		t.Fatal(err)
	}
	e := machine.NewEvaluation(m.Kind, m.Task, m.Outputs)
	err = rows.Each(1024, func(x, y dense.Matrix[float64]) error {
		out := dense.New[float64](x.Rows, m.Outputs)
		var variance dense.Matrix[float64]
		if err := p.Predict(out, x, nil); err != nil {
			return err
		}
		if m.Kind == machine.KindGP {
			variance = dense.New[float64](x.Rows, m.Outputs)
			if err := p.Variance(variance, x, nil); err != nil {
				return err
			}
		}
		if m.Kind == machine.KindDensity {
			for i := range out.Data {
				out.Data[i] = m.LogDensity(out.Data[i])
			}
		}
		return e.Add(y, out, variance)
	})
	if err != nil {
		t.Fatal(err)
	}
	return e.Scores()
}

// stairs are rows whose target has jumps.
func stairs(n int, seed uint64) *numbers {
	r := rand.New(rand.NewPCG(seed, 4))
	s := &numbers{names: []string{"a", "b", "y"}}
	for range n {
		a, b := r.Float64(), r.Float64()
		s.rows = append(s.rows, []float64{a, b, math.Floor(4*a) + 2*float64(int(4*b)%2) + 0.1*r.NormFloat64()})
	}
	return s
}
