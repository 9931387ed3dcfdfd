package advise

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/attention"
	modelheads "github.com/randfeat/randfeat/internal/heads"
)

// Heads with the statistics of real ones: no features reach an error of 0.1, centroids do (docs/attention.md).
func TestAttention(t *testing.T) {
	q, k, v := modelheads.Generate[float32](3, 192, 16, 1)
	o := Options{Features: 64, Rows: 32, Draws: 16, Seed: 1, Couplings: []string{"orthogonal"}}
	var want []byte
	for _, threads := range []int{1, 4} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
		r, err := Attention(context.Background(), attention.Visibility{}, q, k, v, o)
		if err != nil {
			t.Fatal(err)
		}
		a := r.Attention
		if len(a.Heads) != 3 || len(a.Choice.Heads) != 3 || len(a.Rows) != 5 {
			t.Fatalf("%+v", a)
		}
		if features := a.Rows[2].Median; features < 0.1 || a.Rows[4].Median > 0.1 || a.Rows[4].Cost >= a.Rows[0].Cost {
			t.Errorf("methods %+v", a.Rows)
		}
		if !strings.Contains(strings.Join(r.Reasons, "\n"), "Chosen head by head") {
			t.Errorf("reasons %q", r.Reasons)
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = b
		} else if string(want) != string(b) {
			t.Errorf("another report with %d threads", threads)
		}
	}
	// Costs of the model must not depend on the machine, measured ones do: the choice is then by seconds.
	o.Brief = true
	for _, costs := range []Costs{costModel, costMeasured} {
		o.Costs = costs
		r, err := Attention(context.Background(), attention.Visibility{}, q, k, v, o)
		if err != nil {
			t.Fatal(err)
		}
		if c := r.Attention.Choice; (c.Rates != nil) != (costs == costMeasured) {
			t.Errorf("%s costs: rates %+v", costs, c.Rates)
		}
	}
	o.Costs = ""
	o.Target = 2
	if _, err := Attention(context.Background(), attention.Visibility{}, q, k, v, o); !errors.Is(err,
		ErrOptions) {
		t.Errorf("an error of 2: %v", err)
	}
	o.Target = 0
	short := q
	short.Len = 4
	if _, err := Attention(context.Background(), attention.Visibility{}, short, short, short, o); !errors.Is(err,
		errRows) {
		t.Errorf("four rows: %v", err)
	}
}
