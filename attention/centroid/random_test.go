package centroid

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
)

// Causal attention with random specs, shapes, masks and segments: Forward has the same bits with any number of threads,
// At and Trials have these bits, the counts of rows are those of exact attention, and so are the outputs if all keys
// are exact. States reproduce Forward, however the tokens are divided, also after they have been saved or copied.
func TestRandomChunks(t *testing.T) {
	for seed := range uint64(80) {
		randomChunks(t, seed)
	}
}

// randomSpec returns a Prefix or a Sketch. With all, every key is exact.
func randomSpec(r *rand.Rand, decoding, all bool) Spec {
	chunk := 1 + r.IntN(60)
	clusters, seed := 1+r.IntN(chunk), r.Uint64()
	if decoding {
		s := Sketch{Chunk: chunk, Clusters: clusters, Seed: seed, Share: 0.01 + 0.05*r.Float64(),
			Sinks: r.IntN(2) * r.IntN(chunk+1), Window: r.IntN(2) * r.IntN(80)}
		if all {
			s.Share = 1e-30
		}
		return s
	}
	s := Prefix{Chunk: chunk, Clusters: clusters, Seed: seed, Queries: 1 + r.IntN(80), Keys: 1 + r.IntN(60),
		Window: r.IntN(chunk + 1), Start: r.IntN(2) * r.IntN(200)}
	if all {
		s.Keys = 1000
	}
	return s
}

// randomVisibility returns causal visibility with no mask or masked runs, and one or several packed sequences.
func randomVisibility(r *rand.Rand, batch, queries, keys int) attention.Visibility {
	vis := attention.Visibility{Causal: true}
	if r.IntN(2) == 0 {
		seen := true
		for range batch * keys {
			seen = seen != (r.IntN(15) == 0)
			vis.KeyMask = append(vis.KeyMask, seen)
		}
	}
	ids := func(n int) []int32 {
		out := []int32{}
		for range batch {
			id := int32(0)
			for range n {
				if out = append(out, id); r.IntN(60) == 0 {
					id++
				}
			}
		}
		return out
	}
	if r.IntN(3) == 0 {
		vis.Segments, vis.KeySegments = ids(queries), ids(keys)
	}
	return vis
}

// randomSeq returns normal numbers.
func randomSeq(r *rand.Rand, batch, heads, length, dim int, size float64) attention.Seq[float32] {
	s := attention.NewSeq[float32](batch, heads, length, dim)
	for i := range s.Data {
		s.Data[i] = float32(size * r.NormFloat64())
	}
	return s
}

func randomChunks(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	lengths := []int{0, 1, 2, 17, 40, 100, 200}
	batch, kv, group, keys := 1+r.IntN(2), 1+r.IntN(2), 1+r.IntN(3), lengths[r.IntN(len(lengths))]
	queries := keys
	if r.IntN(3) == 0 {
		queries = lengths[r.IntN(len(lengths))]
	}
	d, dv := 1+r.IntN(20), 1+r.IntN(20)
	q := randomSeq(r, batch, kv*group, queries, d, 2)
	k, v := randomSeq(r, batch, kv, keys, d, 1), randomSeq(r, batch, kv, keys, dv, 1)
	decoding, all := r.IntN(2) == 0, r.IntN(2) == 0
	a := &Attention{Visibility: randomVisibility(r, batch, queries, keys), Specs: []Spec{randomSpec(r, decoding, all)}}
	if kv > 1 && r.IntN(2) == 0 {
		a.Specs = append(a.Specs, randomSpec(r, decoding, all))
	}
	name := fmt.Sprintf("seed %d, %d queries, %d keys, %+v, mask %t, segments %t", seed, queries, keys, a.Specs,
		a.KeyMask != nil, a.Segments != nil)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(name, err)
		}
	}

	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	out, again := randomSeq(r, batch, kv*group, queries, dv, 9), randomSeq(r, batch, kv*group, queries, dv, 9)
	report, err := a.Forward(out, q, k, v)
	must(err)
	runtime.GOMAXPROCS(3)
	other, err := a.Forward(again, q, k, v)
	must(err)
	if other != report || !slices.Equal(again.Data, out.Data) {
		t.Errorf("%s: other bits with 3 threads", name)
	}
	exact, err := (&attention.Exact[float32]{Visibility: a.Visibility}).Forward(again, q, k, v)
	must(err)
	if report.Rows != exact.Rows || report.Empty != exact.Empty {
		t.Errorf("%s: %+v, want the rows of %+v", name, report, exact)
	}
	const tol = 1e-4
	same := func(what string, got, want []float32) {
		t.Helper()
		for i, w := range want {
			if !(math.Abs(float64(got[i]-w)) <= tol) {
				t.Fatalf("%s: %s, number %d is %v, want %v", name, what, i, got[i], w)
			}
		}
	}
	if all {
		same("all keys exact", out.Data, again.Data)
	}
	if queries == 0 {
		return
	}

	rows := r.Perm(queries)[:1+r.IntN(queries)]
	at := randomSeq(r, batch, kv*group, len(rows), dv, 9)
	wanted := func(what string) {
		t.Helper()
		for b := range batch {
			for h := range kv * group {
				for i, l := range rows {
					if !slices.Equal(at.Head(b, h).Row(i), out.Head(b, h).Row(l)) {
						t.Fatalf("%s: %s has other bits in batch %d, head %d, row %d", name, what, b, h, l)
					}
				}
			}
		}
	}
	must(a.At(at, rows, q, k, v))
	wanted("At")
	if len(a.Specs) == 1 {
		trials, err := NewTrials(a.Visibility, 0, q, k, v)
		must(err)
		switch first := a.Specs[0].(type) { // with the same clusters
		case Prefix:
			first.Keys = (first.Keys + 1) / 2
			must(trials.At(at, rows, first))
		case Sketch:
			first.Share *= 2
			must(trials.At(at, rows, first))
		}
		must(trials.At(at, rows, a.Specs[0]))
		wanted("Trials")
	}

	if !decoding || a.KeyMask != nil || a.Segments != nil || queries != keys {
		return
	}
	state, err := NewChunks(a, q.Shape, v.Shape)
	must(err)
	for lo := 0; lo < keys; {
		hi := min(keys, lo+1+r.IntN(50))
		part := func(s attention.Seq[float32]) attention.Seq[float32] {
			s.Data, s.Len = s.Data[lo*s.StrideL:], hi-lo
			return s
		}
		must(state.Step(part(again), part(q), part(k), part(v)))
		if lo = hi; r.IntN(2) == 0 {
			state = state.Fork().(*Chunks)
			continue
		}
		saved, err := state.AppendBinary(nil)
		must(err)
		if state, err = NewChunks(a, q.Shape, v.Shape); err == nil {
			err = state.UnmarshalBinary(saved)
		}
		must(err)
	}
	same("decoding", again.Data, out.Data)
}
