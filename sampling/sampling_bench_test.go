package sampling_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/sampling"
)

// BenchmarkDraw is one draw for a new query: bench/sampling compares it with a full softmax at 10⁶ classes.
func BenchmarkDraw(b *testing.B) {
	const d = 64
	classes := dense.Convert[float32](rows(100_000, d, 1/math.Sqrt(d), 1))
	q := dense.Convert[float32](rows(256, d, 1/math.Sqrt(d), 2))
	for _, within := range []sampling.Within{sampling.ByScore, sampling.ByFeatures} {
		s := build(b, softmaxSpec(family.Positive{}, d, 256), classes, sampling.Options{Within: within})
		for _, k := range []int{1, 40} {
			for _, distinct := range []bool{false, true} {
				b.Run(fmt.Sprintf("within=%d/k=%d/distinct=%v", within, k, distinct), func(b *testing.B) {
					var got sampling.Draws
					i := 0
					for b.Loop() {
						r := sampling.Request{K: k, Distinct: distinct, Seed: uint64(i), Workers: 1}
						if err := s.Draw(&got, q.RowRange(i%256, i%256+1), r); err != nil {
							b.Fatal(err)
						}
						i++
					}
				})
			}
		}
		b.Run(fmt.Sprintf("within=%d/set", within), func(b *testing.B) {
			i := 0
			for b.Loop() {
				if err := s.Set([]int{i * 7919 % 100_000}, q.RowRange(i%256, i%256+1)); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}
