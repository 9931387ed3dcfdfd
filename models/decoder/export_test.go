package decoder

import "github.com/randfeat/randfeat/models/internal/nn"

// ExactState is the state of float32 models.
func ExactState(heads, kvHeads, dim, window int) State { return newExact(heads, kvHeads, dim, window) }

// HalfState is the state of quantised models.
func HalfState(heads, kvHeads, dim, window int) State {
	k, err := nn.Chosen()
	if err != nil {
		panic(err)
	}
	return newHalf(newHalfWork(k), heads, kvHeads, dim, window)
}

// FutureQueries are the rotated queries that Compact uses for a key/value head, and the number of the recent ones.
func FutureQueries(s *Session, layer, kvHead int) (q nn.Matrix, recent int) {
	list := s.queries.examples(s.model.config.RopeFreqs)
	for _, e := range list {
		if e.recent {
			recent++
		}
	}
	return s.headExamples(list, layer, kvHead), recent
}

// Kept is the query of a layer's first heads at a recent position, as the model computed it.
func Kept(s *Session, layer, position int) []float32 {
	return s.queries.recent[layer][position%recentQueries*s.queries.width:]
}
