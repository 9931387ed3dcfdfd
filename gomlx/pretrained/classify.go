package pretrained

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/rfx"
	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/internal/rng"
)

// Classifying fine-tunes an encoder to classify texts (train.Task): a linear layer on the mean of the rows that are
// not padding. Batches are token ids [batch, length], labels [batch] (−1: ignored) and the mask of tokens [batch,
// length], as corpus.Labelled returns them.
type Classifying struct {
	*Model
	Classes int
}

// MarshalJSON describes the model and attention that a checkpoint belongs to.
func (t Classifying) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Config    Config
		Attention Attention
		Classes   int
	}{t.Config, t.Attention, t.Classes})
}

// Validate implements train.Task.
func (t Classifying) Validate() error {
	if t.Causal() || t.Classes < 2 {
		return fmt.Errorf("%w: %d classes of a %s: take an encoder and two classes or more", ErrModel, t.Classes, t.Type)
	}
	return nil
}

// Variables of the linear layer.
const (
	headWeight = "classes.weight"
	headBias   = "classes.bias"
)

// Outcome implements train.Task.
func (t Classifying) Outcome(scope *model.Scope, batch []*Node) train.Outcome {
	ids, labels, mask := batch[0], batch[1], batch[2]
	n := net{Model: t.Model, scope: scope.Store().Scope("/" + scopeName), g: ids.Graph(), see: rfx.Visible{Mask: mask}}
	out := n.forward(ids)
	on := ExpandAxes(ConvertDType(mask, dtypes.Float32), -1)
	mean := Div(ReduceSum(Mul(out.Hidden, on), 1), MaxScalar(ReduceSum(on, 1), 1.0))
	variable := func(name string, dims ...int) *Node {
		return n.scope.VariableWithShape(name, shapes.Make(dtypes.Float32, dims...)).NodeValue(n.g)
	}
	logits := Add(Einsum("bw,cw->bc", mean, variable(headWeight, t.Classes, t.Width)),
		ExpandAxes(variable(headBias, t.Classes), 0))
	return train.Score(logits, labels, points(out.Heads))
}

// Initial implements train.Task. The encoder starts with the weights of its folder, the linear layer with small
// random ones.
func (t Classifying) Initial(name string, dims []int, seed uint64) []float32 {
	switch base := path.Base(name); base {
	case headBias:
		return make([]float32, dims[0])
	case headWeight:
		x, r := make([]float32, dims[0]*dims[1]), rand.New(rng.Stream(seed, 'c'))
		for i := range x {
			x[i] = float32(r.NormFloat64() / math.Sqrt(float64(dims[1])))
		}
		return x
	default:
		return Tuning{Model: t.Model}.Initial(name, dims, seed)
	}
}

// Group implements train.Task.
func (t Classifying) Group(name string) train.Group { return Tuning{Model: t.Model}.Group(name) }

// Refresh implements train.Task. It does nothing: the conversion drew the projections, and they stay.
func (t Classifying) Refresh(compute.Backend, *model.Scope, uint64, bool) error { return nil }

// Texts returns the token ids of texts with the encoder's special tokens, cut to a length. The parts of a text, such
// as the two sentences of a pair, are separated by the token that ends a text. The longest part is shortened first.
func (m *Model) Texts(texts [][]string, length int) ([][]int32, error) {
	t, err := m.tokenizer()
	if err != nil {
		return nil, err
	}
	if m.Causal() || length > m.Positions {
		return nil, fmt.Errorf("%w: texts of %d tokens for a %s of %d positions", ErrModel, length, m.Type, m.Positions)
	}
	around := t.Wrap(nil, nil, 0)
	if len(around) != 2 {
		return nil, fmt.Errorf("%w: the tokenizer adds %d tokens around a text, want 2", ErrModel, len(around))
	}
	before, after := around[:1], around[1:]
	all := make([][]int32, len(texts))
	for i, parts := range texts {
		if length < 2*len(parts)+1 || len(parts) == 0 {
			return nil, fmt.Errorf("%w: text %d: %d parts in %d tokens", ErrModel, i, len(parts), length)
		}
		ids, total := make([][]int32, len(parts)), t.Markers()
		for j, part := range parts {
			ids[j] = t.Encode(nil, strings.TrimSpace(part))
			total += len(ids[j])
		}
		for total += (len(parts) - 1) * len(after); total > length; total-- {
			longest := 0
			for j := range ids {
				if len(ids[j]) > len(ids[longest]) {
					longest = j
				}
			}
			ids[longest] = ids[longest][:len(ids[longest])-1]
		}
		all[i] = append(all[i], before...)
		for _, part := range ids {
			all[i] = append(append(all[i], part...), after...)
		}
		if err := m.checkIDs(all[i]); err != nil {
			return nil, fmt.Errorf("text %d: %w", i, err)
		}
	}
	return all, nil
}
