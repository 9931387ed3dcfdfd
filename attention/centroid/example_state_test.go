package centroid_test

import (
	"fmt"
	"log"
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
)

// Calibrate on one text, then decode another token by token, with all keys kept and in the memory of 256 keys.
func Example_decoding() {
	const heads, kvHeads, d, length = 2, 1, 8, 600
	text := func(seed uint64) (q, k, v attention.Seq[float32]) {
		r := rand.New(rand.NewPCG(seed, 1))
		q, k = attention.NewSeq[float32](1, heads, length, d), attention.NewSeq[float32](1, kvHeads, length, d)
		v = attention.NewSeq[float32](1, kvHeads, length, d)
		for _, s := range []attention.Seq[float32]{q, k, v} {
			for i := range s.Data {
				s.Data[i] = float32(r.NormFloat64())
			}
		}
		return q, k, v
	}
	spec := centroid.Spec{Clusters: 16, Top: 4, Keys: 32, Spread: true, Sinks: 4, Window: 32, Block: 16}
	causal := attention.Visibility{Causal: true}
	q, k, v := text(1)
	centres, err := centroid.Fit([]centroid.Spec{spec}, 0, causal, q, k, v)
	if err != nil {
		log.Fatal(err)
	}

	a := &centroid.Attention[float32]{Specs: []centroid.Spec{spec}, Centres: centres}
	kept, err := centroid.NewCache(a, 1, heads, kvHeads, d, d)
	if err != nil {
		log.Fatal(err)
	}
	slots, err := centroid.NewSlots[float32](centroid.SlotSpec{Budget: 256}, 0, centres, 1, heads, kvHeads, d, d)
	if err != nil {
		log.Fatal(err)
	}

	q, k, v = text(2)
	exact := attention.NewSeq[float32](1, heads, length, d)
	if _, err := (&attention.Exact[float32]{Visibility: causal}).Forward(exact, q, k, v); err != nil {
		log.Fatal(err)
	}
	for _, s := range []centroid.State[float32]{kept, slots} {
		out := attention.NewSeq[float32](1, heads, length, d)
		token := func(s attention.Seq[float32], p int) attention.Seq[float32] {
			s.Data, s.Len = s.Data[p*s.StrideL:], 1
			return s
		}
		for p := range length {
			if err := s.Step(token(out, p), token(q, p), token(k, p), token(v, p)); err != nil {
				log.Fatal(err)
			}
		}
		var diff, norm float64
		for i, x := range exact.Data {
			diff += math.Pow(float64(out.Data[i]-x), 2)
			norm += math.Pow(float64(x), 2)
		}
		r := s.Report()
		fmt.Printf("%T: error %.1f, %d exact keys per query\n", s, math.Sqrt(diff/norm), r.Exact/r.Rows)
	}
	// Output:
	// *centroid.Cache[float32]: error 0.2, 70 exact keys per query
	// *centroid.Slots[float32]: error 0.1, 78 exact keys per query
}
