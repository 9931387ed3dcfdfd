package linear_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// plain is a map that shares nothing with randfeat.Map: features of the softmax kernel one by one in float64, as an
// implementation elsewhere would have them. Positive features are exp(ω·x − |x|²/2)/√m; trigonometric ones sin(ω·x) and
// cos(ω·x) times exp(|x|²/2)/√m. It is a value that cannot be compared, and it ignores workspaces.
type plain[T dense.Float] struct {
	omega dense.Matrix[float64]
	trig  bool
	id    [32]byte
}

func (p plain[T]) InDim() int { return p.omega.Cols }

func (p plain[T]) OutDim() int {
	if p.trig {
		return 2 * p.omega.Rows
	}
	return p.omega.Rows
}

func (p plain[T]) Fingerprint() [32]byte { return p.id }
func (p plain[T]) Target() kernel.Kernel { return kernel.Kernel{Kind: kernel.Softmax} }
func (p plain[T]) Positive() bool        { return !p.trig }
func (p plain[T]) Signed() bool          { return p.trig }

// feature is the value and the exponent of feature f, value·exp(e + row), and its projection.
func (p plain[T]) feature(f int, x []T) (value, e float64, omega []float64) {
	omega = p.omega.Row(f % p.omega.Rows)
	var dot float64
	for l, v := range x {
		dot += omega[l] * float64(v)
	}
	half := -math.Log(float64(p.omega.Rows)) / 2
	switch {
	case !p.trig:
		return 1, dot + half, omega
	case f < p.omega.Rows:
		return math.Sin(dot), half, omega
	}
	return math.Cos(dot), half, omega
}

// row is the term that the features of x share.
func (p plain[T]) row(x []T) float64 {
	var s float64
	for _, v := range x {
		s += float64(v) * float64(v) / 2
	}
	if p.trig {
		return s
	}
	return -s
}

func (p plain[T]) LogQueries(e, value dense.Matrix[T], row []float64, x dense.Matrix[T],
	_ *randfeat.Workspace[T]) error {
	for i := range x.Rows {
		row[i] = p.row(x.Row(i))
		for f := range p.OutDim() {
			v, exponent, _ := p.feature(f, x.Row(i))
			e.Set(i, f, T(exponent))
			if !value.IsEmpty() {
				value.Set(i, f, T(v))
			}
		}
	}
	return nil
}

func (p plain[T]) LogKeys(e, value dense.Matrix[T], row []float64, x dense.Matrix[T], ws *randfeat.Workspace[T]) error {
	return p.LogQueries(e, value, row, x, ws)
}

// scale is the factor exp(e + row + col − shift) of a feature.
func (p plain[T]) scale(e float64, f, i int, col []T, shift []float64, x []T) float64 {
	if col != nil {
		e += float64(col[f])
	}
	return math.Exp(e + p.row(x) - shift[i])
}

func (p plain[T]) QueriesScaled(dst dense.Matrix[T], col []T, shift []float64, x dense.Matrix[T],
	_ *randfeat.Workspace[T]) error {
	for i := range x.Rows {
		for f := range p.OutDim() {
			v, e, _ := p.feature(f, x.Row(i))
			dst.Set(i, f, T(v*p.scale(e, f, i, col, shift, x.Row(i))))
		}
	}
	return nil
}

func (p plain[T]) KeysScaled(dst dense.Matrix[T], col []T, shift []float64, x dense.Matrix[T],
	ws *randfeat.Workspace[T]) error {
	return p.QueriesScaled(dst, col, shift, x, ws)
}

// plainVJP is plain with derivatives.
type plainVJP[T dense.Float] struct{ plain[T] }

func (p plainVJP[T]) QueriesVJP(dx, dphi, _, x dense.Matrix[T], col []T, shift []float64, _ *randfeat.Grad[T],
	_ *randfeat.Workspace[T]) error {
	m := p.omega.Rows
	for i := range x.Rows {
		sum := make([]float64, x.Cols)
		for f := range p.OutDim() {
			v, e, omega := p.feature(f, x.Row(i))
			c := float64(dphi.At(i, f)) * p.scale(e, f, i, col, shift, x.Row(i))
			// ∂(value·e^{exponent}) = along·ω + radial·x, times the exponential.
			along, radial := v, -v
			if p.trig {
				other, _, _ := p.feature((f+m)%(2*m), x.Row(i))
				along, radial = other, v
				if f >= m {
					along = -other
				}
			}
			for l := range sum {
				sum[l] += c * (along*omega[l] + radial*float64(x.At(i, l)))
			}
		}
		for l, v := range sum {
			dx.Set(i, l, T(v))
		}
	}
	return nil
}

func (p plainVJP[T]) KeysVJP(dx, dphi, phi, x dense.Matrix[T], col []T, shift []float64, g *randfeat.Grad[T],
	ws *randfeat.Workspace[T]) error {
	return p.QueriesVJP(dx, dphi, phi, x, col, shift, g, ws)
}

var _ randfeat.Differentiable[float32] = plainVJP[float32]{}

func normalSeq[T dense.Float](batch, heads, length, dim int, scale float64, seed uint64) attention.Seq[T] {
	s := attention.NewSeq[T](batch, heads, length, dim)
	x := make([]float64, len(s.Data))
	rng.Normals(x, rng.Stream(seed, 79))
	for i, v := range x {
		s.Data[i] = T(scale * v)
	}
	return s
}

// distant is the largest difference between two sequences, relative to the largest number of the second.
func distant[T dense.Float](a, b attention.Seq[T]) float64 {
	var diff, top float64
	for i, v := range b.Data {
		diff = max(diff, math.Abs(float64(a.Data[i])-float64(v)))
		top = max(top, math.Abs(float64(v)))
	}
	return diff / top
}

func pairOfMaps[T dense.Float](t *testing.T, trig bool, d, m int) (*randfeat.Map[T], plain[T]) {
	t.Helper()
	s := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: family.Positive{}, Dim: d, M: m, Seed: 4}
	if trig {
		s.Family = family.Trig{}
	}
	own, err := randfeat.New[T](s)
	if err != nil {
		t.Fatal(err)
	}
	return own, plain[T]{omega: own.Omega()[0].Rows, trig: trig, id: own.Fingerprint()}
}

// TestForeignMap: attention takes any implementation of FeatureMap, not only *randfeat.Map.
func TestForeignMap(t *testing.T) {
	t.Run("float32", func(t *testing.T) { testForeignMap[float32](t, 2e-4) })
	t.Run("float64", func(t *testing.T) { testForeignMap[float64](t, 1e-11) })
}

func testForeignMap[T dense.Float](t *testing.T, tolerance float64) {
	const d, dv, m, length = 5, 3, 64, 40
	for _, trig := range []bool{false, true} {
		scale := 0.9
		if trig {
			scale = 0.4 // denominators of signed features near zero would magnify rounding
		}
		own, other := pairOfMaps[T](t, trig, d, m)
		maps := [2]randfeat.FeatureMap[T]{own, plainVJP[T]{other}}
		q, k, v := normalSeq[T](2, 4, length, d, scale, 1), normalSeq[T](2, 2, length, d, scale, 2),
			normalSeq[T](2, 2, length, dv, 1, 3)
		same := func(what string, got, want attention.Seq[T]) {
			t.Helper()
			if e := distant(got, want); !(e <= tolerance) {
				t.Errorf("trig=%v, %s: a foreign map differs by %.2g (bound %.2g)", trig, what, e, tolerance)
			}
		}
		for _, causal := range []bool{false, true} {
			for _, window := range []int{0, 6} {
				name := fmt.Sprintf("causal=%v window=%d", causal, window)
				var out [2]attention.Seq[T]
				var grad [2][3]attention.Seq[T]
				for i, fm := range maps {
					a := &linear.Attention[T]{Visibility: attention.Visibility{Causal: causal}, Window: window,
						Maps: []randfeat.FeatureMap[T]{fm}, Chunk: 16}
					out[i] = attention.NewSeq[T](2, 4, length, dv)
					r, err := a.Forward(out[i], q, k, v)
					if err != nil || r.Rows != 2*4*length {
						t.Fatalf("%s: %+v, %v", name, r, err)
					}
					grad[i] = [3]attention.Seq[T]{attention.NewSeq[T](2, 4, length, d),
						attention.NewSeq[T](2, 2, length, d),
						attention.NewSeq[T](2, 2, length, dv)}
					dout := normalSeq[T](2, 4, length, dv, 1, 4)
					if _, err := a.Backward(grad[i][0], grad[i][1], grad[i][2], dout, out[i], q, k, v,
						nil); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
				}
				same(name, out[1], out[0])
				for i, g := range []string{"dq", "dk", "dv"} {
					same(name+" "+g, grad[1][i], grad[0][i])
				}
			}
		}

		var read, decoded [2]attention.Seq[T]
		var saved []byte
		q1, k1, v1 := attention.One(q.Head(0, 0)), attention.One(k.Head(0, 0)), attention.One(v.Head(0, 0))
		for i, fm := range maps {
			one := &linear.Attention[T]{Maps: []randfeat.FeatureMap[T]{fm}}
			s, err := one.NewState(q1.Shape, v1.Shape)
			if err != nil {
				t.Fatal(err)
			}
			read[i], decoded[i] = attention.NewSeq[T](1, 1, length, dv), attention.NewSeq[T](2, 4, length, dv)
			if err := s.Append(k1, v1); err != nil {
				t.Fatal(err)
			}
			if err := s.Read(read[i], q1); err != nil {
				t.Fatal(err)
			}
			if saved, err = s.MarshalBinary(); err != nil {
				t.Fatal(err)
			}
			dec, err := (&linear.Attention[T]{Window: 4, Maps: []randfeat.FeatureMap[T]{fm}}).NewState(q.Shape, v.Shape)
			if err != nil {
				t.Fatal(err)
			}
			if err := dec.Step(decoded[i], q, k, v); err != nil {
				t.Fatal(err)
			}
		}
		same("state", read[1], read[0])
		same("decoder", decoded[1], decoded[0])
		// The fingerprint is the same, so a state of one map goes on with the other.
		s, err := (&linear.Attention[T]{Maps: maps[:1]}).NewState(q1.Shape, v1.Shape)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.UnmarshalBinary(saved); err != nil {
			t.Fatal(err)
		}
		if err := s.Read(read[1], q1); err != nil {
			t.Fatal(err)
		}
		same("saved state", read[1], read[0])
	}
}

// TestMapsThatWillNotDo: missing maps and missing derivatives are errors that say so, not panics.
func TestMapsThatWillNotDo(t *testing.T) {
	const d, dv = 4, 2
	own, other := pairOfMaps[float64](t, false, d, 8)
	q, v, out := normalSeq[float64](1, 1, 6, d, 1, 1), normalSeq[float64](1, 1, 6, dv, 1, 2),
		attention.NewSeq[float64](1, 1, 6, dv)
	dq, dk := attention.NewSeq[float64](1, 1, 6, d), attention.NewSeq[float64](1, 1, 6, d)
	backward := func(fm randfeat.FeatureMap[float64], grads []*randfeat.Grad[float64]) error {
		a := &linear.Attention[float64]{Maps: []randfeat.FeatureMap[float64]{fm}}
		if _, err := a.Forward(out, q, q, v); err != nil {
			return err
		}
		_, err := a.Backward(dq, dk, attention.NewSeq[float64](1, 1, 6, dv), out, out, q, q, v, grads)
		return err
	}
	g, err := func() (*randfeat.Grad[float64], error) {
		w := dense.New[float64](8, d)
		rng.Normals(w.Data, rng.Stream(3))
		m, err := randfeat.New[float64](randfeat.Spec{Kernel: own.Target(), Family: family.LFK{W: w}, Dim: d, M: 8})
		if err != nil {
			return nil, err
		}
		return m.NewGrad()
	}()
	if err != nil {
		t.Fatal(err)
	}
	state := func(fm randfeat.FeatureMap[float64]) error {
		_, err := (&linear.Attention[float64]{Maps: []randfeat.FeatureMap[float64]{fm}}).NewState(q.Shape, v.Shape)
		return err
	}
	var missing *randfeat.Map[float64]
	for name, c := range map[string]struct {
		err  error
		want error
		says string
	}{
		"no derivatives": {backward(other, nil), errors.ErrUnsupported, "has no derivatives"},
		"no parameters": {backward(plainVJP[float64]{other}, []*randfeat.Grad[float64]{g}), randfeat.ErrNoParameters,
			"map 0"},
		"another's":        {backward(own, []*randfeat.Grad[float64]{g}), randfeat.ErrNoParameters, ""},
		"nil":              {backward(nil, nil), randfeat.ErrSpec, "map 0: no map"},
		"typed nil":        {backward(missing, nil), randfeat.ErrSpec, "only a nil *randfeat.Map"},
		"typed nil, state": {state(missing), randfeat.ErrSpec, "only a nil *randfeat.Map"},
		"nil, state":       {state(nil), randfeat.ErrSpec, "no map"},
	} {
		if !errors.Is(c.err, c.want) || !strings.Contains(fmt.Sprint(c.err), c.says) {
			t.Errorf("%s: %v, want %v that says %q", name, c.err, c.want, c.says)
		}
	}
}
