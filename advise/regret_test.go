package advise

import (
	"context"
	"testing"
)

// Regret tells a good recommendation from a bad one.
func TestRegret(t *testing.T) {
	ctx := context.Background()
	q, k := rows(120, 8, 1, falling), rows(120, 8, 2, falling)
	freshQ, freshK := rows(40, 8, 3, falling), rows(40, 8, 4, falling)
	o := Options{Kernel: small.Kernel, Features: 32, Rows: 32, Draws: 16, Seed: 1, Brief: true,
		Families: []string{"positive", "oprf", "adaptive"}, Couplings: []string{"iid", "orthogonal", "simplex"}}
	r, err := Kernel(ctx, q, k, o)
	if err != nil {
		t.Fatal(err)
	}
	good, err := r.Regret(ctx, q, k, freshQ, freshK, o)
	if err != nil || good.Factor > 1.1 || good.Error < good.Least/1.1 {
		t.Errorf("regret %+v, %v", good, err)
	}
	r.Best = len(r.Ranking) - 1
	bad, err := r.Regret(ctx, q, k, freshQ, freshK, o)
	if err != nil || bad.Factor < 1.2 || bad.Name != r.Ranking[r.Best].Name || bad.Best != good.Best {
		t.Errorf("the last of the ranking: %+v, %v", bad, err)
	}
}
