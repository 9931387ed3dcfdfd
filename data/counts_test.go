package data

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// The bounds of counts hold after merges.
func TestCountsMergeBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	all := map[string]int64{}
	const k = 50
	sum := newCounts(k)
	for range 37 {
		c := newCounts(k)
		for range 400 {
			content := someText(rng)
			all[content]++
			c.add([]byte(content))
		}
		sum.merge(c)
	}
	if sum.total != 37*400 || len(sum.of) > k || sum.lost > sum.total/(k+1) {
		t.Fatalf("%d texts, %d held, %d lost of at most %d", sum.total, len(sum.of), sum.lost, sum.total/(k+1))
	}
	for content, n := range all {
		held := int64(0)
		if c, ok := sum.of[content]; ok {
			held = *c
		}
		if held > n || held < n-sum.lost {
			t.Errorf("%s: %d, held %d, lost %d", content, n, held, sum.lost)
		}
	}
}

// someText is a text of thousands, some frequent.
func someText(rng *rand.Rand) string {
	if rng.IntN(2) == 0 {
		return fmt.Sprintf("h%d", rng.IntN(40))
	}
	return fmt.Sprintf("r%d", rng.IntN(100000))
}
