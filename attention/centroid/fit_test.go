package centroid

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/seal"
)

// random fills a sequence with N(0, sd²).
func random[T dense.Float](r *rand.Rand, sd float64, batch, heads, length, dim int) attention.Seq[T] {
	s := attention.NewSeq[T](batch, heads, length, dim)
	for i := range s.Data {
		s.Data[i] = T(sd * r.NormFloat64())
	}
	return s
}

// Keys in tight groups: the fit finds them, and says the same as a search over all centres.
func TestFitFindsClusters(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const groups, per, d = 8, 40, 5
	at := random[float64](r, 3, 1, 1, groups, d).Head(0, 0)
	k := attention.NewSeq[float64](1, 1, groups*per, d)
	for j := range groups * per {
		for c := range d {
			k.Head(0, 0).Set(j, c, 7+at.At(j%groups, c)+.01*r.NormFloat64())
		}
	}
	q, v := random[float64](r, 1, 1, 2, 100, d), random[float64](r, 1, 1, 1, groups*per, 3)
	for _, values := range []float64{0, 0.1} {
		cs, err := Fit([]Spec{{Clusters: 2 * groups, Values: values}}, 0, attention.Visibility{}, q, k, v)
		if err != nil {
			t.Fatal(err)
		}
		c := cs[0]
		a := make([]int32, groups*per)
		if err := Assign(a, c, k.Head(0, 0), v.Head(0, 0)); err != nil {
			t.Fatal(err)
		}
		owner := map[int32]int{}
		for j, x := range a {
			if g, ok := owner[x]; ok && g != j%groups {
				t.Fatalf("values %v: groups %d and %d share cluster %d", values, g, j%groups, x)
			}
			owner[x] = j % groups
			best, near := -1, math.Inf(1)
			for i := range c.Clusters() {
				var dist float64
				for m := range d {
					var z float64
					for l := range d {
						z += c.Metric().At(m, l) * (k.Head(0, 0).At(j, l) - c.Centre(i)[l])
					}
					dist += z * z
				}
				for l, m := range c.w.Centres.Row(i)[d:] {
					z := c.w.ValueScale * (v.Head(0, 0).At(j, l) - m)
					dist += z * z
				}
				if dist < near {
					best, near = i, dist
				}
			}
			if best != int(x) {
				t.Fatalf("values %v, key %d: cluster %d, the nearest is %d", values, j, x, best)
			}
		}
	}
}

// The metric is the root of E xxᵀ, and the projections are biorthogonal in the span of the queries.
func TestFitMetric(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const d = 6
	q, k, v := random[float64](r, 1, 2, 4, 60, d), random[float64](r, 1, 2, 2, 60, d), random[float64](r, 1, 2, 2, 60,
		3)
	const scale = 0.7
	cs, err := Fit([]Spec{{Clusters: 4}}, scale, attention.Visibility{}, q, k, v)
	if err != nil {
		t.Fatal(err)
	}
	for h, c := range cs {
		px, py := c.Projections()
		for i := range d {
			for j := range d {
				var want, got, unit float64
				for g := 2 * h; g < 2*h+2; g++ {
					for b := range 2 {
						m := q.Head(b, g)
						for l := range m.Rows {
							want += scale * scale * m.At(l, i) * m.At(l, j) / 240
						}
					}
				}
				for l := range d {
					got += c.Metric().At(i, l) * c.Metric().At(l, j)
				}
				for l := range px.Cols {
					unit += px.At(i, l) * py.At(j, l)
				}
				if math.Abs(got-want) > 1e-9 {
					t.Errorf("head %d: (R²)_%d%d = %v, want %v", h, i, j, got, want)
				}
				if i == j {
					unit--
				}
				if math.Abs(unit) > 1e-9 {
					t.Errorf("head %d: PX·PYᵀ − 1 is %v at %d, %d", h, unit, i, j)
				}
			}
		}
	}
}

func TestFitSameBitsOnAnyNumberOfCores(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	q, k, v := random[float32](r, 1, 1, 4, 600, 16), random[float32](r, 1, 1, 2, 600, 16),
		random[float32](r, 1, 1, 2, 600, 8)
	var first []byte
	for _, n := range []int{1, 3} {
		old := runtime.GOMAXPROCS(n)
		cs, err := Fit([]Spec{{Clusters: 16, Sample: 200}}, 0, attention.Visibility{Causal: true}, q, k, v)
		runtime.GOMAXPROCS(old)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := cs[1].AppendBinary(nil)
		if first == nil {
			first = b
		} else if !bytes.Equal(first, b) {
			t.Error("other bits with other cores")
		}
	}
}

// A key after the last query that may see it in a cluster has no part in the fit.
func TestFitIsCausal(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	const n = 300
	f := fitter[float64]{}
	q, k, v := random[float64](r, 1, 1, 2, n, 8), random[float64](r, 1, 1, 1, n, 8), random[float64](r, 1, 1, 1, n, 4)
	spec := &Spec{Clusters: 8, Sinks: 3, Window: 10, Block: 32, Landmarks: 20}
	weights := func() []float64 {
		f.tab = tableOf[float64](t)
		f.reset(spec, 0.5, true, q, k, v, 0)
		f.add(0, attention.Span{Q1: n, K1: n}, nil)
		f.weigh()
		return append([]float64(nil), f.weights...)
	}
	w := weights()
	const sinks, keys = 3, n - 3 // sinks have no part in it
	for _, j := range []int{288 - 10, n - 1} {
		if math.Abs(w[j-sinks]-0.1/keys) > 1e-15 {
			t.Errorf("key %d has weight %v, want the floor alone", j, w[j-sinks])
		}
	}
	want := make([]float64, n)
	for g := range 2 {
		for m := range 20 {
			i := (2*m + 1) * n / 40
			end := i/32*32 - 10
			var sum float64
			e := make([]float64, n)
			for j := sinks; j < end; j++ {
				e[j] = math.Exp(0.5 * dense.Dot(q.Head(0, g).Row(i), k.Head(0, 0).Row(j)))
				sum += e[j]
			}
			for j := range e {
				if sum > 0 {
					want[j] += e[j] / sum
				}
			}
		}
	}
	var used float64
	for _, x := range want {
		used += x
	}
	for j := range w {
		if x := want[j+sinks]/used + 0.1/keys; math.Abs(w[j]-x) > 1e-12 {
			t.Fatalf("key %d has weight %v, want %v", j, w[j], x)
		}
	}
}

func TestFitOddShapes(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, c := range []struct{ n, lq, d, dv, k int }{
		{1, 1, 1, 1, 1}, {5, 3, 1, 1, 9}, {3, 2, 16, 4, 2}, {40, 1, 8, 0, 7}, {100, 300, 3, 5, 100}, {20, 20, 40, 2, 4},
	} {
		for kind := range 4 {
			q, k, v := random[float32](r, 1, 1, 1, c.lq, c.d), random[float32](r, 1, 1, 1, c.n, c.d),
				random[float32](r, 1, 1, 1, c.n, c.dv)
			switch kind {
			case 1:
				clear(q.Data)
			case 2: // all keys alike
				for j := range c.n {
					copy(k.Head(0, 0).Row(j), k.Head(0, 0).Row(0))
				}
			case 3: // numbers whose squares overflow
				for i := range q.Data {
					q.Data[i] *= 1e25
				}
				for i := range k.Data {
					k.Data[i] *= 1e30
				}
			}
			cs, err := Fit([]Spec{{Clusters: c.k, Values: float64(kind % 2)}}, 0, attention.Visibility{}, q, k, v)
			if err != nil {
				t.Fatalf("%+v, kind %d: %v", c, kind, err)
			}
			if got := cs[0].Clusters(); got > min(c.k, c.n) || got < 1 || (kind == 0 && got != min(c.k, c.n)) {
				t.Errorf("%+v, kind %d: %d clusters", c, kind, got)
			}
			a := make([]int32, c.n)
			if err := Assign(a, cs[0], k.Head(0, 0), v.Head(0, 0)); err != nil {
				t.Fatal(err)
			}
			for _, x := range a {
				if int(x) >= cs[0].Clusters() || x < 0 {
					t.Fatalf("%+v, kind %d: cluster %d of %d", c, kind, x, cs[0].Clusters())
				}
			}
			if kind == 0 && c.k >= c.n {
				seen := map[int32]bool{}
				for _, x := range a {
					seen[x] = true
				}
				if len(seen) != c.n {
					t.Errorf("%+v: %d clusters in use for %d keys", c, len(seen), c.n)
				}
			}
		}
	}
}

func TestCentresCodec(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	q, k, v := random[float32](r, 1, 1, 1, 50, 4), random[float32](r, 1, 1, 1, 50, 4), random[float32](r, 1, 1, 1, 50,
		3)
	for _, values := range []float64{0, 1} {
		cs, err := Fit([]Spec{{Clusters: 6, Values: values}}, 0, attention.Visibility{}, q, k, v)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := cs[0].MarshalBinary()
		j, err := json.Marshal(cs[0])
		if err != nil {
			t.Fatal(err)
		}
		var a, b Centres
		if err := json.Unmarshal(j, &a); err != nil {
			t.Fatal(err)
		}
		if err := b.UnmarshalBinary(want); err != nil {
			t.Fatal(err)
		}
		for _, c := range []*Centres{&a, &b} {
			if got, _ := c.MarshalBinary(); !bytes.Equal(got, want) || c.Fingerprint() != cs[0].Fingerprint() {
				t.Errorf("values %v: other bytes after a round trip", values)
			}
		}
		for i := range want {
			bad := bytes.Clone(want)
			bad[i] ^= 1
			if b.UnmarshalBinary(bad) == nil {
				t.Fatalf("a wrong byte %d goes unnoticed", i)
			}
		}
		if err := json.Unmarshal(append([]byte(`{"x":1,`), j[1:]...), &a); err == nil {
			t.Error("an unknown field goes unnoticed")
		}
	}
}

func TestSpecJSON(t *testing.T) {
	s := Spec{Clusters: 64, Top: 4, Window: 16, Block: 16, Seed: 3}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"clusters":64,"top":4,"window":16,"block":16,"seed":3}`; string(b) != want {
		t.Errorf("%s, want %s", b, want)
	}
	var got Spec
	if err := json.Unmarshal(b, &got); err != nil || got != s {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{`{}`, `{"clusters":-1}`, `{"window":8,"top":2}`, `{"clusters":4,"Top":1}`,
		`{"clusters":4,"keys":8}`,
		`{"clusters":4,"bits":5}`, `{"clusters":4,"values":-1}`, `{"clusters":4,"clusters":4}`, `null`,
		`{"clusters":4,"top":-2}`} {
		if json.Unmarshal([]byte(bad), &got) == nil && bad != "null" {
			t.Errorf("%s is no error", bad)
		}
	}
	// The units of the table of real heads: block 16 + 64 centroids + 4 exact clusters at L = 512.
	if c := s.Cost(512, 32, 32); math.Abs(c-96) > 1e-9 {
		t.Errorf("cost %v, want 96", c)
	}
}

// Bytes with a right checksum but wrong contents are errors, and what is read is written back as it was.
func FuzzCentres(f *testing.F) {
	r := rand.New(rand.NewPCG(13, 14))
	q, k, v := random[float32](r, 1, 1, 1, 30, 3), random[float32](r, 1, 1, 1, 30, 3), random[float32](r, 1, 1, 1, 30,
		2)
	for _, values := range []float64{0, 1} {
		cs, err := Fit([]Spec{{Clusters: 4, Values: values}}, 0, attention.Visibility{}, q, k, v)
		if err != nil {
			f.Fatal(err)
		}
		b, _ := cs[0].MarshalBinary()
		f.Add(b[:len(b)-sha256.Size])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = seal.Close(bytes.Clone(b), 0)
		var c Centres
		if c.UnmarshalBinary(b) != nil {
			return
		}
		if again, err := c.MarshalBinary(); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%d bytes were read and are written as %d others (%v)", len(b), len(again), err)
		}
		if err := Assign(make([]int32, 1), &c, dense.New[float64](1, c.Dim()), dense.New[float64](1,
			c.ValueDim())); err != nil {
			t.Fatal(err)
		}
	})
}
