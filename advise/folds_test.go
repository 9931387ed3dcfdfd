package advise

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

func normalRows(n, d int, seed uint64) dense.Matrix[float64] {
	m := dense.New[float64](n, d)
	rng.Normals(m.Data, rng.Stream(seed, 17))
	return m
}

// newStudy is a study of one set with the Gaussian kernel.
func newStudy(t *testing.T, q dense.Matrix[float64], o Options) *study {
	t.Helper()
	o, err := o.complete(q.Cols)
	if err != nil {
		t.Fatal(err)
	}
	s := &study{Options: o, dim: q.Cols, oneSet: true}
	if err := s.divide(q, q); err != nil {
		t.Fatal(err)
	}
	return s
}

// The statistics of a fold are those of the rows outside of it, and landmarks are such rows: errors are never measured
// on rows of the fit.
func TestFoldsMeasureRowsThatNoFitHasSeen(t *testing.T) {
	const n, d = 60, 3
	q := normalRows(n, d, 1)
	s := newStudy(t, q, Options{Seed: 5})
	if len(s.folds) != fewFolds {
		t.Fatalf("%d folds", len(s.folds))
	}
	measured := 0
	for i, f := range s.folds {
		measured += f.x.Rows
		if got := f.stats.Query.N(); got != n-f.x.Rows {
			t.Errorf("fold %d of %d rows is fitted to %d of %d", i, f.x.Rows, got, n)
		}
		mean := f.stats.Query.Mean()
		for c := range d {
			var all, own float64
			for r := range n {
				all += q.At(r, c)
			}
			for r := range f.x.Rows {
				own += f.x.At(r, c)
			}
			if want := (all - own) / float64(n-f.x.Rows); math.Abs(mean[c]-want) > 1e-12 {
				t.Errorf("fold %d: mean %v of column %d, that of the other rows is %v", i, mean[c], c, want)
			}
		}
		marks, err := s.fitLandmarks(i, 8, 0)
		if err != nil {
			t.Fatal(err)
		}
		rows := marks.(family.Nystrom).Rows
		for a := range rows.Rows {
			for b := range f.x.Rows {
				if slices.Equal(rows.Row(a), f.x.Row(b)) {
					t.Errorf("fold %d: row %d is a landmark", i, b)
				}
			}
		}
	}
	if measured != n {
		t.Errorf("%d of %d rows are measured", measured, n)
	}
}

// Within one set no row meets itself: κ(x, x) = 1 is known, and trigonometric features have it without error.
func TestRowsDoNotMeetThemselves(t *testing.T) {
	q := normalRows(40, 3, 2)
	s := newStudy(t, q, Options{Seed: 5})
	e := &entrant{variety: &variety{name: "trig", fitted: slices.Repeat([]family.Family{family.Trig{}}, len(s.folds))},
		coupling: coupling.IID{}, features: 16, m: 8}
	if err := s.more(context.Background(), []*entrant{e}, len(s.folds)); err != nil {
		t.Fatal(err)
	}
	var errors []float64 // sums of squares, by fold
	squares, pairs := 0.0, 0.0
	for i, f := range s.folds {
		spec, err := e.drawn(s, i)
		if err != nil {
			t.Fatal(err)
		}
		m, err := randfeat.New[float64](spec)
		if err != nil {
			t.Fatal(err)
		}
		n := f.x.Rows
		got, exact := dense.New[float64](n, n), dense.New[float64](n, n)
		if err := m.Gram(got, f.x, f.x, nil); err != nil {
			t.Fatal(err)
		}
		if err := kernel.Gram(kernel.Kernel{}, exact, f.x, f.x); err != nil {
			t.Fatal(err)
		}
		errors = append(errors, 0)
		for a := range n {
			for b := range n {
				if a != b {
					errors[i] += math.Pow(got.At(a, b)-exact.At(a, b), 2)
					squares += math.Pow(exact.At(a, b), 2)
					pairs++
				}
			}
		}
	}
	for i, sum := range errors { // folds are of one size; the kernel's mean square is over all of them
		want := sum / (pairs / float64(len(errors))) / (squares / pairs)
		if math.Abs(e.draws[i].square-want) > 1e-9*want {
			t.Errorf("fold %d: mean squared error %v, over pairs of different rows %v", i, e.draws[i].square, want)
		}
	}
}
