package centroid

import (
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
)

func tableOf[T dense.Float](t testing.TB) *kern.Table[T] {
	t.Helper()
	tab, err := kern.Chosen[T]()
	if err != nil {
		t.Fatal(err)
	}
	return tab
}
