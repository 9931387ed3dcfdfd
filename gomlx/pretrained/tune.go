package pretrained

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path"
	"strings"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/internal/rng"
)

// Goal is the objective by which a converted model is trained.
type Goal string

// The goals. All but Next need a teacher.
const (
	Next  Goal = "next"  // decoders: −log p of the next token
	Embed Goal = "embed" // encoders: 1 − cosine with the teacher's embedding, and the distance of hidden states
	// Attend matches the attention outputs of the teacher: |o − ô|²/|o|² of every layer, on the rows that the
	// teacher's layer reads. Use it as a first phase: gradients pass through one attention each, and only the
	// teacher runs a full forward pass.
	Attend Goal = "attend"
)

// Tuning is the task of fine-tuning a converted model (train.Task). Batches are passages [batch, length] of token ids.
type Tuning struct {
	*Model
	Goal    Goal
	Teacher *Model // exact attention and the weights before training; nil with Next
	// Regime names the parameters to train. All others have no gradients and takes no optimiser memory. "" trains
	// everything.
	Regime train.Regime
}

var _ train.Task = Tuning{}

// MarshalJSON describes the model, attention and goal that a checkpoint belongs to.
func (t Tuning) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Config    Config
		Attention Attention
		Goal      Goal
		Regime    train.Regime
	}{t.Config, t.Attention, t.Goal, t.Regime})
}

// Validate implements train.Task.
func (t Tuning) Validate() error {
	switch {
	case t.Goal == Next && !t.Causal():
		return fmt.Errorf("%w: a %s has no next token: take %s or %s", ErrModel, t.Type, Embed, Attend)
	case t.Goal == Embed && t.Causal():
		return fmt.Errorf("%w: a %s is not an encoder: use %s or %s", ErrModel, t.Type, Next, Attend)
	case t.Goal != Next && t.Goal != Embed && t.Goal != Attend:
		return fmt.Errorf("%w: goal %q, want %s, %s or %s", ErrModel, t.Goal, Next, Embed, Attend)
	case t.Goal != Next && t.Teacher == nil:
		return fmt.Errorf("%w: goal %s without a teacher", ErrModel, t.Goal)
	case t.Goal != Next && (t.Teacher.Layers != t.Layers || t.Teacher.Width != t.Width || t.Teacher.Heads != t.Heads):
		return fmt.Errorf("%w: the teacher has another architecture", ErrModel)
	}
	return nil
}

// Outcome implements train.Task. Sums are over passages, except for Next, where they are over tokens.
func (t Tuning) Outcome(scope *model.Scope, batch []*Node) train.Outcome {
	ids := batch[0]
	in := func(m *Model, name string, still func(string) bool) net {
		return net{Model: m, scope: scope.Store().Scope("/" + name), g: ids.Graph(), still: still}
	}
	student := in(t.Model, scopeName, func(name string) bool {
		return t.Regime != "" && !t.Regime.Trains(t.Group(name))
	})
	if t.Goal == Next {
		out, n := student.forward(ids), ids.Shape().Dimensions[1]
		logits := student.logits(SliceAxis(out.Hidden, 1, AxisRangeFromStart(n-1)))
		return train.Score(logits, SliceAxis(ids, 1, AxisRangeToEnd(1)), points(out.Heads))
	}
	want := in(t.Teacher, teacherName, func(string) bool { return true }).forward(ids)
	var heads []Head
	var loss, right *Node
	if t.Goal == Attend {
		loss = ScalarZero(ids.Graph(), want.Hidden.DType())
		for l, h := range want.Heads {
			q, k, v := student.qkv(l, StopGradient(h.In))
			heads = append(heads, student.attend(l, q, k, v))
			loss = Add(loss, relative(heads[l].Out, h.Out))
		}
		loss = DivScalar(loss, float64(t.Layers))
		right = AddScalar(Neg(loss), 1)
	} else {
		out := student.forward(ids)
		heads = out.Heads
		right = ReduceAllMean(ReduceSum(Mul(Embedding(out.Hidden, nil), Embedding(StopGradient(want.Hidden), nil)), -1))
		loss = Add(AddScalar(Neg(right), 1), relative(out.Hidden, want.Hidden))
	}
	// Loss and score are means per passage; Outcome has sums.
	n := float64(ids.Shape().Dimensions[0])
	return train.Outcome{Loss: MulScalar(loss, n), Count: Scalar(ids.Graph(), loss.DType(), n),
		Right: MulScalar(right, n), Points: points(heads)}
}

func points(heads []Head) (all []train.Point) {
	for l, h := range heads {
		all = append(all, train.Point{Name: fmt.Sprintf("layer %d", l), Node: h.Out})
	}
	return all
}

// teacherName is the scope of a store that holds the weights of a teacher.
const teacherName = "teacher"

// relative returns |a − b|² / |b|² with b fixed.
func relative(a, b *Node) *Node {
	b = StopGradient(b)
	return Div(ReduceAllSum(Square(Sub(a, b))), ReduceAllSum(Square(b)))
}

// Initial implements train.Task. Parameters start with the weights of the folders.
func (t Tuning) Initial(name string, dims []int, _ uint64) []float32 {
	m := t.Model
	if strings.HasPrefix(name, "/"+teacherName+"/") {
		m = t.Teacher
	}
	w, ok := m.weights[path.Base(name)]
	if !ok {
		panic(fmt.Errorf("%w: no tensor for the variable %s", ErrModel, name))
	}
	return append([]float32{}, w.data...)
}

// Group implements train.Task.
func (t Tuning) Group(name string) train.Group {
	base := path.Base(name)
	var l int
	if _, err := fmt.Sscanf(base, darkFormat, &l); err == nil {
		return train.Kernel
	}
	for _, part := range []string{".attention.self.", ".attn.c_attn.", ".q_proj.", ".k_proj.", ".v_proj."} {
		if strings.Contains(base, part) {
			return train.Projections
		}
	}
	return train.Body
}

// Report describes a loss and a score. Only decoders have perplexities.
func (t Tuning) Report(loss, right float64) string {
	switch t.Goal {
	case Attend:
		return fmt.Sprintf("error of attention outputs %.4f", loss)
	case Embed:
		return fmt.Sprintf("loss %.4f, cosine %.4f", loss, right)
	}
	return fmt.Sprintf("loss %.4f, perplexity %.2f, accuracy %.4f", loss, math.Exp(loss), right)
}

// Refresh implements train.Task. It does nothing: the conversion drew the projections, and they stay.
func (t Tuning) Refresh(compute.Backend, *model.Scope, uint64, bool) error { return nil }

// Trained copies the parameters of a training run into the model.
func (t Tuning) Trained(values map[string][]float32) error {
	for name, w := range t.weights {
		data, ok := values["/"+scopeName+"/"+name]
		if !ok {
			continue // the graph does not use it, e.g. token types or an unused output layer
		}
		if len(data) != len(w.data) {
			return fmt.Errorf("%w: variable %s has %d numbers, want %d", ErrModel, name, len(data), len(w.data))
		}
		t.weights[name] = weight{w.shape, data}
	}
	return nil
}

// Passages is a source of batches of passages, of which the last ones are held out (train.Source).
type Passages struct {
	learn, held [][]int32
	batch       int
}

// NewPassages holds out the last passages: one batch at least, and a tenth if there are many.
func NewPassages(all [][]int32, batch int) (*Passages, error) {
	held := max(1, len(all)/10/max(1, batch)) * batch
	if batch < 1 || len(all) < held+batch {
		return nil, fmt.Errorf("%w: %d passages in batches of %d: two batches are needed", ErrModel, len(all), batch)
	}
	cut := len(all) - held
	return &Passages{all[:cut], all[cut:], batch}, nil
}

// Train implements train.Source. Every epoch visits the passages in a new order given by the seed.
func (p *Passages) Train(seed uint64, i int) train.Batch {
	per := len(p.learn) / p.batch
	order := rand.New(rng.Stream(seed, uint64(i/per))).Perm(len(p.learn))
	var rows [][]int32
	for _, j := range order[i%per*p.batch:][:p.batch] {
		rows = append(rows, p.learn[j])
	}
	return together(rows)
}

// Held implements train.Source.
func (p *Passages) Held() int { return len(p.held) / p.batch }

// HeldOut implements train.Source.
func (p *Passages) HeldOut(i int) train.Batch { return together(p.held[i*p.batch:][:p.batch]) }

// Items implements train.Source: tokens per batch.
func (p *Passages) Items() int { return p.batch * len(p.learn[0]) }

func together(rows [][]int32) train.Batch {
	var flat []int32
	for _, r := range rows {
		flat = append(flat, r...)
	}
	return train.Batch{tensors.FromFlatDataAndDimensions(flat, len(rows), len(rows[0]))}
}
