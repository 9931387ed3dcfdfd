package pretrained

import (
	"fmt"
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/gomlx/rfx"
)

// Plan says how to convert a model.
type Plan struct {
	Spec          randfeat.Spec // family, coupling, projections and seed; kernel and dimension come from the model
	Window, Sinks int           // see Attention
	// Centroids, if not nil, replaces features by clusters of keys; a spec without clusters keeps only near keys and
	// sinks. Spec, Window and Sinks are then ignored.
	Centroids *rfx.Clusters
	Exact     int // see Attention
}

// recorder is the model with exact attention, compiled to return the queries, keys, values and outputs of all heads.
type recorder struct {
	*Model
	store *model.Store
	exec  *model.Exec
}

func (m *Model) recorder(b compute.Backend) (*recorder, error) {
	plain := *m
	plain.Attention = Attention{}
	store := model.NewStore()
	if err := plain.Fill(store); err != nil {
		store.Finalize()
		return nil, err
	}
	exec, err := model.NewExec(b, store, func(scope *model.Scope, ids *graph.Node) []*graph.Node {
		out := plain.Forward(scope, ids, nil)
		var all []*graph.Node
		for _, h := range out.Heads {
			all = append(all, h.Q, h.K, h.V, h.Out)
		}
		// The Go backend (compute v0.1.5) runs past its buffers if the end of a graph feeds no output.
		return append(all, graph.ReduceAllSum(out.Hidden))
	})
	if err != nil {
		store.Finalize()
		return nil, err
	}
	return &recorder{m, store, exec}, nil
}

func (m *recorder) close() {
	m.exec.Finalize()
	m.store.Finalize()
}

// record runs the model on the passages and calls visit with queries, keys, values and outputs of every layer,
// passage by passage, layers in order.
func (m *recorder) record(passages [][]int32, visit func(layer int, q, k, v, out seq) error) error {
	for i, ids := range passages {
		if err := m.checkIDs(ids); err != nil {
			return fmt.Errorf("passage %d: %w", i, err)
		}
		all, err := m.exec.Call(tensors.FromFlatDataAndDimensions(ids, 1, len(ids)))
		if err != nil {
			return fmt.Errorf("passage %d: %w", i, err)
		}
		for l := range m.Layers {
			var s [4]seq
			for j, t := range all[4*l : 4*l+4] {
				if s[j], err = fromTensor(t); err != nil {
					return err
				}
			}
			if err := visit(l, s[0], s[1], s[2], s[3]); err != nil {
				return fmt.Errorf("layer %d: %w", l, err)
			}
		}
		for _, t := range all {
			if err := t.FinalizeAll(); err != nil {
				return err
			}
		}
	}
	return nil
}

type seq = attention.Seq[float32]

func fromTensor(t *tensors.Tensor) (seq, error) {
	d := t.Shape().Dimensions
	data, err := tensors.CopyFlatData[float32](t)
	if err != nil {
		return seq{}, err
	}
	s := attention.NewSeq[float32](d[0], d[1], d[2], d[3])
	copy(s.Data, data)
	return s, nil
}

// checkIDs rejects ids outside of the vocabulary, which usually come from another tokenizer.
func (m *Model) checkIDs(ids []int32) error {
	if len(ids) == 0 {
		return fmt.Errorf("%w: no tokens", ErrModel)
	}
	for i, id := range ids {
		if id < 0 || int(id) >= m.Vocabulary {
			return fmt.Errorf("%w: token %d has the id %d, the vocabulary has %d: tokens of another model?", ErrModel, i, id,
				m.Vocabulary)
		}
	}
	return nil
}

// Calibrate fits the plan's family to the queries and keys of every head on some passages of tokens. Families without
// parameters stay unchanged. Layers with a window of their own stay exact. M of the family dark starts as the identity,
// which keeps the kernel that the model was trained with. The family's own fit, whitening, would change the kernel.
func (m *Model) Calibrate(b compute.Backend, p Plan, passages [][]int32) (Attention, error) {
	r, err := m.recorder(b)
	if err != nil {
		return Attention{}, err
	}
	defer r.close()
	return r.calibrate(p, passages)
}

// Convert does Calibrate on some passages and Errors on others. It compiles the model only once.
func (m *Model) Convert(b compute.Backend, p Plan, fit, test [][]int32) (Attention, [][]float64, error) {
	r, err := m.recorder(b)
	if err != nil {
		return Attention{}, nil, err
	}
	defer r.close()
	a, err := r.calibrate(p, fit)
	if err != nil {
		return a, nil, err
	}
	errs, err := r.errors(b, a, test)
	return a, errs, err
}

// calibrate collects statistics of queries and keys per head and fits the specs to them. A family dark without a
// matrix is calibrated as its base and gets the identity afterwards.
func (m *recorder) calibrate(p Plan, passages [][]int32) (Attention, error) {
	if p.Centroids != nil {
		return m.cluster(*p.Centroids, p.Exact, passages)
	}
	a := Attention{Window: p.Window, Sinks: p.Sinks, Heads: make([][]randfeat.Spec, m.Layers)}
	p.Spec.Kernel, p.Spec.Dim = m.kernelOf(), m.HeadDim
	dark, begin := p.Spec.Family.(family.DARK)
	if begin = begin && dark.M.IsEmpty() && dark.Temperature == 0; begin {
		if p.Spec.Family = dark.Base; dark.Base == nil {
			p.Spec.Family = family.Positive{}
		}
	}
	stats := make([]*linear.HeadStats[float32], m.Layers)
	for l := range stats {
		spec := p.Spec
		spec.Seed += uint64(l) * 0x9e3779b97f4a7c15 // every layer has its own projections
		var err error
		if stats[l], err = linear.NewHeadStats[float32](spec, m.KVHeads); err != nil {
			return a, err
		}
	}
	err := m.record(passages, func(l int, q, k, _, _ seq) error {
		return stats[l].Add(q, k, nil, nil)
	})
	if err != nil {
		return a, err
	}
	for l, s := range stats {
		if m.Local(l) {
			continue
		}
		if a.Heads[l], err = s.Fit(); err != nil {
			return a, fmt.Errorf("layer %d: %w", l, err)
		}
		for h := range a.Heads[l] {
			if begin {
				a.Heads[l][h].Family = family.DARK{M: identity(m.HeadDim), Base: a.Heads[l][h].Family}
			}
		}
	}
	return a, nil
}

// cluster fits centres to the keys of every head, on passages of equal length.
func (m *recorder) cluster(spec rfx.Clusters, exact int, passages [][]int32) (Attention, error) {
	a := Attention{Centroids: &spec, Exact: exact}
	if spec.Clusters == 0 {
		return a, spec.Validate()
	}
	a.Centres = make([][]*rfx.Centres, m.Layers)
	all := make([][2]seq, m.Layers) // queries and keys; passages are the batch
	err := m.record(passages, func(l int, q, k, _, _ seq) error {
		for i, s := range []seq{q, k} {
			into := &all[l][i]
			if into.Batch > 0 && into.Len != s.Len {
				return fmt.Errorf("%w: passages of %d and %d tokens", ErrModel, into.Len, s.Len)
			}
			data := append(into.Data, s.Data...)
			batch := into.Batch + 1
			*into = s
			into.Batch, into.Data = batch, data
		}
		return nil
	})
	if err != nil {
		return a, err
	}
	for l, s := range all {
		if m.Local(l) {
			continue
		}
		if a.Centres[l], err = rfx.FitCentres(spec, m.Causal(), m.Scale, s[0], s[1]); err != nil {
			return a, fmt.Errorf("layer %d: %w", l, err)
		}
	}
	return a, nil
}

func identity(n int) dense.Matrix[float64] {
	m := dense.New[float64](n, n)
	for i := range n {
		m.Row(i)[i] = 1
	}
	return m
}

// Errors returns |o − ô| / |o| of every layer and query head over some passages, where o is the output of exact
// attention and ô the output of a for the same queries, keys and values. Exact layers have zeros.
func (m *Model) Errors(b compute.Backend, a Attention, passages [][]int32) ([][]float64, error) {
	r, err := m.recorder(b)
	if err != nil {
		return nil, err
	}
	defer r.close()
	return r.errors(b, a, passages)
}

func (m *recorder) errors(b compute.Backend, a Attention, passages [][]int32) ([][]float64, error) {
	kind := make([]func(out, q, k, v seq) error, m.Layers)
	for l := range kind {
		if a.Centroids == nil || m.exactIn(a, l) {
			continue
		}
		exec, err := clusteredExec(b, m.clusters(a, l))
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", l, err)
		}
		defer exec.Finalize()
		kind[l] = func(out, q, k, v seq) error { return callSeq(exec, out, q, k, v) }
	}
	for l, specs := range a.Heads {
		if len(specs) == 0 {
			continue
		}
		maps, err := linear.NewMaps[float32](specs)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", l, err)
		}
		lin := &linear.Attention[float32]{Visibility: attention.Visibility{Causal: m.Causal()}, Maps: maps,
			Window: a.Window, Sinks: a.Sinks}
		kind[l] = func(out, q, k, v seq) error { _, err := lin.Forward(out, q, k, v); return err }
	}
	wrong, all := make([][]float64, m.Layers), make([][]float64, m.Layers)
	for l := range wrong {
		wrong[l], all[l] = make([]float64, m.Heads), make([]float64, m.Heads)
	}
	err := m.record(passages, func(l int, q, k, v, want seq) error {
		if kind[l] == nil {
			return nil
		}
		got := attention.NewSeq[float32](1, m.Heads, q.Len, v.Dim)
		if err := kind[l](got, q, k, v); err != nil {
			return err
		}
		for h := range m.Heads {
			g, w := got.Head(0, h), want.Head(0, h)
			for i := range w.Rows {
				for j, x := range w.Row(i) {
					d := float64(g.Row(i)[j]) - float64(x)
					wrong[l][h] += d * d
					all[l][h] += float64(x) * float64(x)
				}
			}
		}
		return nil
	})
	for l := range wrong {
		for h := range wrong[l] {
			if all[l][h] > 0 {
				wrong[l][h] = math.Sqrt(wrong[l][h] / all[l][h])
			}
		}
	}
	return wrong, err
}

// clusteredExec compiles the attention of one layer.
func clusteredExec(b compute.Backend, c rfx.Centroids) (*graph.Exec, error) {
	return graph.NewExec(b, func(in []*graph.Node) *graph.Node {
		return c.Forward(in[0], in[1], in[2], rfx.Visible{})
	})
}

// callSeq runs a compiled attention on one passage.
func callSeq(exec *graph.Exec, out, q, k, v seq) error {
	args := make([]any, 0, 3)
	for _, s := range []seq{q, k, v} {
		args = append(args, tensors.FromFlatDataAndDimensions(s.Data, s.Batch, s.Heads, s.Len, s.Dim))
	}
	got, err := exec.Call(args...)
	if err != nil {
		return err
	}
	s, err := fromTensor(got[0])
	copy(out.Data, s.Data)
	return err
}
