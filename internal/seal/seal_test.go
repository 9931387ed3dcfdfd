package seal_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/internal/seal"
)

var format = seal.Format{Magic: "seal test\n", Version: 3, Counts: 2}

func record(before []byte) []byte {
	b := format.Begin(before, seal.Header{Flag: 7, Fingerprint: [32]byte{1, 2}, Counts: []uint64{5, 6}})
	b = seal.Append(b, 1.5, math.Inf(-1))
	b = seal.Append(b, float32(-2.25))
	return seal.Close(b, len(before))
}

func TestRoundTrip(t *testing.T) {
	b := record([]byte("before"))[len("before"):]
	if len(b) != format.Size(20) {
		t.Errorf("%d bytes, Size says %d", len(b), format.Size(20))
	}
	h, body, err := format.Open(b)
	if err != nil {
		t.Fatal(err)
	}
	if h.Flag != 7 || h.Fingerprint != [32]byte{1, 2} || !slices.Equal(h.Counts, []uint64{5, 6}) {
		t.Errorf("header %+v", h)
	}
	ok, x, y := true, make([]float64, 2), make([]float32, 1)
	rest := seal.ReadLogs(body, x, &ok)
	rest = seal.Read(rest, y, &ok)
	if !ok || len(rest) != 0 || x[0] != 1.5 || !math.IsInf(x[1], -1) || y[0] != -2.25 {
		t.Errorf("%v %v, %d bytes left, ok %v", x, y, len(rest), ok)
	}
	if seal.Read(body, x, &ok); ok {
		t.Error("−Inf passed as a finite number")
	}
}

// Every bit counts: a record with any one changed is refused, and so is every shorter one.
func TestDamageIsRefused(t *testing.T) {
	good := record(nil)
	for i := range 8 * len(good) {
		b := slices.Clone(good)
		b[i/8] ^= 1 << (i % 8)
		if _, _, err := format.Open(b); !errors.Is(err, seal.ErrCorrupt) {
			t.Fatalf("bit %d changed: error %v", i, err)
		}
	}
	for n := range good {
		if _, _, err := format.Open(good[:n]); !errors.Is(err, seal.ErrCorrupt) {
			t.Fatalf("cut to %d bytes: error %v", n, err)
		}
	}
	other := format
	other.Version++
	if _, _, err := other.Open(good); !errors.Is(err, seal.ErrCorrupt) {
		t.Errorf("another version: error %v", err)
	}
	huge := format.Begin(nil, seal.Header{Counts: []uint64{0, math.MaxInt64}})
	if _, _, err := format.Open(seal.Close(huge, 0)); !errors.Is(err, seal.ErrCorrupt) {
		t.Errorf("a huge count: error %v", err)
	}
}
