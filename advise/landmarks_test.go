package advise

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// Within one set Nyström features take part, marked as biased. On rows of few directions they are far better than
// random features, on rows that no landmark was drawn from.
func TestNystromIsRanked(t *testing.T) {
	ctx := context.Background()
	q, none := rows(200, 6, 1, falling), dense.Matrix[float64]{}
	o := Options{Kernel: kernel.Kernel{Kind: kernel.Gaussian, Scale: 2}, Features: 32, Rows: 32, Draws: 16,
		Seed:     1,
		Families: []string{"nystrom", "trig", "residual"}, Couplings: []string{"iid", "orthogonal"}}
	r, err := Kernel(ctx, q, none, o)
	if err != nil {
		t.Fatal(err)
	}
	got := r.Ranking[r.Best]
	other := r.Ranking[slices.IndexFunc(r.Ranking, func(c Candidate) bool { return !c.Biased })]
	if got.Name != "nystrom" || !got.Biased || got.Features != 32 || got.Error > other.Error/3 {
		t.Fatalf("recommended %+v, best of the others %+v", got, other)
	}
	if other.Draws < 8 {
		t.Errorf("the best unbiased map has %d draws", other.Draws)
	}
	if text := strings.Join(r.Reasons, "\n"); !strings.Contains(text, "biased and fitted to your rows") ||
		!strings.Contains(text, "The best unbiased map is "+other.Name) {
		t.Errorf("reasons:\n%s", text)
	}
	// The recommended map is the one that the error is of.
	if f, ok := r.Spec.Family.(family.Nystrom); !ok || f.Rows.Rows != 32 {
		t.Errorf("spec %+v", r.Spec)
	}
	if !strings.Contains(r.Code, "family.Nystrom{N: 32") ||
		!strings.Contains(r.Code, "randfeat.Fit(spec, rows, rows)") {
		t.Errorf("code:\n%s", r.Code)
	}
	if _, err := randfeat.New[float32](*r.Spec); err != nil {
		t.Error(err)
	}
	fresh, err := r.Fresh(ctx, r.Best, q, none, rows(300, 6, 5, falling), none, o)
	if got.High != 0 {
		t.Errorf("an interval of %v to %v, although draws share their training rows", got.Low, got.High)
	}
	if err != nil || fresh > 1.5*got.Error || fresh < got.Error/1.5 {
		t.Errorf("error %v on fresh rows, stated %v: %v", fresh, got.Error, err)
	}
	// The error of landmarks on their own rows would be far smaller.
	own, err := r.Fresh(ctx, r.Best, q, none, q, none, o)
	if err != nil || own > got.Error {
		t.Errorf("error %v on the rows of the fit, %v on others: %v", own, got.Error, err)
	}
	o.Brief = true
	for name, change := range map[string]func(o *Options) dense.Matrix[float64]{
		"unbiased": func(o *Options) dense.Matrix[float64] { o.Unbiased = true; return none },
		"positive": func(o *Options) dense.Matrix[float64] {
			o.Positive, o.Families = true, []string{"nystrom", "positive"}
			return none
		},
		"two sets": func(*Options) dense.Matrix[float64] { return rows(200, 6, 2, falling) },
	} {
		o := o
		k := change(&o)
		r, err := Kernel(ctx, q, k, o)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(r.Ranking, func(c Candidate) bool { return c.Biased }) {
			t.Errorf("%s: Nyström features take part", name)
		}
	}
}

// At equal time a cheap map has more features. The recommended map is compared with itself.
func TestEqualTime(t *testing.T) {
	o := Options{Features: 32, Rows: 32, Draws: 8, Seed: 1, Unbiased: true,
		Families: []string{"residual", "trig"}, Couplings: []string{"iid"}}
	r, err := Kernel(context.Background(), rows(100, 4, 1, flat(0.15)), dense.Matrix[float64]{}, o)
	if err != nil {
		t.Fatal(err)
	}
	best := r.Ranking[r.Best]
	if best.Name != "residual, iid" || len(r.Ranking) != 2 {
		t.Fatalf("%+v", r.Ranking)
	}
	for _, c := range r.Ranking {
		if c.EqualTime == nil {
			t.Fatalf("%s has no error at equal time", c.Name)
		}
		cost := c.Cost * float64(c.EqualTime.Features) / float64(c.Features)
		if cost > 1.01*best.Cost || cost < 0.9*best.Cost && c.EqualTime.Features < 16*r.Features {
			t.Errorf("%s: %d features cost %.0f ns, the recommended map %.0f", c.Name, c.EqualTime.Features, cost,
				best.Cost)
		}
	}
	cheap := r.Ranking[1-r.Best]
	if cheap.EqualTime.Features < 4*cheap.Features || cheap.EqualTime.Error > cheap.Error {
		t.Errorf("trigonometric features: %+v, at equal time %+v", cheap, *cheap.EqualTime)
	}
}
