package forms

import (
	"math"
	"testing"
)

// The values in this file were computed with mpmath at 80 digits from the
// definitions (CRT eq 6; ORF eq 11).

func TestGERFReference(t *testing.T) {
	for _, c := range []struct {
		d    int
		a    complex128
		s    int
		v2   float64
		want float64
	}{
		{8, complex(0.0, 0.0001), 1, 1e-06, -13.815509979563996484},
		{8, complex(0.0, 0.0001), -1, 1e-06, -27.011306027986084574},
		{1, complex(0.0, 1e-07), -1, 1e-14, -58.879531689884961654},
		{64, complex(1e-05, -2e-05), -1, 1e-09, -16.787766893917705543},
		{64, complex(0.1, 0.3), -1, 2.0, 79.034447159197819228},
		{512, complex(-1e-06, 0.001), -1, 0.001, -11.238478118944024953},
		{3, complex(-2.0, 5.0), 1, 0.1, 4.3633230987402073025},
		{4, complex(0.12, 0.01), -1, 0.0001, 3.025345797892635932},
	} {
		if got := LogRVGERF(c.d, c.a, c.s, c.v2); math.Abs(got-c.want) > 1e-13*math.Abs(c.want) {
			t.Errorf("%+v: %.17g", c, got)
		}
	}
}

func TestORFPrimeReference(t *testing.T) {
	for _, c := range []struct {
		d, p    int
		z, want float64
	}{
		{2, 2, 1.9, -6.4399318694639456444},
		{2, 3, 0.1, -14.874967475269878587},
		{7, 7, 0.01, -51.476776598735211403},
		{64, 64, 11.3, -6.5032982402740865403},
		{64, 64, 11.4, -6.4616174878315346144},
		{512, 512, 31.9, -8.5321514622814130445},
		{512, 600, 32.1, -8.3856762230476345976},
		{4096, 4096, 1.0, -44.770788679174120306},
		{4096, 4096, 90.4, -10.595816390717920308},
		{4096, 4096, 90.6, -10.585779507245547842},
		{4096, 4096, 300.0, -9.0109134770904054523},
		{1001, 500, 44.7, -7.6494449396575409311},
		{1001, 1001, 44.8, -9.1786461663738960909},
		{3, 3, 50.0, -1.7417108470463383947},
	} {
		// Past z² = 2d eq 11 cancels to 1/d of its terms at p = d.
		tol := 1e-13 + 1e-14*float64(c.d)
		if got := LogVarORFPrime(c.d, c.p, c.z); math.Abs(got-c.want) > tol {
			t.Errorf("%+v: %.17g (%.1e)", c, got, got-c.want)
		}
	}
}
