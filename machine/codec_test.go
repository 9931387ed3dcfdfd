package machine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/seal"
	"github.com/randfeat/randfeat/internal/stattest"
)

// codec is one kind of sums with a setup.
type codec struct {
	kind  Kind
	setup Setup
}

func (c codec) read(s Setup, b []byte) (Sums, error) { return unmarshalSums(c.kind, s, b) }

func unmarshalSums(k Kind, s Setup, b []byte) (Sums, error) {
	a, err := NewSums(k, s)
	if err != nil {
		return nil, err
	}
	return a, a.Read(bytes.NewReader(b), int64(len(b)))
}

// codecs are all kinds that have sums with all their tasks, in both precisions, with features of one sign and of both.
func codecs() map[string]codec {
	all := map[string]codec{}
	for _, k := range kinds {
		for _, task := range k.Tasks {
			for _, single := range []bool{false, true} {
				for _, signed := range []bool{false, true} {
					if !k.Summed() || signed && k.Positive || signed && !k.Averages {
						continue
					}
					s := Setup{Spec: trigSpec(3, 7), Task: task, Block: 50, Float32: single}
					if k.Averages && !signed {
						s.Spec = positiveSpec(3, 9)
					}
					if task != Unsupervised {
						s.Outputs = 2
					}
					all[fmt.Sprintf("%s, %s, float32 %v, signed %v", k.Kind, task, single, signed)] = codec{k.Kind, s}
					if s.Weighted = true; !signed {
						all[fmt.Sprintf("%s, %s, float32 %v, weighted", k.Kind, task, single)] = codec{k.Kind, s}
					}
				}
			}
		}
	}
	return all
}

func (c codec) data() (x, y dense.Matrix[float64]) {
	x, y = sample(12, 400, 3, 2)
	if c.setup.Task == Classification {
		y = classes(y.ColRange(0, 1), 2)
	}
	if c.setup.Weighted {
		wide := dense.New[float64](y.Rows, c.setup.TargetColumns())
		for i := range y.Rows {
			copy(wide.Row(i)[:wide.Cols-1], y.Row(i))
			wide.Set(i, wide.Cols-1, float64(i%4)/1.5)
		}
		y = wide
	}
	return x, y
}

func (c codec) sums(t testing.TB, lo, hi int) Sums {
	t.Helper()
	a, err := NewSums(c.kind, c.setup)
	if err != nil {
		t.Fatal(err)
	}
	x, y := c.data()
	if err := a.Add(x.RowRange(lo, hi), y.RowRange(lo, hi)); err != nil {
		t.Fatal(err)
	}
	return a
}

func marshalled(t testing.TB, a Sums) []byte {
	t.Helper()
	b, err := a.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Sums that were saved and read at every block boundary end with the bits of sums that never were.
func TestSavedSumsGoOnWithTheSameBits(t *testing.T) {
	for name, c := range codecs() {
		x, y := c.data()
		want := marshalled(t, c.sums(t, 0, 400))
		b := marshalled(t, c.sums(t, 0, 0))
		for lo := 0; lo < 400; lo += 50 {
			a, err := c.read(c.setup, b)
			if err != nil {
				t.Fatalf("%s: after %d rows: %v", name, lo, err)
			}
			if a.Len() != int64(lo) {
				t.Fatalf("%s: %d rows, want %d", name, a.Len(), lo)
			}
			if err := a.Add(x.RowRange(lo, lo+50), y.RowRange(lo, lo+50)); err != nil {
				t.Fatal(err)
			}
			if b, err = a.AppendBinary([]byte("before")); err != nil || !bytes.HasPrefix(b, []byte("before")) {
				t.Fatalf("%s: %.6q, %v", name, b, err)
			}
			b = b[6:]
		}
		if !bytes.Equal(b, want) {
			t.Errorf("%s: other bits", name)
		}
	}
}

func TestDamagedSums(t *testing.T) {
	stattest.SkipRace(t)
	for name, c := range codecs() {
		b := marshalled(t, c.sums(t, 0, 120))
		for i := range b {
			if i > 150 && i < len(b)-50 && i%17 > 0 { // every byte of the head and of the checksum
				continue
			}
			if _, err := c.read(c.setup, b[:i]); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s: %d of %d bytes: %v", name, i, len(b), err)
			}
			d := bytes.Clone(b)
			d[i] ^= 1 << (i % 8)
			if _, err := c.read(c.setup, d); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s: byte %d of %d: %v", name, i, len(b), err)
			}
		}
		// Errors are found even if the checksum is right.
		reseal := func(change func([]byte) []byte) []byte {
			d := change(bytes.Clone(b[:len(b)-32]))
			return seal.Close(d, 0)
		}
		const head = 16 + 4 + 32
		put := func(at int, v uint64) func([]byte) []byte {
			return func(d []byte) []byte { binary.LittleEndian.PutUint64(d[at:], v); return d }
		}
		for what, d := range map[string][]byte{
			"a longer tail":   reseal(func(d []byte) []byte { return append(d, 0) }),
			"another version": reseal(func(d []byte) []byte { d[16] = 9; return d }),
			"a huge count":    reseal(put(head+24, math.MaxUint64)),
			"a last sum of NaN": reseal(func(d []byte) []byte {
				return put(len(d)-8,
					math.Float64bits(math.NaN()))(d)
			}),
			"no bytes after head": reseal(func(d []byte) []byte { return d[:head+32] }),
		} {
			if _, err := c.read(c.setup, d); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s with %s: %v", name, what, err)
			}
		}
		for what, d := range map[string][]byte{
			"another map":        reseal(func(d []byte) []byte { d[20]++; return d }),
			"other features":     reseal(put(head+8, 1<<40)),
			"other outputs":      reseal(put(head+16, 1<<40)),
			"another task":       reseal(func(d []byte) []byte { d[head] = 1 - d[head]&1; return d }),
			"features of nobody": reseal(put(head+8, 0)),
		} {
			if _, err := c.read(c.setup, d); !errors.Is(err, ErrMismatch) {
				t.Errorf("%s with %s: %v", name, what, err)
			}
		}
	}
	smoother := codecs()["smoother, regression, float32 false, signed false"]
	b := marshalled(t, smoother.sums(t, 0, 50))
	binary.LittleEndian.PutUint64(b[sumsFormat.Size(0)-sha256.Size:], math.Float64bits(math.Inf(-1)))
	if _, err := smoother.read(smoother.setup, seal.Close(b[:len(b)-32], 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("sums of a feature that no row has: %v", err)
	}
}

// Whatever is accepted can be added to, and is written as it was read.
func FuzzSums(f *testing.F) {
	all := codecs()
	for name, c := range all {
		f.Add(name, marshalled(f, c.sums(f, 0, 70)))
	}
	r := rand.New(rand.NewPCG(1, 2))
	x := dense.New[float64](1, 3)
	for j := range x.Data {
		x.Data[j] = r.NormFloat64()
	}
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		c, ok := all[name]
		if !ok || len(b) < 32 {
			return
		}
		for _, b := range [][]byte{b, seal.Close(bytes.Clone(b[:len(b)-32]), 0)} {
			a, err := c.read(c.setup, b)
			if err != nil {
				if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrMismatch) {
					t.Fatal(err)
				}
				continue
			}
			if !bytes.Equal(marshalled(t, a), b) {
				t.Fatal("written otherwise than read")
			}
			y := dense.New[float64](1, c.setup.TargetColumns())
			if err := a.Add(x, y); err != nil && !errors.Is(err, dense.ErrNotFinite) {
				t.Fatal(err)
			}
		}
	})
}
