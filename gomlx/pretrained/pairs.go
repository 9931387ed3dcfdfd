package pretrained

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

// Pair is two texts and, if people rated them, how similar they are.
type Pair struct {
	Texts [2]string
	Score float64
}

// ReadPairs reads lines of two texts and a score, separated by tabs. Either all lines of a file have scores or none.
func ReadPairs(r io.Reader) (pairs []Pair, scored bool, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		parts := strings.Split(lines.Text(), "\t")
		if n == 1 {
			scored = len(parts) == 3
		}
		if len(parts) != 2 && !scored || len(parts) != 3 && scored {
			return nil, scored, fmt.Errorf("line %d has %d columns, want two texts and, on all lines or on none, a score",
				n, len(parts))
		}
		p := Pair{Texts: [2]string{parts[0], parts[1]}}
		if scored {
			if p.Score, err = strconv.ParseFloat(parts[2], 64); err != nil {
				return nil, scored, fmt.Errorf("line %d: the score %q is not a number", n, parts[2])
			}
		}
		pairs = append(pairs, p)
	}
	return pairs, scored, lines.Err()
}

// PairComparison compares two encoders on pairs of texts, as benchmarks of textual similarity do.
type PairComparison struct {
	Pairs int `json:"pairs"`
	Cut   int `json:"cut,omitempty"` // texts that were cut to the length
	// Rank is the rank correlation (Spearman) between the cosines that the two models give to the pairs. Score is
	// the rank correlation of each model with the human scores. Intervals are as in Comparison.
	Rank           float64       `json:"rank"`
	RankInterval   [2]float64    `json:"rank_interval,omitzero"`
	Score          [2]float64    `json:"score,omitzero"`
	ScoreIntervals [2][2]float64 `json:"score_intervals,omitzero"`
	Lost           [2]float64    `json:"lost_interval,omitzero"` // interval of the difference of the two scores
}

// ComparePairs runs both encoders on the texts, cut to at most length tokens.
func ComparePairs(b compute.Backend, first, second *Model, pairs []Pair, scored bool, length int) (PairComparison,
	error) {
	c := PairComparison{Pairs: len(pairs)}
	if first.Causal() || second.Causal() || first.Vocabulary != second.Vocabulary {
		return c, fmt.Errorf("%w: pairs of texts are for two encoders of one vocabulary", ErrModel)
	}
	if len(pairs) < 2 {
		return c, fmt.Errorf("%w: %d pairs have no ranks", ErrModel, len(pairs))
	}
	texts := make([]string, 0, 2*len(pairs))
	for _, p := range pairs {
		texts = append(texts, p.Texts[:]...)
	}
	var like [3][]float64
	for i, m := range []*Model{first, second} {
		all, cut, err := m.embed(b, texts, length)
		if err != nil {
			return c, err
		}
		c.Cut = cut
		for p := range pairs {
			like[i] = append(like[i], dot(all[2*p], all[2*p+1]))
		}
	}
	for _, p := range pairs {
		like[2] = append(like[2], p.Score)
	}
	rank := func(i, j int) func(pick []int) float64 {
		return func(pick []int) float64 {
			var a, b []float64
			for _, p := range pick {
				a, b = append(a, like[i][p]), append(b, like[j][p])
			}
			return correlation(ranks(a), ranks(b))
		}
	}
	everyone := make([]int, len(pairs))
	for i := range everyone {
		everyone[i] = i
	}
	c.Rank, c.RankInterval = rank(0, 1)(everyone), again(len(pairs), rank(0, 1))
	if scored {
		for i := range c.Score {
			c.Score[i], c.ScoreIntervals[i] = rank(i, 2)(everyone), again(len(pairs), rank(i, 2))
		}
		c.Lost = again(len(pairs), func(pick []int) float64 { return rank(0, 2)(pick) - rank(1, 2)(pick) })
	}
	return c, nil
}

// embed returns the embedding of every text and the number of texts that were cut.
func (m *Model) embed(b compute.Backend, texts []string, length int) (out [][]float32, cut int, err error) {
	const batch = 16
	if length < 3 || length > m.Positions {
		return nil, 0, fmt.Errorf("texts of %d tokens: the model takes 3 to %d", length, m.Positions)
	}
	t, err := m.tokenizer()
	if err != nil {
		return nil, 0, err
	}
	store := model.NewStore()
	defer store.Finalize()
	if err := m.Fill(store); err != nil {
		return nil, 0, err
	}
	exec, err := model.NewExec1(b, store, func(scope *model.Scope, ids, mask *graph.Node) *graph.Node {
		return Embedding(m.Forward(scope, ids, mask).Hidden, mask)
	})
	if err != nil {
		return nil, 0, err
	}
	defer exec.Finalize()
	for at := 0; at < len(texts); at += batch {
		ids, mask := make([]int32, batch*length), make([]bool, batch*length)
		for i := range batch { // the last batch is filled up with its first text, so that one graph serves all
			text := texts[at]
			if at+i < len(texts) {
				text = texts[at+i]
			}
			all := t.Encode(nil, text)
			if len(all)+t.Markers() > length {
				cut++
			}
			all = t.Wrap(nil, all, length)
			if err := m.checkIDs(all); err != nil {
				return nil, 0, fmt.Errorf("text %d: %w", at+i+1, err)
			}
			for j, id := range all {
				ids[i*length+j], mask[i*length+j] = id, true
			}
		}
		t, err := exec.Call(tensors.FromFlatDataAndDimensions(ids, batch, length),
			tensors.FromFlatDataAndDimensions(mask, batch, length))
		if err != nil {
			return nil, 0, fmt.Errorf("texts from %d: %w", at+1, err)
		}
		data, err := tensors.CopyFlatData[float32](t)
		if err != nil {
			return nil, 0, err
		}
		if err := t.FinalizeAll(); err != nil {
			return nil, 0, err
		}
		for i := range min(batch, len(texts)-at) {
			out = append(out, data[i*m.Width:][:m.Width])
		}
	}
	return out, cut, nil
}
