package coupling_test

import (
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/rng"
)

// The same source gives the same normals as internal/rng: iid rows are the raw stream.
func TestIIDIsTheStream(t *testing.T) {
	o, err := coupling.IID{}.Sample(3, 4, coupling.Law{}, rng.Stream(20))
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float64, 12)
	rng.Normals(want, rng.Stream(20))
	if !slices.Equal(o.Rows.Data, want) {
		t.Errorf("got %v, want %v", o.Rows.Data, want)
	}
	if o.Fast != nil {
		t.Error("iid rows have a fast product")
	}
}

func TestIIDSphereInOneDimension(t *testing.T) {
	o, err := coupling.IID{}.Sample(100, 1, coupling.Law{Kind: coupling.Sphere, Param: 3}, rng.Stream(21))
	if err != nil {
		t.Fatal(err)
	}
	plus := 0
	for i := range o.Rows.Rows {
		v := o.Rows.At(i, 0)
		if math.Abs(math.Abs(v)-3) > 1e-15 {
			t.Errorf("row %v on the sphere {−3, 3}", v)
		}
		if v > 0 {
			plus++
		}
	}
	if plus < 25 || plus > 75 { // 5 standard deviations
		t.Errorf("%d of 100 signs positive", plus)
	}
}
