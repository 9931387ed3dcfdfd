package samples

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/sampling"
)

// SampleDistance measures how far a way of drawing classes is from the softmax, as means over queries: an
// object of sample --compare and sample --demo.
type SampleDistance struct {
	Method string `json:"method"` // name of the sampler
	// KL divergence of the softmax from the sampler, in nats; null if a class of positive probability is never
	// drawn.
	KL          *float64 `json:"kl"`
	Wasserstein float64  `json:"wasserstein"` // distance over class numbers, in the order of their rows
	KS          float64  `json:"ks"`          // Kolmogorov–Smirnov
	// Negative is the share of classes whose kernel estimate is negative, which the sampler clips to zero.
	Negative float64 `json:"negative"`
	// Effective sample size of importance weights, as a share of the draws; 1 for draws from the softmax
	// itself.
	Effective float64 `json:"effective"`
	Features  int     `json:"features,omitempty"`
	Classes   int     `json:"classes"`
	Queries   int     `json:"queries"`
}

// distanceSum adds up the distances of queries.
type distanceSum struct {
	row SampleDistance
	kl  float64
}

func (s *distanceSum) add(p, q []float64, negative float64) error {
	d, err := sampling.Distances(p, q)
	if err != nil {
		return err
	}
	s.kl += d.KL
	s.row.Wasserstein += d.Wasserstein
	s.row.KS += d.KS
	s.row.Effective += d.Effective
	s.row.Negative += negative
	s.row.Queries++
	return nil
}

func (s *distanceSum) mean() SampleDistance {
	r, n := s.row, float64(s.row.Queries)
	r.KL = cli.Number(s.kl / n)
	r.Wasserstein /= n
	r.KS /= n
	r.Effective /= n
	r.Negative /= n
	return r
}

// fixedDistances compares draws that do not depend on the query.
func fixedDistances(method string, weights []float64, exact dense.Matrix[float64]) (SampleDistance, error) {
	s := distanceSum{row: SampleDistance{Method: method, Classes: exact.Cols}}
	f, err := sampling.NewFixed(weights)
	if err != nil {
		return s.row, err
	}
	p := make([]float64, len(weights))
	for i, l := range f.LogProb() {
		p[i] = math.Exp(l)
	}
	for i := range exact.Rows {
		if err := s.add(exact.Row(i), p, 0); err != nil {
			return s.row, err
		}
	}
	return s.mean(), nil
}

// samplerDistances compares a tree with the softmax; exact receives the softmax of every query.
func samplerDistances[T dense.Float](ctx context.Context, method string, s *sampling.Sampler[T], m *randfeat.Map[T],
	queries dense.Matrix[T], exact dense.Matrix[float64], step func()) (SampleDistance, error) {
	n := s.Classes().Rows
	sum := distanceSum{row: SampleDistance{Method: method, Classes: n, Features: m.OutDim()}}
	p := make([]float64, n)
	var gram dense.Matrix[T]
	if !m.Positive() {
		gram = dense.New[T](1, n)
	}
	var ws randfeat.Workspace[T]
	for i := range queries.Rows {
		if err := ctx.Err(); err != nil {
			return sum.row, err
		}
		if err := s.Softmax(exact.Row(i), queries.Row(i)); err != nil {
			return sum.row, err
		}
		if _, err := s.Distribution(p, queries.Row(i)); err != nil {
			return sum.row, err
		}
		negative := 0
		if !gram.IsEmpty() {
			if err := m.Gram(gram, queries.RowRange(i, i+1), s.Classes(), &ws); err != nil {
				return sum.row, err
			}
			for _, v := range gram.Row(0) {
				if v < 0 {
					negative++
				}
			}
		}
		if err := sum.add(exact.Row(i), p, float64(negative)/float64(n)); err != nil {
			return sum.row, err
		}
		step()
	}
	return sum.mean(), nil
}

func compareSamplers[T dense.Float](ctx context.Context, env *cli.Env, f *sampleFlags, s *sampling.Sampler[T],
	m *randfeat.Map[T], queries dense.Matrix[T], counts []float64) error {
	n := s.Classes().Rows
	if err := cli.CheckMemory(8*float64(n)*float64(queries.Rows), "the softmax of all queries"); err != nil {
		return err
	}
	exact := dense.New[float64](queries.Rows, n)
	bar := env.Progress("queries", queries.Rows)
	defer bar.End()
	done := 0
	name := fmt.Sprintf("%s, within by %s", m.Spec().Family.Name(), f.within)
	row, err := samplerDistances(ctx, name, s, m, queries, exact, func() { done++; bar.At(done) })
	if err != nil {
		return err
	}
	bar.End()
	rows := []SampleDistance{row}
	if rows, err = addFixed(rows, exact, counts); err != nil {
		return err
	}
	return printDistances(env, rows)
}

// addFixed adds uniform draws and, with counts, draws by frequency^¾.
func addFixed(rows []SampleDistance, exact dense.Matrix[float64], counts []float64) ([]SampleDistance, error) {
	uniform := make([]float64, exact.Cols)
	for i := range uniform {
		uniform[i] = 1
	}
	row, err := fixedDistances("uniform", uniform, exact)
	if err != nil {
		return rows, err
	}
	rows = append(rows, row)
	if counts == nil {
		return rows, nil
	}
	row, err = fixedDistances("unigram^¾", sampling.Unigram(counts, 0.75), exact)
	return append(rows, row), err
}

func printDistances(env *cli.Env, rows []SampleDistance) error {
	if env.JSON {
		for _, r := range rows {
			if err := env.Object(r); err != nil {
				return err
			}
		}
		return nil
	}
	fmt.Fprintf(env.Stdout, "Distance of the probabilities of draws from the softmax over %d classes, means over %d queries.\n\n",
		rows[0].Classes, rows[0].Queries)
	err := cli.Table(env.Stdout, func(w io.Writer) {
		fmt.Fprintln(w, "DRAWS\tF\tKL\tWASSERSTEIN\tKS\tNEGATIVE\tEFFECTIVE")
		for _, r := range rows {
			features, kl := "-", "infinite"
			if r.Features > 0 {
				features = fmt.Sprint(r.Features)
			}
			if r.KL != nil {
				kl = fmt.Sprintf("%.3g", *r.KL)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%.4g\t%.3g\t%.3g\t%.3g\n", r.Method, features, kl, r.Wasserstein, r.KS,
				r.Negative, r.Effective)
		}
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(env.Stdout, "\nKL is infinite where a class that the softmax has is never drawn: its estimate was clipped. EFFECTIVE is the effective\n"+
		"sample size of importance weights as a share of the draws.\n")
	return err
}
