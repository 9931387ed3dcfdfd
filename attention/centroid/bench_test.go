package centroid

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/attention"
)

// speech returns heads with the statistics of those of MiniLM: tokens of a Zipf law that come back, moods that change
// slowly, a spectrum that decays, and a part in common that makes neighbours attend to each other. At L = 512 the
// logits
// of a query have a standard deviation of 1.9 (MiniLM: 1.6 in the median, 2.3 in the mean), its attention has 138
// effective keys (103, 122), the best 16 hold 48 % (52, 54) and the 48 around it 14 % (20, 32); 64 centroids with 4
// exact
// clusters and a window of 48 have an error of .070 (.068).
func speech(seed uint64, heads, length, dim int) (q, k, v attention.Seq[float32]) {
	q, k, v = attention.NewSeq[float32](1, heads, length, dim), attention.NewSeq[float32](1, heads, length, dim),
		attention.NewSeq[float32](1, heads, length, dim)
	const words, latent = 1000, 12
	r := rand.New(rand.NewPCG(seed, 1))
	vocabulary := make([]float64, words*latent)
	for i := range vocabulary {
		vocabulary[i] = r.NormFloat64()
	}
	zipf := rand.NewZipf(r, 1.3, 8, words-1)
	state := make([]float64, length*latent)
	var mood [2][latent]float64
	for l := range length {
		word := int(zipf.Uint64())
		for c := range latent {
			x := vocabulary[word*latent+c]
			for m, life := range []float64{4, 40} {
				mood[m][c] += (r.NormFloat64()*math.Sqrt(2*life) - mood[m][c]) / life
				x += 0.5 * mood[m][c]
			}
			state[l*latent+c] = x
		}
	}
	const local = 8
	for h := range heads {
		place := make([]float64, length*local)
		for i := range place {
			place[i] = 1.2 * math.Sqrt(2/9.0) * r.NormFloat64()
			if i >= local {
				place[i] += 0.88 * place[i-local]
			}
		}
		for n, s := range []attention.Seq[float32]{q, k, v} {
			mix := make([]float64, dim*latent)
			for i := range mix {
				mix[i] = r.NormFloat64() * math.Pow(1+float64(i%latent), -0.7)
			}
			m := s.Head(0, h)
			var square float64
			for l := range length {
				for c := range dim {
					x := 0.08 * r.NormFloat64()
					for i, u := range state[l*latent : (l+1)*latent] {
						x += u * mix[c*latent+i]
					}
					m.Set(l, c, float32(x))
					square += x * x
				}
			}
			if n == 2 {
				continue
			}
			f := float32(math.Sqrt(1.8 / (square / float64(length*dim))))
			for l := range length {
				for c := range dim {
					m.Set(l, c, m.At(l, c)*f)
					if c < local {
						m.Set(l, c, m.At(l, c)+float32(place[l*local+c]))
					}
				}
			}
		}
	}
	return q, k, v
}

// relative is |got − want| / |want| over some rows of all heads, the largest of a head and their mean.
func relative(got, want attention.Seq[float32]) (most, mean float64) {
	for h := range want.Heads {
		var diff, size float64
		a, b := got.Head(0, h), want.Head(0, h)
		for i := range b.Rows {
			for c, w := range b.Row(i) {
				d := float64(a.At(i, c) - w)
				diff += d * d
				size += float64(w) * float64(w)
			}
		}
		e := math.Sqrt(diff / size)
		most = max(most, e)
		mean += e / float64(want.Heads)
	}
	return most, mean
}

// benchSpec has a mean error below 0.1 on heads of speech (.095, .098 and .096 at the three lengths), with k in
// proportion to √L, in whole panels of the kernels.
func benchSpec(length int) PerQuery {
	s := PerQuery{Clusters: 32 * int(1.5*math.Sqrt(float64(length))/32+0.5), Top: 4, Window: 8, Block: 8}
	if length > 4096 {
		s.Top = 5
	}
	return s
}

func BenchmarkCentroid(b *testing.B) {
	for _, length := range []int{2048, 16384, 131072} {
		b.Run(fmt.Sprintf("L=%d", length), func(b *testing.B) {
			const heads, dim = 8, 64
			if length > 20000 && testing.Short() {
				b.Skip("long")
			}
			q, k, v := speech(1, heads, length, dim)
			a := Attention{Specs: []Spec{benchSpec(length)}}
			rows := make([]int, 64)
			for i := range rows {
				rows[i] = (2*i + 1) * length / (2 * len(rows))
			}
			got, want := attention.NewSeq[float32](1, heads, len(rows), dim), attention.NewSeq[float32](1, heads,
				len(rows), dim)
			if err := a.At(got, rows, q, k, v); err != nil {
				b.Fatal(err)
			}
			some := attention.NewSeq[float32](1, heads, len(rows), dim)
			for h := range heads {
				for i, l := range rows {
					copy(some.Head(0, h).Row(i), q.Head(0, h).Row(l))
				}
			}
			var exact attention.Exact[float32]
			if _, err := exact.Forward(want, some, k, v); err != nil {
				b.Fatal(err)
			}
			most, mean := relative(got, want)
			out := attention.NewSeq[float32](1, heads, length, dim)
			b.ResetTimer()
			for b.Loop() {
				if _, err := a.Forward(out, q, k, v); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(mean, "error")
			b.ReportMetric(most, "worst-head")
		})
	}
}

func BenchmarkExact(b *testing.B) {
	for _, length := range []int{2048, 16384} {
		b.Run(fmt.Sprintf("L=%d", length), func(b *testing.B) {
			q, k, v := speech(1, 8, length, 64)
			out := attention.NewSeq[float32](1, 8, length, 64)
			var a attention.Exact[float32]
			b.ResetTimer()
			for b.Loop() {
				if _, err := a.Forward(out, q, k, v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
