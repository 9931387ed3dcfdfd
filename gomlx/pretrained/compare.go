package pretrained

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/internal/rng"
)

// Comparison compares a model with another on the same passages. Pairs of numbers are of the first and the second
// model.
type Comparison struct {
	Length   int `json:"length"`
	Passages int `json:"passages"`
	// Encoders: mean and smallest cosine between the two embeddings of a passage, and the rank correlation
	// (Spearman) of the similarities of all pairs of passages.
	Cosine      float64 `json:"cosine,omitempty"`
	CosineWorst float64 `json:"cosine_worst,omitempty"`
	Rank        float64 `json:"rank,omitempty"`
	// Decoders: perplexities of the next token, and |Δ|/|logits| of logits centred per token.
	Perplexity [2]float64 `json:"perplexity,omitzero"`
	Logits     float64    `json:"logits,omitempty"`
	// Attention is the median over heads of |o − ô|/|o|: o is the output of the first model's head, ô that of the
	// second's on the rows that the first model's layer reads. Heads of exact layers do not count. Attention and
	// Logits are measured on the first Judged passages. Attention is zero if the architectures differ.
	Attention float64 `json:"attention,omitempty"`
	// 95 % bootstrap intervals over passages: of the mean cosine and the rank correlation, or of the ratio of
	// perplexities. Zeros for fewer than four passages.
	CosineInterval [2]float64 `json:"cosine_interval,omitzero"`
	RankInterval   [2]float64 `json:"rank_interval,omitzero"`
	RatioInterval  [2]float64 `json:"ratio_interval,omitzero"`
	// Ms is the median time of one passage in milliseconds. Cache is the number of bytes that generation keeps per
	// sequence of this length.
	Ms    [2]float64 `json:"ms"`
	Cache [2]int     `json:"cache_bytes,omitzero"`
}

// Judged is the largest number of passages on which the attention of heads is compared.
const Judged = 8

// Compare runs both models on passages of one length.
func Compare(b compute.Backend, first, second *Model, passages [][]int32) (Comparison, error) {
	j, err := NewJudge(b, first, passages)
	if err != nil {
		return Comparison{}, err
	}
	return j.Compare(second, true)
}

// Judge compares models with a first one on passages of equal length. The first model runs only once.
type Judge struct {
	b        compute.Backend
	first    *Model
	passages [][]int32
	out      [][]float32
	ms       float64
}

// NewJudge runs the first model on the passages.
func NewJudge(b compute.Backend, first *Model, passages [][]int32) (*Judge, error) {
	if len(passages) == 0 {
		return nil, fmt.Errorf("%w: no passages", ErrModel)
	}
	j := &Judge{b: b, first: first, passages: passages}
	var err error
	j.out, j.ms, err = first.run(b, passages)
	return j, err
}

// Compare runs a second model. It measures Attention and Logits only if heads is set: they need a graph of both models,
// which takes XLA longer to compile than all others.
func (j *Judge) Compare(second *Model, heads bool) (Comparison, error) {
	first, passages := j.first, j.passages
	c := Comparison{Passages: len(passages), Length: len(passages[0])}
	if first.Causal() != second.Causal() || first.Vocabulary != second.Vocabulary {
		return c, fmt.Errorf("%w: a %s of %d tokens beside a %s of %d", ErrModel, first.Type, first.Vocabulary,
			second.Type, second.Vocabulary)
	}
	two, ms, err := second.run(j.b, passages)
	if err != nil {
		return c, err
	}
	out := [2][][]float32{j.out, two}
	c.Ms = [2]float64{j.ms, ms}
	if first.Causal() {
		c.Cache = [2]int{first.CacheBytes(c.Length), second.CacheBytes(c.Length)}
	}
	if heads {
		some := passages[:min(len(passages), Judged)]
		if c.Attention, c.Logits, err = beside(j.b, first, second, some); err != nil {
			return c, err
		}
	}
	if !first.Causal() {
		c.embeddings(out)
		return c, nil
	}
	var loss [2]float64
	excess := make([]float64, len(passages)) // nats per token of the second model above the first
	for p := range passages {
		for i := range loss {
			nats := float64(out[i][p][0])
			loss[i] += nats / float64(len(passages))
			excess[p] += float64(2*i-1) * nats
		}
	}
	c.Perplexity = [2]float64{math.Exp(loss[0]), math.Exp(loss[1])}
	c.RatioInterval = again(len(excess), func(pick []int) float64 { return math.Exp(meanOf(excess, pick)) })
	return c, nil
}

func meanOf(x []float64, pick []int) (mean float64) {
	for _, i := range pick {
		mean += x[i] / float64(len(pick))
	}
	return mean
}

// again returns the 95 % bootstrap interval of a statistic of n samples: it resamples them with replacement.
func again(n int, statistic func(pick []int) float64) (interval [2]float64) {
	if n < 4 {
		return interval
	}
	r := rand.New(rng.Stream(uint64(n), 'b'))
	all := make([]float64, 1000)
	pick := make([]int, n)
	for i := range all {
		for j := range pick {
			pick[j] = r.IntN(n)
		}
		all[i] = statistic(pick)
	}
	slices.Sort(all)
	return [2]float64{all[25], all[974]}
}

// run returns the embedding of every passage, or for decoders the mean −log p of its tokens without the first, and
// the median time of a passage.
func (m *Model) run(b compute.Backend, passages [][]int32) (out [][]float32, ms float64, err error) {
	store := model.NewStore()
	defer store.Finalize()
	if err := m.Fill(store); err != nil {
		return nil, 0, err
	}
	exec, err := model.NewExec1(b, store, func(scope *model.Scope, ids *graph.Node) *graph.Node {
		hidden := m.Forward(scope, ids, nil).Hidden
		if m.Causal() {
			n := len(passages[0])
			// Logits take most of the memory, so they do not leave the graph.
			o := train.Score(m.Logits(scope, graph.SliceAxis(hidden, 1, graph.AxisRangeFromStart(n-1))),
				graph.SliceAxis(ids, 1, graph.AxisRangeToEnd(1)), nil)
			return graph.Reshape(graph.Div(o.Loss, o.Count), 1)
		}
		return Embedding(hidden, nil)
	})
	if err != nil {
		return nil, 0, err
	}
	defer exec.Finalize()
	var times []float64
	for i, ids := range passages {
		if err := m.checkIDs(ids); err != nil {
			return nil, 0, fmt.Errorf("passage %d: %w", i, err)
		}
		if len(ids) != len(passages[0]) {
			return nil, 0, fmt.Errorf("passage %d has %d tokens, the first %d", i, len(ids), len(passages[0]))
		}
		for round := range 2 { // the first call compiles
			if round == 1 && i > 0 {
				break
			}
			from := time.Now()
			t, err := exec.Call(tensors.FromFlatDataAndDimensions(ids, 1, len(ids)))
			if err != nil {
				return nil, 0, fmt.Errorf("passage %d: %w", i, err)
			}
			data, err := tensors.CopyFlatData[float32](t)
			if err != nil {
				return nil, 0, err
			}
			if i > 0 || round > 0 {
				times = append(times, time.Since(from).Seconds()*1e3)
				out = append(out, data)
			}
			if err := t.FinalizeAll(); err != nil {
				return nil, 0, err
			}
		}
	}
	slices.Sort(times)
	return out, times[len(times)/2], nil
}

// beside runs the second model's attention on the rows that the first model's layers read, and returns the median of
// |o − ô|/|o| over heads. For decoders it also runs the whole second model and returns |Δ|/|logits|.
func beside(b compute.Backend, first, second *Model, passages [][]int32) (attention, logits float64, err error) {
	same := first.Layers == second.Layers && first.Width == second.Width && first.Heads == second.Heads
	if !same && !first.Causal() {
		return 0, 0, nil
	}
	store := model.NewStore()
	defer store.Finalize()
	if err := errors.Join(first.fill(store, teacherName), second.fill(store, scopeName)); err != nil {
		return 0, 0, err
	}
	exec, err := model.NewExec1(b, store, func(scope *model.Scope, ids *graph.Node) *graph.Node {
		in := func(m *Model, name string) net {
			return net{Model: m, scope: store.Scope("/" + name), g: ids.Graph()}
		}
		one, two := in(first, teacherName), in(second, scopeName)
		want := one.forward(ids)
		var sums []*graph.Node // per layer: squared errors and squares by head; at the end those of logits
		square := func(x *graph.Node, axes ...int) {
			sums = append(sums, graph.Reshape(graph.ReduceSum(graph.Square(x), axes...), -1))
		}
		if same {
			for l, h := range want.Heads {
				q, k, v := two.qkv(l, h.In)
				square(graph.Sub(two.attend(l, q, k, v).Out, h.Out), 0, 2, 3)
				square(h.Out, 0, 2, 3)
			}
		}
		if first.Causal() {
			centred := func(n net, hidden *graph.Node) *graph.Node {
				x := n.logits(hidden)
				return graph.Sub(x, graph.ReduceAndKeep(x, graph.ReduceMean, -1))
			}
			x := centred(one, want.Hidden)
			square(graph.Sub(centred(two, two.forward(ids).Hidden), x))
			square(x)
		} else {
			// The Go backend (compute v0.1.5) runs past its buffers if the end of a graph feeds no output.
			square(want.Hidden)
		}
		return graph.Concatenate(sums, 0)
	})
	if err != nil {
		return 0, 0, err
	}
	defer exec.Finalize()
	var total []float64
	for _, ids := range passages {
		t, err := exec.Call(tensors.FromFlatDataAndDimensions(ids, 1, len(ids)))
		if err != nil {
			return 0, 0, err
		}
		data, err := tensors.CopyFlatData[float32](t)
		if err != nil {
			return 0, 0, err
		}
		if err := t.FinalizeAll(); err != nil {
			return 0, 0, err
		}
		if total == nil {
			total = make([]float64, len(data))
		}
		for i, x := range data {
			total[i] += float64(x)
		}
	}
	if same {
		var all []float64
		for l := range first.Layers {
			wrong, norm := total[:first.Heads], total[first.Heads:2*first.Heads]
			if total = total[2*first.Heads:]; second.exact(l) {
				continue
			}
			for h := range wrong {
				if norm[h] == 0 {
					continue
				}
				all = append(all, math.Sqrt(wrong[h]/norm[h]))
			}
		}
		if slices.Sort(all); len(all) > 0 {
			attention = all[len(all)/2]
		}
	}
	if first.Causal() {
		logits = math.Sqrt(total[0] / total[1])
	}
	return attention, logits, nil
}

// CacheBytes returns the bytes that generation keeps for a sequence of length tokens, in float32: all keys and values
// of exact layers, and the sums and near keys of the others.
func (m *Model) CacheBytes(length int) int {
	total := 0
	for l := range m.Layers {
		pair := 2 * m.HeadDim
		switch {
		case m.Local(l):
			total += m.KVHeads * pair * min(length, m.Window)
		case m.exact(l):
			total += m.KVHeads * pair * length
		case m.Attention.Centroids != nil:
			total += m.KVHeads * m.clusters(m.Attention, l).StateNumbers(m.HeadDim, m.HeadDim)
			if m.Attention.Exact > 0 { // which may choose any of all keys
				total += m.KVHeads * pair * length
			}
		default:
			f, err := m.Attention.Heads[l][0].OutDim()
			if err != nil {
				panic(err) // cannot happen: SetAttention has drawn the same spec
			}
			total += m.KVHeads * (f*(m.HeadDim+2) + pair*min(length, m.Attention.Window+m.Attention.Sinks))
		}
	}
	return 4 * total
}

func dot(a, b []float32) (s float64) {
	for i := range a {
		s += float64(a[i]) * float64(b[i])
	}
	return s
}

// embeddings fills in the fields for encoders. Embeddings have length 1, so products are cosines.
func (c *Comparison) embeddings(out [2][][]float32) {
	n := len(out[0])
	cosines, everyone := make([]float64, n), make([]int, n)
	for i := range n {
		cosines[i], everyone[i] = dot(out[0][i], out[1][i]), i
	}
	c.Cosine, c.CosineWorst = meanOf(cosines, everyone), slices.Min(cosines)
	c.CosineInterval = again(n, func(pick []int) float64 { return meanOf(cosines, pick) })
	like := [2][]float64{make([]float64, n*n), make([]float64, n*n)}
	for k := range like {
		for i := range n {
			for j := range i {
				like[k][i*n+j] = dot(out[k][i], out[k][j])
				like[k][j*n+i] = like[k][i*n+j]
			}
		}
	}
	rank := func(pick []int) float64 {
		var pairs [2][]float64
		for i, a := range pick {
			for _, b := range pick[:i] {
				if a == b { // a passage that the bootstrap drew twice
					continue
				}
				for k := range pairs {
					pairs[k] = append(pairs[k], like[k][a*n+b])
				}
			}
		}
		return correlation(ranks(pairs[0]), ranks(pairs[1]))
	}
	c.Rank, c.RankInterval = rank(everyone), again(n, rank)
}

// ranks returns the ranks of values; ties get their mean rank.
func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case x[a] < x[b]:
			return -1
		case x[a] > x[b]:
			return 1
		}
		return 0
	})
	r := make([]float64, len(x))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			r[k] = float64(i+j-1) / 2
		}
		i = j
	}
	return r
}

func correlation(a, b []float64) float64 {
	var ma, mb, ab, aa, bb float64
	for i := range a {
		ma += a[i] / float64(len(a))
		mb += b[i] / float64(len(b))
	}
	for i := range a {
		ab += (a[i] - ma) * (b[i] - mb)
		aa += (a[i] - ma) * (a[i] - ma)
		bb += (b[i] - mb) * (b[i] - mb)
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}
