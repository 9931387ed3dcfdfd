package centroid

import (
	"testing"

	"github.com/randfeat/randfeat/internal/kern"
)

func tableOf(t testing.TB) *kern.Table[float32] {
	t.Helper()
	tab, err := kern.Chosen[float32]()
	if err != nil {
		t.Fatal(err)
	}
	return tab
}
