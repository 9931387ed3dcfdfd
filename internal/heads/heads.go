// Package heads generates attention heads with the statistics of real ones, for demonstrations and tests.
// Gaussian queries and keys would flatter estimators that fail on trained models. The generator draws a text of
// words that recur and belong to subjects. Heads read it like those of a sentence encoder: they differ in how
// much they look at neighbours, at words of the same subject, at words that are important to all, and at the
// first token.
package heads

import (
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
)

const (
	words    = 1200 // size of the vocabulary
	subjects = 24   // subjects of words; 0 is grammar, which is everywhere
	hidden   = 48   // columns of a token's representation
	waves    = 6    // frequencies that encode positions
	model    = 11   // seed of the model
)

// vocabulary describes the words: vectors around those of their subjects, and how important they are to all.
type vocabulary struct {
	word  dense.Matrix[float64]
	heavy []float64
}

func newVocabulary() vocabulary {
	v := vocabulary{word: dense.New[float64](words, hidden), heavy: make([]float64, words)}
	centre := dense.New[float64](subjects, hidden)
	rng.Normals(centre.Data, rng.Stream(model, 1))
	rng.Normals(v.word.Data, rng.Stream(model, 2))
	rng.Normals(v.heavy, rng.Stream(model, 3))
	for w := range words {
		for c, x := range centre.Row(w % subjects) {
			v.word.Row(w)[c] = (0.9*x + 0.8*v.word.At(w, c)) / math.Sqrt(hidden)
		}
	}
	return v
}

// token is one position of a text.
type token struct {
	is    []float64 // representation, hidden columns
	heavy float64
}

// read draws a text: its subject changes now and then, words of a subject follow Zipf's law, and nearly every
// second word belongs to grammar.
func (v *vocabulary) read(length int, text uint64) []token {
	r := rand.New(rng.Stream(model, 4, text))
	out, context := make([]token, length), make([]float64, hidden)
	subject := 1
	for j := range out {
		if r.Float64() < 0.02 {
			subject = 1 + r.IntN(subjects-1)
		}
		of := subject
		if r.Float64() < 0.45 {
			of = 0
		}
		// The rank of a word is log-uniform: Zipf's law.
		rank := int(math.Exp(r.Float64()*math.Log(words/subjects))) - 1
		w := rank*subjects + of
		out[j] = token{is: make([]float64, hidden), heavy: v.heavy[w]}
		for c := range context {
			context[c] = 0.8*context[c] + 0.6*r.NormFloat64()
			out[j].is[c] = v.word.At(w, c) + 0.45*(0.7*context[c]+0.7*r.NormFloat64())/math.Sqrt(hidden)
		}
	}
	return out
}

// head weighs the four parts of its logits: similar tokens, near tokens, heavy tokens, and the first token.
type head struct {
	alike, near, heavy, first float64
	width                     float64 // width of the neighbourhood
	shift                     float64 // offset of its centre
	query, key, value         dense.Matrix[float64]
	mean                      []float64 // mean of the values
}

// newHead draws head h of a model. Four kinds take turns: neighbours, subjects, a broad view, and a mixture.
func newHead(h, dim int) head {
	r := rand.New(rng.Stream(model, 5, uint64(h), uint64(dim)))
	between := func(lo, hi float64) float64 { return lo + (hi-lo)*r.Float64() }
	a := head{heavy: between(0.6, 1.1), first: between(2, 7), width: math.Exp(between(math.Log(2), math.Log(12))),
		shift: float64(r.IntN(3) - 1)}
	switch h % 4 {
	case 0:
		a.alike, a.near = between(0.4, 0.9), between(3, 6)
	case 1:
		a.alike, a.near = between(1, 2.2), between(0.3, 1)
	case 2:
		a.alike, a.near = between(0.4, 0.9), between(0.2, 0.8)
	default:
		a.alike, a.near = between(0.7, 1.4), between(1, 3)
	}
	own := dim - 2*waves - 1
	a.query, a.key, a.value = dense.New[float64](own, hidden), dense.New[float64](own, hidden),
		dense.New[float64](dim, hidden)
	a.mean = make([]float64, dim)
	rng.Normals(a.query.Data, r)
	rng.Normals(a.key.Data, r)
	rng.Normals(a.value.Data, r)
	rng.Normals(a.mean, r)
	for l := range own {
		size := 1 / math.Sqrt(float64(l+1)) // some directions matter more
		for c := range hidden {
			x := a.query.At(l, c)
			a.query.Set(l, c, size*x)
			a.key.Set(l, c, size*(0.8*x+0.6*a.key.At(l, c)))
		}
	}
	return a
}

// frequency of wave f: periods from 6 to 900 positions.
func frequency(f int) float64 { return 2 * math.Pi / (6 * math.Pow(2.7, float64(f))) }

// apply writes the queries, keys and values of a text.
func apply[T dense.Float](a *head, q, k, v dense.Matrix[T], text []token) {
	own := a.query.Rows
	unit := math.Pow(float64(q.Cols), 0.25) // scales both sides, because the logits are q·k/√d
	var amplitude [waves]float64
	total, spread := 0.0, 0.0
	for f := range waves {
		w := frequency(f)
		amplitude[f] = w * math.Exp(-w*w*a.width*a.width/2)
		total += amplitude[f]
	}
	for l := range own {
		spread += 1 / float64((l+1)*(l+1))
	}
	// Makes alike the standard deviation of the logits of unrelated tokens.
	content := math.Sqrt(a.alike / math.Sqrt(spread) / 1.5)
	project := func(m dense.Matrix[float64], l int, x []float64) float64 { return dense.Dot(m.Row(l), x) }
	for j, t := range text {
		qr, kr := q.Row(j), k.Row(j)
		for l := range own {
			qr[l] = T(unit * content * project(a.query, l, t.is))
			kr[l] = T(unit * content * project(a.key, l, t.is))
		}
		for f := range waves {
			size := unit * math.Sqrt(a.near*amplitude[f]/total)
			sin, cos := math.Sincos(frequency(f) * (float64(j) + a.shift))
			qr[own+2*f], qr[own+2*f+1] = T(size*cos), T(size*sin)
			sin, cos = math.Sincos(frequency(f) * float64(j))
			kr[own+2*f], kr[own+2*f+1] = T(size*cos), T(size*sin)
		}
		weight := a.heavy * t.heavy
		if j == 0 {
			weight += a.first
		}
		qr[own+2*waves], kr[own+2*waves] = T(unit), T(unit*weight)
		for c := range v.Cols {
			x := project(a.value, c, t.is) + 0.22*a.mean[c]
			if j == 0 {
				x /= 3 // attention to the first token often means attention to none
			}
			v.Row(j)[c] = T(x)
		}
	}
}

// Generate returns n heads of queries, keys and values of dim columns, at least 16, over texts identified by
// numbers, one batch each. Head h is the same function of a text for every text and n, so another text is fresh
// data for it.
func Generate[T dense.Float](n, length, dim int, texts ...uint64) (q, k, v attention.Seq[T]) {
	q, k, v = attention.NewSeq[T](len(texts), n, length, dim), attention.NewSeq[T](len(texts), n, length, dim),
		attention.NewSeq[T](len(texts), n, length, dim)
	vocabulary := newVocabulary()
	for b, text := range texts {
		tokens := vocabulary.read(length, text)
		for h := range n {
			a := newHead(h, dim)
			apply(&a, q.Head(b, h), k.Head(b, h), v.Head(b, h), tokens)
		}
	}
	return q, k, v
}
