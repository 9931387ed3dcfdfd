package layer

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/gomlx/rfx"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// keptRows is the number of queries and of keys of the last batch that every head keeps for Refresh.
const keptRows = 512

// ErrRows is returned by Refresh when a fit is asked for before any rows were seen.
var ErrRows = errors.New("no rows seen yet: take a training step before the fit")

// spec returns the spec that all heads start with.
func (l SelfAttention) spec(scope *model.Scope) (randfeat.Spec, error) {
	dim := l.HeadDim
	if rows := model.GetParamOr(scope, ParamDark, 0); rows > 0 {
		dim = rows
	}
	s, err := parse(model.GetParamOr(scope, ParamAttention, "exact"), dim)
	s.Kernel = kernel.Kernel{Kind: kernel.Softmax, Scale: math.Pow(float64(l.HeadDim), 0.25)}
	s.Seed = seed(scope)
	if err != nil {
		return s, err
	}
	// Variable numbers must have the structure of fitted ones from the start, so parameters that were not given are
	// fitted to standard normal rows. Clusters given without centres count as not given.
	given := strings.HasPrefix(model.GetParamOr(scope, ParamAttention, "exact"), "{")
	if given {
		_, err := s.Family.Draws(s.Kernel.Kind, dim, s.M)
		given = err == nil
	}
	if _, fits := s.Family.(family.Fitter); fits && !given && model.GetParamOr(scope, ParamVariable, false) {
		x := dense.New[float64](8*dim, dim)
		y := dense.New[float64](8*dim, dim)
		rng.Normals(x.Data, rng.Stream(1))
		rng.Normals(y.Data, rng.Stream(2))
		return randfeat.Fit(s, x, y)
	}
	return s, nil
}

// linear returns the attention by features for the graph of like. Its numbers are constants, variables or one
// trained variable, as the parameters of the scope say.
func (l SelfAttention) linear(scope *model.Scope, like *Node) (rfx.Attention, error) {
	a := rfx.Attention{Causal: l.Causal, Window: model.GetParamOr(scope, ParamWindow, 0),
		Sinks: model.GetParamOr(scope, ParamSinks, 0), Double: model.GetParamOr(scope, ParamDouble, false)}
	if a.Map = l.Maps; a.Map == nil {
		spec, err := l.spec(scope)
		if err != nil {
			return a, err
		}
		if a.Map, err = rfx.NewMap(linear.HeadSpecs(spec, l.KVHeads)...); err != nil {
			kind := model.GetParamOr(scope, ParamAttention, "exact")
			return a, fmt.Errorf("%s %q: %w", ParamAttention, kind, err)
		}
	}
	in := scope.At("features")
	switch {
	case learned(scope):
		// Queries and keys share the learned projections, the only matrix of the positive map.
		a.Map = a.Map.With(func(name string, value *tensors.Tensor) *Node {
			if value.Rank() == 3 {
				return in.VariableWithValue("lfk", value).NodeValue(like)
			}
			return in.VariableWithValue(name, value).SetTrainable(false).NodeValue(like)
		})
	case model.GetParamOr(scope, ParamVariable, false):
		a.Map = a.Map.With(func(name string, value *tensors.Tensor) *Node {
			return in.VariableWithValue(name, value).SetTrainable(false).NodeValue(like)
		}).Fixed()
	}
	return a, nil
}

// learned reports whether the projections are trained, as in the learned feature kernel (DARK §6).
func learned(scope *model.Scope) bool {
	return isLFK(scope) || model.GetParamOr(scope, ParamLearned, false)
}

func isLFK(scope *model.Scope) bool {
	kind, _, _ := strings.Cut(model.GetParamOr(scope, ParamAttention, "exact"), ":")
	return kind == "lfk"
}

// keep stores rows of this batch for Refresh. Rows of padding are stored as NaN.
func (l SelfAttention) keep(scope *model.Scope, q, k *Node, see rfx.Visible) {
	in := scope.At("features")
	for _, side := range []struct {
		name string
		x    *Node
	}{{"queries", q}, {"keys", k}} {
		x := StopGradient(ConvertDType(side.x, dtypes.Float32))
		d := x.Shape().Dimensions // [batch, heads, length, dim]
		if see.Mask != nil {
			on := Reshape(see.Mask, d[0], 1, d[2], 1)
			x = Where(BroadcastToDims(on, d...), x, FillScalar(x.Graph(), x.Shape(), math.NaN()))
		}
		group := d[1] / l.KVHeads
		x = Reshape(x, d[0], l.KVHeads, group*d[2], d[3])
		x = Reshape(TransposeAllAxes(x, 1, 0, 2, 3), l.KVHeads, d[0]*group*d[2], d[3])
		if n := d[0] * group * d[2]; n > keptRows { // take rows spread over the batch
			stride := n / keptRows
			x = Slice(x, AxisRange(), AxisRange(0, stride*keptRows).Stride(stride), AxisRange())
		}
		v := in.VariableWithValue(side.name, tensors.FromShape(shapes.Make(dtypes.Float32, x.Shape().Dimensions...)))
		v.SetTrainable(false).SetNodeValue(x)
	}
}

// Refresh draws new projections. With fit it also fits the parameters of every head to the rows of the last training
// batch. scope is the scope of Apply, with ParamVariable set. Compiled graphs use the new values. A layer without
// features is left unchanged.
func (l SelfAttention) Refresh(b compute.Backend, scope *model.Scope, draw uint64, fit bool) error {
	return l.RefreshAttend(b, scope.At("MultiHeadAttention"), draw, fit)
}

// RefreshAttend is Refresh for the scope of Attend.
func (l SelfAttention) RefreshAttend(b compute.Backend, scope *model.Scope, draw uint64, fit bool) error {
	l = l.normal()
	kind := model.GetParamOr(scope, ParamAttention, "exact")
	n, centred, err := clusters(kind)
	if err != nil || !drawn(kind) && !centred || isLFK(scope) { // lfk has learned its own
		return err
	}
	if !model.GetParamOr(scope, ParamVariable, false) {
		return fmt.Errorf("%s: the projections are constants: set %s", scope.Scope(), ParamVariable)
	}
	if centred {
		if !fit { // nothing to draw
			return nil
		}
		return l.refit(scope, n)
	}
	spec, err := l.spec(scope)
	if err != nil {
		return err
	}
	spec.Seed ^= draw * 0xd1342543de82ef95
	specs := linear.HeadSpecs(spec, l.KVHeads)
	in := scope.At("features")
	if fit {
		for h := range specs {
			q, err := keptBy(in, "queries", h)
			if err != nil {
				return err
			}
			k, err := keptBy(in, "keys", h)
			if err != nil {
				return err
			}
			if specs[h], err = randfeat.Fit(specs[h], q, k); err != nil {
				return fmt.Errorf("%s, head %d: %w", scope.Scope(), h, err)
			}
		}
	}
	m, err := rfx.NewMap(specs...)
	if err != nil {
		return fmt.Errorf("%s: %w", scope.Scope(), err)
	}
	values, err := m.Values(b, dtypes.Float32, l.KVHeads)
	if err != nil {
		return err
	}
	for name, value := range values {
		if value.Rank() == 3 && learned(scope) {
			name = "lfk"
		}
		v := in.GetVariable(name)
		if v == nil && strings.HasPrefix(name, "embed") { // only exact keys use it, which this layer may not have
			continue
		}
		if v == nil || !v.Shape().Equal(value.Shape()) {
			return fmt.Errorf("%s: the fitted %s has another structure than the one compiled", scope.Scope(), kind)
		}
		if err := v.SetValue(value); err != nil {
			return err
		}
	}
	return nil
}

// keptBy returns the stored rows of one head without padding.
func keptBy(in *model.Scope, name string, head int) (dense.Matrix[float64], error) {
	v := in.GetVariable(name)
	if v == nil {
		return dense.Matrix[float64]{}, fmt.Errorf("%s: %w", in.Scope(), ErrRows)
	}
	value, err := v.Value()
	if err != nil {
		return dense.Matrix[float64]{}, err
	}
	d := v.Shape().Dimensions
	var all []float64
	err = tensors.ConstFlatData(value, func(flat []float32) {
		for i := range d[1] {
			row := flat[(head*d[1]+i)*d[2]:][:d[2]]
			if row[0] != row[0] {
				continue
			}
			for _, x := range row {
				all = append(all, float64(x))
			}
		}
	})
	if err != nil {
		return dense.Matrix[float64]{}, err
	}
	m := dense.Matrix[float64]{Rows: len(all) / d[2], Cols: d[2], Stride: d[2], Data: all}
	zero := true
	for _, x := range all {
		zero = zero && x == 0
	}
	if zero { // the initial value of the variable
		return m, fmt.Errorf("%s: %w", in.Scope(), ErrRows)
	}
	return m, nil
}
