package control

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/kernel"
)

// Attention says how a policy scores pixels.
type Attention string

// Kinds of attention, and a policy that sees nothing.
const (
	Exact   Attention = "exact"
	Favor   Attention = "FAVOR+ 256"
	Angular Attention = "angular 8×8"
	Blind   Attention = "blind"
)

const (
	tokenDim = 5 // depth, its slope, row, column, 1
	headDim  = 8
	hidden   = 8
	inputs   = Rows + 2 // depths by row, speed, 1
	keep     = Pixels / 4
)

// Params is the number of parameters of a policy.
const Params = 2*tokenDim*headDim + inputs*hidden + hidden + 1

// Masked is the implicit attention policy, masking variant (Choromanski et al. 2021a). Every pixel is a token with a
// query and a key of length 1. The score of a pixel is the attention it gets from all pixels, Σ_i exp(q_i·k_j),
// which features compute in linear time. The quarter of the pixels with the highest scores is kept, the rest is set
// to zero. The row means of the masked image and the speed enter a small network. It must not be used by concurrent
// calls.
type Masked struct {
	kind  Attention
	m     *randfeat.Map[float32]
	theta []float64
	w     [2 * tokenDim * headDim]float32 // first part of theta: queries, then keys

	ws        randfeat.Workspace[float32]
	q, k      dense.Matrix[float32]
	pq, pk    dense.Matrix[float32]
	score     []float32
	order     []float32
	Mask      []bool // of the last image
	queriesOf []float32
	// For exact attention: packed keys, and a shift of zero.
	tab  *kern.Table[float32]
	keys kern.Panel[float32]
	zero []float32
}

// Spec returns the feature map of a kind of attention; ok is false if it has none.
func (a Attention) Spec(seed uint64) (s randfeat.Spec, ok bool) {
	s = randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Dim: headDim, Seed: seed}
	switch a {
	case Favor:
		s.Family, s.Coupling, s.M = family.Positive{}, coupling.Orthogonal{}, 256
	case Angular:
		s.Family, s.Coupling, s.M = family.Angular{N: 8}, coupling.Orthogonal{}, 8
	default:
		return s, false
	}
	return s, true
}

// NewMasked makes a policy with the projections of a seed.
func NewMasked(kind Attention, seed uint64) (*Masked, error) {
	p := &Masked{kind: kind, q: dense.New[float32](Pixels, headDim), k: dense.New[float32](Pixels, headDim),
		score: make([]float32, Pixels), order: make([]float32, Pixels), Mask: make([]bool, Pixels)}
	p.ws.Workers, p.tab = 1, kern.Best[float32]()
	if s, ok := kind.Spec(seed); ok {
		var err error
		if p.m, err = randfeat.New[float32](s); err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		p.pq, p.pk = dense.New[float32](Pixels, p.m.OutDim()), dense.New[float32](Pixels, p.m.OutDim())
		p.queriesOf = make([]float32, p.m.OutDim())
	} else if kind == Exact {
		const block = 32 // queries at a time, so that the scores stay in the cache
		p.pq, p.zero = dense.New[float32](block, Pixels), make([]float32, block)
	} else if kind != Blind {
		return nil, fmt.Errorf("no attention %q", kind)
	}
	return p, nil
}

// Set sets the Params parameters of the policy. It keeps the slice.
func (p *Masked) Set(theta []float64) {
	p.theta = theta
	for i := range p.w {
		p.w[i] = float32(theta[i])
	}
}

// Move implements Policy.
func (p *Masked) Move(image []float32, speed float64) float64 {
	var in [inputs]float64
	if p.kind != Blind {
		p.tokens(image)
		p.scores()
		p.mask()
		for i, on := range p.Mask {
			if on {
				in[i/Cols] += float64(image[i]) / Cols
			}
		}
	}
	in[Rows], in[Rows+1] = speed-pace, 1
	w := p.theta[2*tokenDim*headDim:]
	out := w[inputs*hidden+hidden]
	for h := range hidden {
		s := 0.0
		for i, v := range in {
			s += w[h*inputs+i] * v
		}
		out += w[inputs*hidden+h] * math.Tanh(s)
	}
	return reach * math.Tanh(out)
}

// tokens computes queries and keys of length 1.
func (p *Masked) tokens(image []float32) {
	for i := range Pixels {
		r, c := i/Cols, i%Cols
		slope := float32(0)
		if r > 0 {
			slope = image[i] - image[i-Cols]
		}
		x := [tokenDim]float32{image[i], slope, 2*float32(r)/Rows - 1, 2*float32(c)/Cols - 1, 1}
		for side, row := range [2][]float32{p.q.Row(i), p.k.Row(i)} {
			w := p.w[side*tokenDim*headDim : (side+1)*tokenDim*headDim]
			clear(row)
			for t, a := range x {
				for j, v := range w[t*headDim : (t+1)*headDim] {
					row[j] += a * v
				}
			}
			sum := float32(0)
			for _, v := range row {
				sum += v * v
			}
			if sum > 0 {
				scale := 1 / float32(math.Sqrt(float64(sum)))
				for j := range row {
					row[j] *= scale
				}
			}
		}
	}
}

// scores computes Σ_i K(q_i, k_j). Queries and keys have length 1, so exponents are at most 1 and nothing overflows.
func (p *Masked) scores() {
	clear(p.score)
	if p.m == nil {
		p.tab.Pack(&p.keys, p.k)
		for i := 0; i < Pixels; i += p.pq.Rows {
			p.tab.MulTExp(p.pq, p.q.RowRange(i, i+p.pq.Rows), &p.keys, nil, p.zero)
			p.tab.ColSum(p.score, p.pq)
		}
		return
	}
	// A map only fails on wrong shapes and rows that are not finite, and the parameters are finite.
	if err := p.m.Queries(p.pq, nil, p.q, &p.ws); err != nil {
		panic(err)
	}
	if err := p.m.Keys(p.pk, nil, p.k, &p.ws); err != nil {
		panic(err)
	}
	clear(p.queriesOf)
	p.tab.ColSum(p.queriesOf, p.pq)
	p.tab.MulV(p.score, p.pk, p.queriesOf)
}

// mask keeps the pixels with the highest scores, including all that tie with the last.
func (p *Masked) mask() {
	copy(p.order, p.score)
	slices.Sort(p.order)
	least := p.order[Pixels-keep]
	for i, s := range p.score {
		p.Mask[i] = s >= least
	}
}

// Operations of one policy step for the scores of all pixels: multiply-adds, and exponentials, sines and cosines.
type Operations struct{ Products, Functions int }

// Total counts a function as ten products.
func (o Operations) Total() int { return o.Products + 10*o.Functions }

// Operations returns the operations of a kind of attention.
func (a Attention) Operations() (o Operations) {
	const both = 2 * Pixels // queries and keys
	switch a {
	case Exact:
		o = Operations{Pixels * Pixels * (headDim + 1), Pixels * Pixels}
	case Favor:
		o = Operations{both*256*headDim + both*256, both * 256}
	case Angular:
		// Projections of the two bases (8 each, not shared) and of the signs (8), exp(±) and sin, cos of the bases,
		// their products with the signs (32 base features, plain and times 8), and the sums.
		features := 4 * 8 * 9
		o = Operations{both*(3*8*headDim) + both*features + both*features, both * 4 * 8}
	}
	return o
}
