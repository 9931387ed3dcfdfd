package layer

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	rf "github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/gomlx/rfx"
	"github.com/randfeat/randfeat/internal/rng"
)

// clusters parses centroid[:CLUSTERS]; is is false for any other kind of attention.
func clusters(kind string) (n int, is bool, err error) {
	name, number, given := strings.Cut(kind, ":")
	if name != "centroid" {
		return 0, false, nil
	}
	if n = 64; given {
		if n, err = strconv.Atoi(number); err != nil || n < 1 {
			err = fmt.Errorf("%s %q: after centroid comes a number of clusters", ParamAttention, kind)
		}
	}
	return n, true, err
}

// centroids returns the attention over clusters. Its centres are fitted to standard normal rows until Refresh fits
// them to data.
func (l SelfAttention) centroids(scope *model.Scope, q *Node, n int) (rfx.Centroids, error) {
	dim := l.HeadDim
	if rows := model.GetParamOr(scope, ParamDark, 0); rows > 0 {
		dim = rows
	}
	x, y := dense.New[float64](max(512, 4*n), dim), dense.New[float64](max(512, 4*n), dim)
	rng.Normals(x.Data, rng.Stream(seed(scope)))
	rng.Normals(y.Data, rng.Stream(seed(scope)+1))
	c := l.clustered(scope, n)
	one, err := fitCentres(c, x, y)
	if err != nil {
		return c, err
	}
	for range l.KVHeads {
		c.Centres = append(c.Centres, one)
	}
	if model.GetParamOr(scope, ParamVariable, false) {
		in := scope.At("features")
		c.Numbers = func(name string, value *tensors.Tensor) *Node {
			return in.VariableWithValue(name, value).SetTrainable(false).NodeValue(q)
		}
	}
	return c, nil
}

// clustered returns centroids without centres.
func (l SelfAttention) clustered(scope *model.Scope, n int) rfx.Centroids {
	s := rfx.Clusters{Clusters: n, Seed: seed(scope), Spread: l.Causal}
	s.Window, s.Sinks = model.GetParamOr(scope, ParamWindow, 0), model.GetParamOr(scope, ParamSinks, 0)
	s.Block = model.GetParamOr(scope, ParamBlock, 0)
	return rfx.Centroids{Own: true, Causal: l.Causal, Scale: 1 / math.Sqrt(float64(l.HeadDim)), Spec: s,
		Double: model.GetParamOr(scope, ParamDouble, false)}
}

// fitCentres fits the centres of one head to rows of queries and keys.
func fitCentres(c rfx.Centroids, q, k dense.Matrix[float64]) (*rfx.Centres, error) {
	rows := func(m dense.Matrix[float64]) rf.Seq[float32] {
		s := rf.NewSeq[float32](1, 1, m.Rows, m.Cols)
		for i := range m.Rows {
			for j, x := range m.Row(i) {
				s.Head(0, 0).Set(i, j, float32(x))
			}
		}
		return s
	}
	spec := c.Spec
	spec.Sinks, spec.Window = 0, 0 // kept rows have no meaningful positions
	all, err := rfx.FitCentres(spec, false, c.Scale, rows(q), rows(k))
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// refit fits the centres of every head to the rows of the last training batch.
func (l SelfAttention) refit(scope *model.Scope, n int) error {
	c := l.clustered(scope, n)
	in := scope.At("features")
	for h := range l.KVHeads {
		q, err := keptBy(in, "queries", h)
		if err != nil {
			return err
		}
		k, err := keptBy(in, "keys", h)
		if err != nil {
			return err
		}
		one, err := fitCentres(c, q, k)
		if err != nil {
			return fmt.Errorf("%s, head %d: %w", scope.Scope(), h, err)
		}
		c.Centres = append(c.Centres, one)
	}
	for name, value := range c.Values() {
		v := in.GetVariable(name)
		if v == nil || !v.Shape().Equal(value.Shape()) {
			return fmt.Errorf("%s: the fitted centres are not of the shape compiled", scope.Scope())
		}
		if err := v.SetValue(value); err != nil {
			return err
		}
	}
	return nil
}
