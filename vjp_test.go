package randfeat_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

func normals[T dense.Float](rows, cols int, seed uint64) dense.Matrix[T] {
	x := dense.New[float64](rows, cols)
	rng.Normals(x.Data, rng.Stream(seed, 77))
	return dense.Convert[T](x)
}

// sideVJP is one side of a map with its derivative.
type sideVJP[T dense.Float] struct {
	plain  func(dst dense.Matrix[T], logScale []float64, x dense.Matrix[T], ws *randfeat.Workspace[T]) error
	scaled func(dst dense.Matrix[T], col []T, shift []float64, x dense.Matrix[T], ws *randfeat.Workspace[T]) error
	vjp    func(dx, dphi, phi, x dense.Matrix[T], col []T, shift []float64, g *randfeat.Grad[T],
		ws *randfeat.Workspace[T]) error
}

func vjpSides[T dense.Float](m *randfeat.Map[T]) map[string]sideVJP[T] {
	return map[string]sideVJP[T]{"queries": {m.Queries, m.QueriesScaled, m.QueriesVJP}, "keys": {m.Keys, m.KeysScaled,
		m.KeysVJP}}
}

func columnScales[T dense.Float](f int) []T {
	col := make([]T, f)
	for k := range col {
		col[k] = T(k%5)*0.3 - 0.6
	}
	return col
}

// Central differences in float64: with steps of 1e-5 they are good to about 1e-10 of the terms.
func TestVJP(t *testing.T) {
	for name, s := range mapCases(t) {
		t.Run(name, func(t *testing.T) {
			m, err := randfeat.New[float64](s)
			if err != nil {
				t.Fatal(err)
			}
			for side, f := range vjpSides(m) {
				t.Run(side, func(t *testing.T) { finiteDifferences(t, m, f) })
			}
		})
	}
}

func finiteDifferences(t *testing.T, m *randfeat.Map[float64], side sideVJP[float64]) {
	const n, h = 9, 1e-5
	d, f := m.InDim(), m.OutDim()
	x := rowsOfNorm[float64](n, d, 1.5, 11)
	x.Row(1)[0] = 0 // 0⁰ and 0¹ in monomials
	switch m.Spec().Family.(type) {
	case family.Poisson, family.Geometric: // others may have no derivative there
		clear(x.Row(0))
	}
	dphi, col := normals[float64](n, f, 12), columnScales[float64](f)
	shift := make([]float64, n)
	phi, dx := dense.New[float64](n, f), dense.New[float64](n, d)
	var ws randfeat.Workspace[float64]
	if err := side.plain(phi, shift, x, &ws); err != nil {
		t.Fatal(err)
	}
	if err := side.vjp(dx, dphi, dense.Matrix[float64]{}, x, col, shift, nil, &ws); err != nil {
		t.Fatal(err)
	}
	loss := func(x dense.Matrix[float64]) []float64 {
		if err := side.scaled(phi, col, shift, x, &ws); err != nil {
			t.Fatal(err)
		}
		l := make([]float64, n)
		for i := range l {
			l[i] = dense.Dot(phi.Row(i), dphi.Row(i))
		}
		return l
	}
	// Coordinates where there are few, else random directions.
	directions := dense.Identity[float64](d)
	if d > 16 {
		directions = normals[float64](5, d, 13)
	}
	for k := range directions.Rows {
		dir := directions.Row(k)
		plus, minus := x.Clone(), x.Clone()
		for i := range n {
			for j, v := range dir {
				plus.Row(i)[j] += h * v
				minus.Row(i)[j] -= h * v
			}
		}
		a, b := loss(plus), loss(minus)
		for i := range n {
			want, got := (a[i]-b[i])/(2*h), dense.Dot(dx.Row(i), dir)
			if scale := 1 + math.Abs(want) + math.Abs(a[i]); !(math.Abs(got-want) <= 1e-6*scale) {
				t.Errorf("row %d, direction %d: derivative %v, differences give %v", i, k, got, want)
			}
		}
	}

	// Given features, one row at a time and a second run give the same.
	again := dense.New[float64](n, d)
	if err := side.scaled(phi, col, shift, x, &ws); err != nil {
		t.Fatal(err)
	}
	if err := side.vjp(again, dphi, phi, x, col, shift, nil, &ws); err != nil {
		t.Fatal(err)
	}
	for i, v := range again.Data {
		if math.Abs(v-dx.Data[i]) > 1e-11*(1+math.Abs(v)) {
			t.Errorf("element %d: %v with given features, %v without", i, v, dx.Data[i])
		}
	}
	one := dense.New[float64](1, d)
	for i := range n {
		r := func(a dense.Matrix[float64]) dense.Matrix[float64] { return a.RowRange(i, i+1) }
		if err := side.vjp(one, r(dphi), r(phi), r(x), col, shift[i:i+1], nil, &ws); err != nil {
			t.Fatal(err)
		}
		for j, v := range one.Data {
			if v != again.At(i, j) {
				t.Errorf("row %d column %d: %v alone, %v in a batch", i, j, v, again.At(i, j))
			}
		}
	}
	var err error
	if allocs := testing.AllocsPerRun(2, func() {
		err = side.vjp(dx, dphi, phi, x, col, shift, nil,
			&ws)
	}); allocs > 0 ||
		err != nil {
		t.Errorf("%v allocations with a warm workspace, error %v", allocs, err)
	}
}

// Float32 derivatives are near those of float64, relative to the largest of a row.
func TestVJPFloat32(t *testing.T) {
	for name, s := range mapCases(t) {
		m64, err := randfeat.New[float64](s)
		if err != nil {
			t.Fatal(err)
		}
		m32, err := randfeat.New[float32](s)
		if err != nil {
			t.Fatal(err)
		}
		const n = 300 // more than a block
		d, f := m64.InDim(), m64.OutDim()
		x32, g32 := rowsOfNorm[float32](n, d, 1.5, 14), normals[float32](n, f, 15)
		x, g := dense.Convert[float64](x32), dense.Convert[float64](g32)
		shift := make([]float64, n)
		if err := m64.Keys(dense.New[float64](n, f), shift, x, nil); err != nil {
			t.Fatal(err)
		}
		want, got := dense.New[float64](n, d), dense.New[float32](n, d)
		if err := m64.KeysVJP(want, g, dense.Matrix[float64]{}, x, columnScales[float64](f), shift, nil,
			nil); err != nil {
			t.Fatal(err)
		}
		if err := m32.KeysVJP(got, g32, dense.Matrix[float32]{}, x32, columnScales[float32](f), shift, nil,
			nil); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			top := math.Sqrt(dense.Norm2(want.Row(i)) + float64(f))
			for j, v := range got.Row(i) {
				if !(math.Abs(float64(v)-want.At(i, j)) <= 1e-4*top) {
					t.Errorf("%s row %d column %d: %v in float32, %v in float64", name, i, j, v, want.At(i, j))
				}
			}
		}
	}
}

// Derivatives by the parameters of DARK and LFK against differences of maps with changed parameters.
func TestParameterGradient(t *testing.T) {
	const d, r, n, m = 4, 3, 6, 5
	param := normals[float64](r, d, 21)
	w := normals[float64](m, d, 22)
	dark := func(base family.Family) func(dense.Matrix[float64]) family.Family {
		return func(p dense.Matrix[float64]) family.Family { return family.DARK{M: p, Base: base} }
	}
	adaptive := func() family.Family {
		s, err := randfeat.Fit(randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: family.Adaptive{},
			Dim: r},
			normals[float64](50, r, 23), normals[float64](50, r, 24))
		if err != nil {
			t.Fatal(err)
		}
		return s.Family
	}()
	kernels := map[string]kernel.Kernel{
		"softmax":  {Kind: kernel.Softmax, Scale: 1.7},
		"gaussian": {Kind: kernel.Gaussian},
		"matrix":   {Kind: kernel.Softmax, Scale: 1.2, M: normals[float64](d, d+1, 25)},
	}
	for name, c := range map[string]struct {
		at   dense.Matrix[float64]
		with func(dense.Matrix[float64]) family.Family
	}{
		"dark":            {param, dark(nil)},
		"dark-oprf":       {param, dark(family.OPRF{A: -0.05})},
		"dark-hyperbolic": {param, dark(family.Hyperbolic{})},
		"dark-adaptive":   {param, dark(adaptive)},
		"dark-dark":       {normals[float64](2, d, 26), dark(family.DARK{M: normals[float64](3, 2, 27)})},
		"lfk":             {w, func(p dense.Matrix[float64]) family.Family { return family.LFK{W: p} }},
	} {
		for kname, k := range kernels {
			t.Run(fmt.Sprintf("%s/%s", name, kname), func(t *testing.T) {
				dim := d
				if !k.M.IsEmpty() {
					dim = k.M.Cols
				}
				spec := randfeat.Spec{Kernel: k, Family: c.with(c.at), Dim: dim, M: m, Seed: 9}
				omega, err := randfeat.Draw(spec)
				if err != nil {
					t.Fatal(err)
				}
				x, y := rowsOfNorm[float64](n, dim, 0.8, 28), rowsOfNorm[float64](n, dim, 0.8, 29)
				shift := make([]float64, n)
				var a, b dense.Matrix[float64]
				build := func(p dense.Matrix[float64]) *randfeat.Map[float64] {
					s := spec
					s.Family = c.with(p)
					fm, err := randfeat.NewWithOmega[float64](s, omega)
					if err != nil {
						t.Fatal(err)
					}
					return fm
				}
				fm := build(c.at)
				f := fm.OutDim()
				a, b = normals[float64](n, f, 30), normals[float64](n, f, 31)
				col := columnScales[float64](f)
				loss := func(p dense.Matrix[float64]) float64 {
					fm := build(p)
					phi, l := dense.New[float64](n, f), 0.0
					if err := fm.QueriesScaled(phi, col, shift, x, nil); err != nil {
						t.Fatal(err)
					}
					l += dense.Dot(phi.Data, a.Data)
					if err := fm.KeysScaled(phi, nil, shift, y, nil); err != nil {
						t.Fatal(err)
					}
					return l + dense.Dot(phi.Data, b.Data)
				}
				// Two gradients, merged.
				g, err := fm.NewGrad()
				if err != nil {
					t.Fatal(err)
				}
				o, err := fm.NewGrad()
				if err != nil {
					t.Fatal(err)
				}
				dx := dense.New[float64](n, dim)
				none := dense.Matrix[float64]{}
				if err := errors.Join(fm.QueriesVJP(dx, a, none, x, col, shift, g, nil),
					fm.KeysVJP(dx, b, none, y, nil, shift, o,
						nil), g.Merge(o)); err != nil {
					t.Fatal(err)
				}
				got, err := g.Parameter()
				if err != nil {
					t.Fatal(err)
				}
				const h = 1e-5
				for i := range c.at.Rows {
					for j := range c.at.Cols {
						plus, minus := c.at.Clone(), c.at.Clone()
						plus.Row(i)[j] += h
						minus.Row(i)[j] -= h
						want := (loss(plus) - loss(minus)) / (2 * h)
						if !(math.Abs(got.At(i, j)-want) <= 1e-6*(1+math.Abs(want))) {
							t.Errorf("parameter %d,%d: derivative %v, differences give %v", i, j, got.At(i, j), want)
						}
					}
				}
			})
		}
	}
}

func TestVJPErrors(t *testing.T) {
	m, err := randfeat.New[float32](randfeat.Spec{Family: family.Positive{}, Dim: 3, M: 4})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.NewGrad(); !errors.Is(err, randfeat.ErrNoParameters) {
		t.Errorf("parameters of positive features: error %v", err)
	}
	spec := randfeat.Spec{Family: family.DARK{M: dense.Identity[float64](3), Base: family.Trig{}}, Dim: 3, M: 4}
	if trig, err := randfeat.New[float32](spec); err != nil {
		t.Fatal(err)
	} else if _, err := trig.NewGrad(); !errors.Is(err, randfeat.ErrNoParameters) {
		t.Errorf("parameters of dark with cosines: error %v", err)
	}
	spec.Family = family.DARK{M: dense.Identity[float64](3)}
	dark, err := randfeat.New[float32](spec)
	if err != nil {
		t.Fatal(err)
	}
	g, err := dark.NewGrad()
	if err != nil {
		t.Fatal(err)
	}
	other, err := randfeat.New[float32](spec.WithSeed(1))
	if err != nil {
		t.Fatal(err)
	}
	og, err := other.NewGrad()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Merge(og); !errors.Is(err, randfeat.ErrSpec) {
		t.Errorf("merging gradients of different maps: error %v", err)
	}
	x, dphi, shift := dense.New[float32](2, 3), dense.New[float32](2, 4), make([]float64, 2)
	none := dense.Matrix[float32]{}
	nan := x.Clone()
	nan.Data[1] = float32(math.Inf(1))
	for name, c := range map[string]struct{ got, want error }{
		"dx":         {m.KeysVJP(dense.New[float32](2, 2), dphi, none, x, nil, shift, nil, nil), dense.ErrShape},
		"dphi":       {m.KeysVJP(x.Clone(), dense.New[float32](1, 4), none, x, nil, shift, nil, nil), dense.ErrShape},
		"phi":        {m.KeysVJP(x.Clone(), dphi, dense.New[float32](1, 4), x, nil, shift, nil, nil), dense.ErrShape},
		"col":        {m.QueriesVJP(x.Clone(), dphi, none, x, make([]float32, 3), shift, nil, nil), dense.ErrShape},
		"shift":      {m.QueriesVJP(x.Clone(), dphi, none, x, nil, nil, nil, nil), dense.ErrShape},
		"not finite": {m.QueriesVJP(x.Clone(), dphi, none, nan, nil, shift, nil, nil), dense.ErrNotFinite},
		"grad":       {m.QueriesVJP(x.Clone(), dphi, none, x, nil, shift, g, nil), randfeat.ErrSpec},
		"fine":       {dark.QueriesVJP(x.Clone(), dphi, none, x, nil, shift, g, nil), nil},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: error %v, want %v", name, c.got, c.want)
		}
	}
}

// BenchmarkVJP compares the derivative of a map, given its features, with the map itself.
func BenchmarkVJP(b *testing.B) {
	const d, f, n = 64, 256, 128
	m, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Attention(d), Family: family.Positive{}, Dim: d, M: f,
		Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	x, dphi, shift := rowsOfNorm[float32](n, d, 3, 1), normals[float32](n, f, 2), make([]float64, n)
	phi, dx := dense.New[float32](n, f), dense.New[float32](n, d)
	ws := randfeat.Workspace[float32]{Workers: 1}
	b.Run(fmt.Sprintf("map/d=%d/m=%d", d, f), func(b *testing.B) {
		for b.Loop() {
			if err := m.KeysScaled(phi, nil, shift, x, &ws); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run(fmt.Sprintf("vjp/d=%d/m=%d", d, f), func(b *testing.B) {
		for b.Loop() {
			if err := m.KeysVJP(dx, dphi, phi, x, nil, shift, nil, &ws); err != nil {
				b.Fatal(err)
			}
		}
	})
}
