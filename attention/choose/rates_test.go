package choose

import (
	"encoding/json"
	"errors"
	"flag"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/heads"
)

// With rates, plans are ranked by seconds: exact attention is chosen where it is predicted to be faster, the same call
// with cheaper centroids chooses those, and a saved choice has the rates that make it again.
func TestChooseBySeconds(t *testing.T) {
	q, k, v := heads.Generate[float32](2, 256, 32, 1)
	slow := &Rates{Exact: 1e-9, Features: 1e-9, Centroid: 1e-9, Top: 1e-9, Token: 128e-9}
	fast := &Rates{Exact: 1e-9, Features: 1e-9, Centroid: 1e-9, Top: 1e-9}
	for _, c := range []struct {
		rates *Rates
		exact bool
	}{{slow, true}, {fast, false}} {
		got, err := Choose(Options{Tol: 0.3, Rates: c.rates}, attention.Visibility{}, 0, q, k, v)
		must(t, err)
		for h, p := range got.Heads {
			if (p.Method == Exact) != c.exact || p.Seconds != c.rates.Seconds(p.Plan, false, 256, 32, 32) ||
				p.Seconds > 128e-9 {
				t.Errorf("rates %+v, head %d: %v, %v s", *c.rates, h, p.Plan, p.Seconds)
			}
		}
		b, err := json.Marshal(got)
		must(t, err)
		saved := new(Choice)
		must(t, json.Unmarshal(b, saved))
		again, err := Choose(Options{Tol: 0.3, Rates: saved.Rates}, attention.Visibility{}, 0, q, k, v)
		must(t, err)
		if !reflect.DeepEqual(got, again) {
			t.Errorf("%+v, from saved rates %+v", got, again)
		}
	}
	// Without rates Choose measures them, unless it goes by cost or has a budget, which is a cost.
	for _, c := range []struct {
		o        Options
		measured bool
	}{{Options{Tol: 0.3}, true}, {Options{Tol: 0.3, ByCost: true}, false}, {Options{Budget: 40}, false}} {
		got, err := Choose(c.o, attention.Visibility{}, 0, q, k, v)
		must(t, err)
		if (got.Rates != nil) != c.measured || (got.Seconds() > 0) != c.measured {
			t.Errorf("%+v: rates %+v, %v s", c.o, got.Rates, got.Seconds())
		}
	}
	// A budget is spent alike where rates say that exact attention is faster than all centroids.
	plain, err := Choose(Options{Budget: 40}, attention.Visibility{}, 0, q, k, v)
	must(t, err)
	rated, err := Choose(Options{Budget: 40, Rates: slow}, attention.Visibility{}, 0, q, k, v)
	must(t, err)
	for h := range plain.Heads {
		if !reflect.DeepEqual(rated.Heads[h].Plan, plain.Heads[h].Plan) || rated.Heads[h].Seconds == 0 {
			t.Errorf("head %d: %v, %v s, want %v", h, rated.Heads[h].Plan, rated.Heads[h].Seconds, plain.Heads[h].Plan)
		}
	}
	visits := Rates{Exact: 1, Visit: 3}
	if got := visits.Seconds(Plan{Method: Centroid, Centroid: centroid.PerQuery{Clusters: 8, Top: 2}}, false, 64, 8,
		8); got != 6 {
		t.Errorf("two clusters at 3 s: %v", got)
	}
	if _, err := Choose(Options{ByCost: true, Rates: slow}, attention.Visibility{}, 0, q, k, v); !errors.Is(err,
		ErrChoice) {
		t.Error(err)
	}
	for _, r := range []Rates{{}, {Exact: 1, Token: math.NaN()}, {Exact: 1, Features: -1}} {
		_, err := Choose(Options{Rates: &r}, attention.Visibility{}, 0, q, k, v)
		if !errors.Is(err, ErrChoice) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// Rates solve for what they are measured by, a process measures them once, and all methods can be measured.
func TestMeasureRates(t *testing.T) {
	points := []ratesPoint{{512, 256, 0, 0}, {192, 64, 0, 0}, {700, 50, 50, 0}, {1200, 150, 150, 0},
		{450 + 500 + 560 + 33, 180, 100, 3}, {450 + 600 + 700 + 220, 220, 120, 20}}
	want := Rates{Exact: 2, Features: 3, Centroid: 5, Top: 7, Visit: 11, Token: 450}
	if got := ratesOf(points); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	points[5].seconds = 0 // noise that no positive rates explain
	if got := ratesOf(points); !got.valid() || got.Visit != 0 || got.Top == 0 {
		t.Errorf("%+v", got)
	}
	for _, causal := range []bool{false, true} {
		q := attention.Shape{Batch: 1, Heads: 6, Len: 100, Dim: 8}
		k, v := q, q
		k.Heads, v.Heads, v.Dim = 2, 2, 4
		r, err := MeasureRates(causal, q, k, v)
		must(t, err)
		again, err := MeasureRates(causal, q, k, v)
		must(t, err)
		k.Heads = 4
		if _, err := MeasureRates(causal, q, k, v); !errors.Is(err, dense.ErrShape) {
			t.Errorf("6 query heads on 4: %v", err)
		}
		if !r.valid() || *r != *again {
			t.Errorf("%+v, then %+v", *r, *again)
		}
	}
}

var seconds = flag.Bool("seconds", false, "compare predicted and measured seconds of the methods; a minute")

// TestPredictedSeconds prints predicted and measured microseconds per token and head of every method, and of the
// choices by seconds and by cost: the tables of docs/attention-measured.md. Times of a busy machine vary, those of one
// line less so: they are taken in turns with exact attention, and the last column compares the two ratios.
func TestPredictedSeconds(t *testing.T) {
	if !*seconds {
		t.Skip("run it with -seconds")
	}
	const n, tol = 2, 0.1
	for _, dim := range []int{32, 64} {
		for _, causal := range []bool{false, true} {
			vis := attention.Visibility{Causal: causal}
			for _, length := range []int{512, 2048, 8192} {
				shape := attention.Shape{Batch: 1, Heads: n, Len: length, Dim: dim}
				rates, err := MeasureRates(causal, shape, shape, shape)
				must(t, err)
				q, k, v := heads.Generate[float32](n, length, dim, 7)
				out := attention.NewSeq[float32](1, n, length, dim)
				exact, err := Use(Plan{Method: Exact}, vis, 0, q, k, v)
				must(t, err)
				report := func(name string, c *Choice) {
					var predicted float64
					for _, h := range c.Heads {
						predicted += rates.Seconds(h.Plan, causal, length, dim, dim) / n
					}
					whole := rates.Seconds(Plan{Method: Exact}, causal, length, dim, dim)
					var best [2]float64
					for start, round := time.Now(), 0; round < 3 ||
						round < 20 && time.Since(start) < 200*time.Millisecond; round++ {
						for i, c := range []*Choice{c, exact} {
							a, err := New(c)
							must(t, err)
							a.Visibility = vis
							from := time.Now()
							_, err = a.Forward(out, q, k, v)
							must(t, err)
							if s := time.Since(from).Seconds() / float64(n*length); round == 0 || s < best[i] {
								best[i] = s
							}
						}
					}
					t.Logf("| %d | %t | %d | %s | %.2f | %.2f | %.2f | %.2f |", dim, causal, length, name,
						1e6*predicted, 1e6*best[0], predicted/best[0], predicted/whole/(best[0]/best[1]))
				}
				report("exact", exact)
				all := grid(causal, 0, 1, length, dim, 1)
				centroids := len(all) - len(featureCounts)
				for _, at := range []int{0, centroids / 2, centroids - 2, len(all) - 1} {
					c, err := Use(all[at], vis, 0, q, k, v)
					must(t, err)
					report(all[at].String(), c)
				}
				q, k, v = heads.Generate[float32](n, length, dim, 8)
				for _, o := range []Options{{Tol: tol, Rates: rates}, {Tol: tol, ByCost: true}} {
					c, err := Choose(o, vis, 0, q, k, v)
					must(t, err)
					name := "chosen by seconds"
					if o.ByCost {
						name = "chosen by cost"
					}
					for h := range c.Heads {
						name += "; " + c.Heads[h].Plan.String()
					}
					report(name, c)
				}
			}
		}
	}
}
