package machine

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/stattest"
)

func asColumn(v []float64) dense.Matrix[float64] {
	return dense.Matrix[float64]{Rows: len(v), Cols: 1, Stride: 1, Data: v}
}

// TestPairedIntervalsCover: two models share most of the error of a row, z. With errors z + u/2 and z + 4v/5 of normal
// z, u and v mean squares are 1.25 and 1.64, mean absolute errors √(2/π) times their roots. Intervals must hold the
// truth 95 % of the time, and be narrower than what the two scores alone would tell.
func TestPairedIntervalsCover(t *testing.T) {
	stattest.SkipRace(t)
	const runs = 1500
	rng := rand.New(rand.NewPCG(1, 2))
	ra, rb := math.Sqrt(1.25), math.Sqrt(1.64)
	truth := map[string]float64{"RMSE": rb - ra, "MAE": math.Sqrt(2/math.Pi) * (rb - ra), "R²": -(1.64 - 1.25) / 9}
	for _, n := range []int{30, 200} {
		held, width, alone := map[string]int{}, 0.0, 0.0
		for range runs {
			y, a, b := make([]float64, n), make([]float64, n), make([]float64, n)
			for i := range y {
				z := rng.NormFloat64()
				y[i] = 3 * rng.NormFloat64()
				a[i], b[i] = y[i]+z+rng.NormFloat64()/2, y[i]+z+0.8*rng.NormFloat64()
			}
			la, _ := NewLosses(Regression, 1)
			lb, _ := NewLosses(Regression, 1)
			if err := errors.Join(la.Add(asColumn(y), asColumn(a)), lb.Add(asColumn(y), asColumn(b))); err != nil {
				t.Fatal(err)
			}
			d, err := la.Differences(lb)
			if err != nil || len(d) != 3 {
				t.Fatal(err, d)
			}
			for _, s := range d {
				if s.Score.Low <= truth[s.Score.Name] && truth[s.Score.Name] <= s.Score.High {
					held[s.Score.Name]++
				}
			}
			width += (d[0].Score.High - d[0].Score.Low) / runs
			var ma, mb moments
			for i := range y {
				ma.add((a[i] - y[i]) * (a[i] - y[i]) / (2 * ra))
				mb.add((b[i] - y[i]) * (b[i] - y[i]) / (2 * rb))
			}
			alone += 2 * 1.96 * math.Hypot(ma.standardError(), mb.standardError()) / runs
		}
		for name, k := range held {
			// 1500 runs have a standard error of 0.006 around 0.95.
			if share := float64(k) / runs; share < 0.92 || share > 0.99 {
				t.Errorf("%d rows: %s held %.3f of the time", n, name, share)
			}
		}
		if n >= 100 && width > 0.85*alone {
			t.Errorf("%d rows: paired intervals %.3f wide, of two scores alone %.3f", n, width, alone)
		}
	}
}

func TestPairedAccuracyCovers(t *testing.T) {
	stattest.SkipRace(t)
	const runs = 1000
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		n           int
		hard, extra float64 // both are wrong; the first alone is
	}{{40, 0.1, 0.1}, {200, 0.1, 0.05}, {200, 0.02, 0.01}, {400, 0.2, 0}} {
		held := 0
		for range runs {
			y, a, b := make([]float64, c.n), dense.New[float64](c.n, 2), dense.New[float64](c.n, 2)
			for i := range y {
				u := rng.Float64()
				wrongA, wrongB := u < c.hard+c.extra, u < c.hard
				if rng.Float64() < 0.03 { // each has mistakes of its own
					wrongA, wrongB = rng.IntN(2) == 0, rng.IntN(2) == 0
				}
				for _, m := range []struct {
					to    dense.Matrix[float64]
					wrong bool
				}{{a, wrongA}, {b, wrongB}} {
					m.to.Set(i, 0, 0.8)
					m.to.Set(i, 1, 0.2)
					if m.wrong {
						m.to.Set(i, 0, 0.2)
						m.to.Set(i, 1, 0.8)
					}
				}
			}
			la, _ := NewLosses(Classification, 2)
			lb, _ := NewLosses(Classification, 2)
			if err := errors.Join(la.Add(asColumn(y), a), lb.Add(asColumn(y), b)); err != nil {
				t.Fatal(err)
			}
			d, err := la.Differences(lb)
			if err != nil || len(d) != 3 {
				t.Fatal(err)
			}
			if s := d[0].Score; s.Low <= 0.97*c.extra && 0.97*c.extra <= s.High {
				held++
			}
		}
		if share := float64(held) / runs; share < 0.93 {
			t.Errorf("%+v: held %.3f of the time", c, share)
		}
	}
}

func TestDifferencesSay(t *testing.T) {
	n := 200
	y, a, b := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range y {
		y[i] = float64(i)
		a[i], b[i] = y[i]+1+float64(i%3), y[i]+0.1*float64(i%2)
	}
	la, _ := NewLosses(Regression, 1)
	lb, _ := NewLosses(Regression, 1)
	if err := errors.Join(la.Add(asColumn(y), asColumn(a)), lb.Add(asColumn(y), asColumn(b))); err != nil {
		t.Fatal(err)
	}
	for swap, want := range map[bool]string{false: "second", true: "first"} {
		first, second := la, lb
		if swap {
			first, second = lb, la
		}
		d, err := first.Differences(second)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range d {
			if s.Better != want {
				t.Errorf("%s: %q is better, want %q", s.Score.Name, s.Better, want)
			}
		}
	}
	short, _ := NewLosses(Regression, 1)
	if _, err := la.Differences(short); !errors.Is(err, ErrMismatch) {
		t.Error(err)
	}
	if _, err := short.Differences(short); !errors.Is(err, ErrNoRows) {
		t.Error(err)
	}
	if _, err := NewLosses(Unsupervised, 1); !errors.Is(err, ErrSetup) {
		t.Error(err)
	}
	classes, _ := NewLosses(Classification, 2)
	if err := classes.Add(asColumn([]float64{2}), dense.New[float64](1, 2)); !errors.Is(err, ErrClass) {
		t.Error(err)
	}
	if err := classes.Add(asColumn([]float64{0}), dense.New[float64](1, 3)); !errors.Is(err, dense.ErrShape) {
		t.Error(err)
	}
}
