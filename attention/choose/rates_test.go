package choose

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/heads"
)

// With rates, plans are ranked by seconds: exact attention is chosen where it is predicted to be faster, the same call
// with cheaper centroids chooses those, and a saved choice has the rates that make it again.
func TestChooseBySeconds(t *testing.T) {
	q, k, v := heads.Generate[float32](2, 1024, 32, 1)
	slow := &Rates{Exact: 1e-9, Features: 1e-9, Dense: 1e-9, Group: 512e-9}
	fast := &Rates{Exact: 1e-9, Features: 1e-10, Dense: 1e-10}
	for _, c := range []struct {
		rates *Rates
		exact bool
	}{{slow, true}, {fast, false}} {
		got, err := Choose(Options{Tol: 0.3, Rates: c.rates}, attention.Visibility{}, 0, q, k, v)
		must(t, err)
		for h, p := range got.Heads {
			if (p.Method == Exact) != c.exact || p.Seconds != c.rates.Seconds(p.Plan, false, 1024, 32, 32) ||
				p.Seconds > 512e-9 {
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
	q, k, v = cut(q, 0, 256), cut(k, 0, 256), cut(v, 0, 256)
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
	if _, err := Choose(Options{ByCost: true, Rates: slow}, attention.Visibility{}, 0, q, k, v); !errors.Is(err,
		ErrChoice) {
		t.Error(err)
	}
	for _, r := range []Rates{{}, {Exact: 1, Group: math.NaN()}, {Exact: 1, Features: -1}} {
		_, err := Choose(Options{Rates: &r}, attention.Visibility{}, 0, q, k, v)
		if !errors.Is(err, ErrChoice) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// Rates solve for what they are measured by, a process measures them once, and all methods can be measured.
func TestMeasureRates(t *testing.T) {
	points := [4]ratesPoint{{512, 256}, {192, 64}, {5, 10}, {9, 18}}
	if got, want := ratesOf(points), (Rates{Exact: 2, Features: 3, Dense: 0.5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	points[2].seconds = 7
	if got, want := ratesOf(points), (Rates{Exact: 2, Features: 3, Dense: 0.25, Group: 4.5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	points[3].seconds = 0 // noise that no positive rates explain
	if got := ratesOf(points); !got.valid() || got.Dense <= 0 {
		t.Errorf("%+v", got)
	}
	old := `{"exact":1,"features":2,"centroid":3,"top":4,"visit":5,"token":6,"dense":7,"group":8}`
	var read Rates
	if err := json.Unmarshal([]byte(old), &read); err != nil || read != (Rates{1, 2, 7, 8}) {
		t.Errorf("rates of an earlier version: %+v, %v", read, err)
	}
	if err := json.Unmarshal([]byte(`{"exact":1,"Dense":7}`), &read); !errors.Is(err, ErrChoice) {
		t.Errorf("a field of another name: %v", err)
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
