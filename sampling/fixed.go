package sampling

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat/internal/rng"
)

// Fixed draws classes with the same probabilities for every query: uniform, or by frequency^¾ (Mikolov et al. 2013). A
// draw takes constant time (alias method, Walker 1977).
type Fixed struct {
	log   []float64
	keep  []float64 // probability that cell i is class i itself
	alias []int
}

// NewFixed returns a sampler that draws class i with probability proportional to weights[i].
func NewFixed(weights []float64) (*Fixed, error) {
	sum := 0.0
	for i, w := range weights {
		if !(w >= 0) || math.IsInf(w, 0) {
			return nil, fmt.Errorf("weight %g of class %d: %w", w, i, ErrRequest)
		}
		sum += w
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		return nil, fmt.Errorf("weights with sum %g: %w", sum, ErrRequest)
	}
	n := len(weights)
	f := &Fixed{log: make([]float64, n), keep: make([]float64, n), alias: make([]int, n)}
	var small, large []int
	for i, w := range weights {
		f.log[i] = math.Log(w / sum)
		f.keep[i], f.alias[i] = w/sum*float64(n), i
		if f.keep[i] < 1 {
			small = append(small, i)
		} else {
			large = append(large, i)
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		f.alias[s] = l
		if f.keep[l] += f.keep[s] - 1; f.keep[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	for _, i := range append(small, large...) { // these are 1 except for rounding
		f.keep[i] = 1
	}
	return f, nil
}

// Unigram returns the weights count^power of classes; a class with a count below 1 counts as 1.
func Unigram(counts []float64, power float64) []float64 {
	w := make([]float64, len(counts))
	for i, c := range counts {
		w[i] = math.Pow(max(1, c), power)
	}
	return w
}

// LogProb returns the log probabilities of all classes. The slice must not be changed.
func (f *Fixed) LogProb() []float64 { return f.log }

// Draw draws for the given number of queries, with replacement. Use one query if all share their draws.
func (f *Fixed) Draw(dst *Draws, queries int, r Request) error {
	if err := r.check(len(f.log)); err != nil {
		return err
	}
	if r.Distinct || queries < 0 {
		return fmt.Errorf("distinct draws of fixed probabilities, %d queries: %w", queries, ErrRequest)
	}
	dst.reset(queries, r.K)
	logK := math.Log(float64(r.K))
	for i := range queries {
		g := rand.New(rng.Stream(r.Seed, 'f', uint64(r.First+i)))
		for j := i * r.K; j < (i+1)*r.K; j++ {
			id := g.IntN(len(f.log))
			if g.Float64() >= f.keep[id] {
				id = f.alias[id]
			}
			dst.IDs[j], dst.LogProb[j], dst.LogCount[j] = id, f.log[id], logK+f.log[id]
		}
	}
	return nil
}
