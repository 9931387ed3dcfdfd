package trees

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/seal"
)

func streamOf(seed, label uint64) *rand.ChaCha8 { return rng.Stream(seed, label) }

func saved(t testing.TB) (f *Forest, x dense.Matrix[float64], b []byte) {
	x, levels, y := table(20, 120, 3, 9)
	f = mustFit(t, mustBin(t, x, levels), targetOf(y, 3), Options{Trees: 2, Leaves: 4})
	b, err := f.AppendBinary([]byte("before"))
	if err != nil {
		t.Fatal(err)
	}
	return f, x, b[len("before"):]
}

func TestCodec(t *testing.T) {
	for _, classes := range []int{0, 2, 3} {
		x, levels, y := table(21, 200, 4, 9)
		for i := range x.Rows {
			x.Set(i, 1, 5) // a column that no node uses
		}
		f := mustFit(t, mustBin(t, x, levels), targetOf(y, classes), Options{Trees: 9})
		b, err := f.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		distinct := map[set]bool{}
		for _, s := range f.sets {
			if distinct[s] {
				t.Errorf("%d classes: a set is stored twice", classes)
			}
			distinct[s] = true
		}
		var g Forest
		if err := g.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		if again, _ := g.MarshalBinary(); !bytes.Equal(again, b) {
			t.Errorf("%d classes: other bytes after reading", classes)
		}
		if p, q := predict(t, f, x), predict(t, &g, x); !slices.Equal(p.Data, q.Data) {
			t.Errorf("%d classes: other predictions after reading", classes)
		}
	}
}

// Damaged and hostile bytes are errors, or a forest whose predictions end.
func TestHostileBytes(t *testing.T) {
	_, x, b := saved(t)
	body := b[:len(b)-32]
	for i := range b {
		damaged := bytes.Clone(b)
		damaged[i] ^= 1
		if err := new(Forest).UnmarshalBinary(damaged); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("byte %d of %d: %v", i, len(b), err)
		}
		if err := new(Forest).UnmarshalBinary(b[:i]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%d bytes of %d: %v", i, len(b), err)
		}
	}
	read := 0
	for i := range body {
		for _, to := range []byte{0, 2, 0xff} {
			hostile := bytes.Clone(body)
			hostile[i] = to
			if try(t, seal.Close(hostile, 0), x) {
				read++
			}
		}
	}
	if read < 100 {
		t.Errorf("%d changed forests are read: nothing reaches the predictions", read)
	}
	// Each of these would make a path without end, or read beyond a slice.
	f, _, _ := saved(t)
	for what, change := range map[string]func(g *Forest){
		"no leaf":                     func(g *Forest) { g.nodes[0].Keep = 1<<g.trees[1] - 1 },
		"a column beyond":             func(g *Forest) { g.nodes[0].Column = 3 },
		"a set beyond":                func(g *Forest) { g.nodes[0].Set = uint32(len(g.sets)) },
		"a tree without nodes":        func(g *Forest) { g.trees[1] = g.trees[2] },
		"trees that go back":          func(g *Forest) { g.trees[1] = -1 },
		"a tree beyond":               func(g *Forest) { g.trees[len(g.trees)-1] = int32(len(g.nodes)) },
		"a first tree with a gap":     func(g *Forest) { g.trees[0] = 1 },
		"a tree too few":              func(g *Forest) { g.trees = g.trees[:len(g.trees)-1] },
		"a second tree beyond":        func(g *Forest) { g.trees[1] = int32(len(g.nodes) + 1) },
		"nothing":                     func(g *Forest) { *g = Forest{start: g.start, classes: 3} },
		"no score and no class":       func(g *Forest) { g.start, g.classes = nil, 0 },
		"a value too few":             func(g *Forest) { g.values = g.values[1:] },
		"a value that is not finite":  func(g *Forest) { g.values[2] = float32(math.Inf(1)) },
		"a start that is not finite":  func(g *Forest) { g.start[1] = math.NaN() },
		"a cut that is not finite":    func(g *Forest) { g.columns[0].cuts[1] = math.Inf(-1) },
		"cuts that descend":           func(g *Forest) { g.columns[0].cuts[1] = -5 },
		"too many cuts":               func(g *Forest) { g.columns[0].cuts = make([]float64, 254) },
		"too many levels":             func(g *Forest) { g.columns[2].cuts = make([]float64, 255) },
		"no column":                   func(g *Forest) { g.columns = nil },
		"no score":                    func(g *Forest) { g.start = nil },
		"one class":                   func(g *Forest) { g.classes = 1 },
		"classes without scores":      func(g *Forest) { g.classes = 4 },
		"two classes of three scores": func(g *Forest) { g.classes = 2 },
	} {
		g := *f
		g.start, g.trees, g.nodes = slices.Clone(f.start), slices.Clone(f.trees), slices.Clone(f.nodes)
		g.values, g.columns = slices.Clone(f.values), slices.Clone(f.columns)
		for j := range g.columns {
			g.columns[j].cuts = slices.Clone(f.columns[j].cuts)
		}
		change(&g)
		b, err := g.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if err := new(Forest).UnmarshalBinary(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Large counts do not allocate.
	for i := range format.Counts {
		at := len(format.Magic) + 36 + 8*i
		own := binary.LittleEndian.Uint64(body[at:])
		for _, count := range []uint64{1 << 60, own + 1<<59, own + 1<<61, uint64(len(body) - format.HeaderSize())} {
			hostile := bytes.Clone(body)
			binary.LittleEndian.PutUint64(hostile[at:], count)
			hostile = seal.Close(hostile, 0)
			least, err := uint64(math.MaxUint64), error(nil)
			for range 3 { // other goroutines of the test program allocate now and then
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				err = new(Forest).UnmarshalBinary(hostile)
				runtime.ReadMemStats(&after)
				least = min(least, after.TotalAlloc-before.TotalAlloc)
			}
			if !errors.Is(err, ErrCorrupt) || least > 2000 {
				t.Errorf("count %d of %d: %v, %d bytes taken", i, count, err, least)
			}
		}
	}
	if err := new(Forest).UnmarshalBinary(seal.Close(append(bytes.Clone(body), 0), 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte too many: %v", err)
	}
}

// try reads b and predicts if it can.
func try(t testing.TB, b []byte, x dense.Matrix[float64]) bool {
	var f Forest
	if err := f.UnmarshalBinary(b); err != nil {
		if !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%v is not ErrCorrupt", err)
		}
		return false
	}
	if f.Columns() == x.Cols {
		predict(t, &f, x)
	}
	return true
}

func FuzzForest(f *testing.F) {
	_, x, b := saved(f)
	f.Add(b[:len(b)-32])
	r := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		c := bytes.Clone(b[:len(b)-32])
		c[r.IntN(len(c))] ^= byte(1 << r.IntN(8))
		f.Add(c)
	}
	f.Fuzz(func(t *testing.T, b []byte) { try(t, seal.Close(bytes.Clone(b), 0), x) })
}
