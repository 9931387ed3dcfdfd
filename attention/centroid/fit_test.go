package centroid

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
)

// random fills a sequence with N(0, sd²).
func random(r *rand.Rand, sd float64, batch, heads, length, dim int) attention.Seq[float32] {
	s := attention.NewSeq[float32](batch, heads, length, dim)
	for i := range s.Data {
		s.Data[i] = float32(sd * r.NormFloat64())
	}
	return s
}

// Keys in tight groups: the fit finds them.
func TestFitFindsClusters(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const groups, per, d = 8, 40, 5
	at := random(r, 3, 1, 1, groups, d).Head(0, 0)
	k := attention.NewSeq[float32](1, 1, groups*per, d)
	for j := range groups * per {
		for c := range d {
			k.Head(0, 0).Set(j, c, 7+at.At(j%groups, c)+float32(.01*r.NormFloat64()))
		}
	}
	q, v := random(r, 1, 1, 2, 100, d), random(r, 1, 1, 1, groups*per, 3)
	s := Sketch{Clusters: 2 * groups, Chunk: groups * per, Share: 0.1}.settings()
	var f chunkFit
	f.cluster(tableOf(t), &s, 1, q, k, v)
	owner := map[int32]int{}
	for j, x := range f.groups.found {
		if g, ok := owner[x]; ok && g != j%groups {
			t.Fatalf("groups %d and %d share cluster %d", g, j%groups, x)
		}
		owner[x] = j % groups
	}
}

// The weight of a key is the mean attention of the landmarks, and a floor.
func TestFitWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	const n, sinks, marks, scale = 300, 3, 20, 0.5
	q, k := random(r, 1, 1, 2, n, 8), random(r, 1, 1, 1, n, 8)
	spec := Sketch{Clusters: 8, Sinks: sinks, Landmarks: marks}.settings()
	f := fitter{tab: tableOf(t)}
	f.reset(&spec, scale, q, k, 0, 0, attention.Span{Q1: n, K1: n})
	f.add(nil)
	f.weigh()
	want := make([]float64, n)
	for g := range 2 {
		for m := range marks {
			x := wide(q.Head(0, g).Row((2*m + 1) * n / (2 * marks)))
			var sum float64
			e := make([]float64, n)
			for j := sinks; j < n; j++ {
				e[j] = math.Exp(scale * dense.Dot(x, wide(k.Head(0, 0).Row(j))))
				sum += e[j]
			}
			for j := range e {
				want[j] += e[j] / sum / (2 * marks)
			}
		}
	}
	for j, w := range f.weights {
		if x := want[j+sinks] + 0.1/(n-sinks); math.Abs(float64(w)-x) > 1e-6 {
			t.Fatalf("key %d has weight %v, want %v", j+sinks, w, x)
		}
	}
}

// Specs that make no sense are refused, and so are heads of two methods.
func TestSpecsAreValidated(t *testing.T) {
	good := []Spec{Blocks{Clusters: 4, Queries: 8, Keys: 2},
		Prefix{Clusters: 4, Chunk: 16, Queries: 8, Keys: 3, Window: 16}, Sketch{Clusters: 4, Chunk: 8, Share: 0.1}}
	for _, s := range good {
		if err := s.Validate(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for _, s := range []Spec{Blocks{}, Blocks{Clusters: maxClusters + 1, Queries: 8, Keys: 2},
		Blocks{Clusters: 4, Queries: 8, Keys: 2, Passes: math.MaxInt}, Blocks{Clusters: 4, Queries: 8},
		Blocks{Clusters: 4, Keys: 2},
		Blocks{Clusters: 4, Queries: maxQueries + 1, Keys: 2}, Prefix{Clusters: 4, Queries: 8, Keys: 3},
		Prefix{Clusters: 17, Chunk: 16, Queries: 8, Keys: 3},
		Prefix{Clusters: 4, Chunk: maxChunk + 1, Queries: 8, Keys: 3},
		Prefix{Clusters: 4, Chunk: 16, Queries: 8, Keys: 3, Window: 17}, Prefix{Clusters: 4, Chunk: 16, Queries: 8},
		Prefix{Clusters: 4, Chunk: 16, Queries: 8, Keys: 3, Start: -1}, Sketch{Clusters: 4, Chunk: 8},
		Sketch{Clusters: 4, Chunk: 8, Share: math.NaN()}, Sketch{Clusters: 9, Chunk: 8, Share: 0.1},
		Sketch{Clusters: 4, Chunk: 8, Share: 0.1, Sinks: 9}} {
		if err := s.Validate(); !errors.Is(err, ErrSpec) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	q, k, v := grouped(2, 40, 16, 1)
	out := attention.NewSeq[float32](1, 4, 40, 16)
	for i, s := range good {
		other := good[(i+1)%len(good)]
		for name, a := range map[string]*Attention{"two methods": {Specs: []Spec{s, other}},
			"the other direction": {Visibility: attention.Visibility{Causal: !s.Causal()}, Specs: []Spec{s}},
			"three heads":         {Specs: []Spec{s, s, s}}} {
			if name == "two methods" {
				a.Causal = s.Causal()
			}
			if _, err := a.Forward(out, q, k, v); err == nil {
				t.Errorf("%T: %s were accepted", s, name)
			}
		}
	}
}

// Settings keep their JSON form. Files of earlier versions are read, but for methods that were removed: one sentence
// says so.
func TestSpecJSON(t *testing.T) {
	for _, s := range []Spec{
		Blocks{Clusters: 4, Keys: 5, Queries: 6, Passes: 1, Sample: 7, Seed: 8},
		Prefix{Clusters: 4, Keys: 5, Queries: 6, Chunk: 7, Window: 2, Start: 9, Passes: 1, Sample: 2, Seed: 3},
		Sketch{Clusters: 4, Chunk: 9, Share: 0.01, Sinks: 2, Window: 5, Landmarks: 6, Passes: 1, Seed: 4}} {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := UnmarshalSpec(b); err != nil || got != s {
			t.Errorf("%s: %+v, %v, want %+v", b, got, err, s)
		}
	}
	old := `{"clusters":16,"together":1,"chunk":512,"share":0.01,"sinks":4,"window":64,"landmarks":8,"passes":1}`
	if s, err := UnmarshalSpec([]byte(old)); err != nil || s != (Sketch{Clusters: 16, Chunk: 512, Share: 0.01, Sinks: 4,
		Window: 64, Landmarks: 8, Passes: 1}) {
		t.Errorf("%s: %+v, %v", old, s, err)
	}
	for _, gone := range []string{`{"clusters":64,"top":8,"keys":96}`, `{"clusters":64,"spread":true,"sinks":4}`,
		`{"clusters":8,"top":2,"chunk":64,"together":32}`, `{"clusters":64,"values":0.5}`,
		`{"clusters":64,"shared":true}`, `{"clusters":48,"top":4,"window":8,"block":8,"landmarks":8}`,
		`{"clusters":16}`,
		`{"clusters":64,"bits":4}`, `{"clusters":64,"residual":4}`} {
		_, err := UnmarshalSpec([]byte(gone))
		if !errors.Is(err, ErrRemoved) || !errors.Is(err, ErrSpec) ||
			!strings.Contains(err.Error(), "choose a method again") {
			t.Errorf("%s: %v", gone, err)
		}
	}
	for _, bad := range []string{``, `{}`, `{"clusters":4,"keys":2,"together":8,"Keys":1}`,
		`{"clusters":4,"clusters":5}`,
		`{"clusters":4,"start":1}`,
		`{"clusters":4,"keys":2,"together":8,"window":3}`, `{"clusters":4,"keys":2,"together":8,"chunk":16,"top":1}`,
		`{"clusters":4,"together":2,"chunk":16,"share":0.1}`, `{"clusters":4,"chunk":16,"share":-1}`} {
		if s, err := UnmarshalSpec([]byte(bad)); err == nil {
			t.Errorf("%s is %+v", bad, s)
		}
	}
}
