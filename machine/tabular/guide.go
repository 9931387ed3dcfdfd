package tabular

import (
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine/internal/metric"
)

// guide holds the choices of the search on all rows. The searches of scored folds try only these and the standard
// alternatives: standard scaling, Gaussian kernel, squares, no metric. They judge each alternative by their own rows,
// and fit bandwidth, λ, widths of columns and metric to them. So the held-out rows of a fold influence only which kinds
// of settings it tries, and near which bandwidth and λ its search ends.
type guide struct {
	Scaling string      // of columns, before a metric
	First   bool        // margins were chosen before the scaling
	Margins bool        // margins were chosen, with a metric or without
	Kernel  kernel.Kind // without a metric
	Rows    int         // number of rows of the last trials
	Mean    bool        // the table has few rows: see averages
	// Factor is the bandwidth in median distances, and Lambda the penalty, of least squares without a metric.
	Factor float64
	Lambda float64
	Metric *guideChain // winner of the race; nil: no metric was worth a search
}

// scales reports whether a scaling other than the standard one is worth a trial.
func (g *guide) scales(name string) bool { return g == nil || g.Scaling == name }

// guideChain is a kind of metric and the kernel that it was learned with.
type guideChain struct {
	Kernel kernel.Kind
	Kind   metric.Kind
}
