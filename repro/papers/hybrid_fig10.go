package papers

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/repro/lab"
	"github.com/randfeat/randfeat/repro/lstm"
	"github.com/randfeat/randfeat/sampling"
)

// The expected result was written down before the first run: a tie between estimators, as the paper reports.
var hybridFig10 = &lab.Item{
	ID: "hybrid-fig10", Paper: hybrid, Title: "Fig 10: perplexity of LSTMs trained with 40 sampled negatives",
	Data: []string{ptb.learn, ptb.held}, Version: 1, Run: runHybridFig10,
}

// negatives are the samplers of Fig 10.
var negatives = []string{"uniform", "unigram^¾", "FAVOR+", "Trig.", "Gaussian", "Angular", "softmax"}

// fig10 is one run: its sampler, seed and sizes.
type fig10 struct {
	Sampler, Seed, Words, Vocab, Width, Batch, Features, Points int
}

// byFeatures draws by the features of rows of norm 1 or, for a spec without a family, by the softmax of such rows.
func byFeatures(spec randfeat.Spec, k int) (lstm.Sampler[float32], error) {
	exact := spec.Family == nil
	if exact {
		spec.Family, spec.M = family.Positive{}, 1
	}
	m, err := randfeat.New[float32](spec)
	if err != nil {
		return nil, err
	}
	return func(model *lstm.Model[float32], q dense.Matrix[float32], seed uint64) (*sampling.Draws, error) {
		o := sampling.Options{Within: sampling.ByFeatures, Workers: 1}
		if exact {
			o = sampling.Options{Block: model.Vocab, Workers: 1}
		}
		s, err := sampling.New(m, unitRows(model.Table), o)
		if err != nil {
			return nil, err
		}
		var d sampling.Draws
		return &d, s.Draw(&d, unitRows(q), sampling.Request{K: k, Seed: seed, Workers: 1})
	}, nil
}

func unitRows(x dense.Matrix[float32]) dense.Matrix[float32] {
	x = x.Clone()
	for i := range x.Rows {
		norm := float32(math.Sqrt(float64(dense.Norm2(x.Row(i)))))
		for j := range x.Row(i) {
			x.Row(i)[j] /= max(norm, 1e-20)
		}
	}
	return x
}

// sampler returns the sampler of 40 negatives per place. Draws inside of blocks are by features, as in the paper.
func (c fig10) sampler(counts []float64) (lstm.Sampler[float32], error) {
	const k = 40
	spec := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Dim: c.Width,
		Seed: uint64(c.Seed) + 1, M: c.Features}
	power := 0.0
	switch negatives[c.Sampler] {
	case "unigram^¾":
		power = 0.75
	case "FAVOR+":
		spec.Family, spec.Coupling = family.Positive{}, coupling.Orthogonal{}
	case "Trig.":
		spec.Family, spec.M = family.Trig{}, c.Features/2
	case "Gaussian":
		spec.Family, spec.M = family.GaussianLambda{N: 8}, c.Features/8
	case "Angular":
		spec.Family, spec.M = family.Angular{N: 8}, c.Features/8
	}
	if c.Sampler < 2 {
		f, err := sampling.NewFixed(sampling.Unigram(counts, power))
		return lstm.Fixed[float32](f, k), err
	}
	return byFeatures(spec, k)
}

func runHybridFig10(l *lab.Lab) (*lab.Page, error) {
	seeds := lab.Pick(l, 3, 5)
	var keys []fig10
	for s := range negatives {
		for seed := range seeds {
			keys = append(keys, fig10{s, seed, lab.Pick(l, 12_000, 60_000), lab.Pick(l, 500, 10_000),
				lab.Pick(l, 32, 200), lab.Pick(l, 4, 20), lab.Pick(l, 128, 1024), 6})
		}
	}
	// Cells of a seed share parameters and text, whatever the sampler, so differences are paired.
	curves, err := lab.Cells(l, "curves", keys, func(c fig10, _ uint64) ([]float64, error) { return c.curve(l) })
	if err != nil {
		return nil, err
	}
	c := keys[0]
	p := &lab.Page{Setting: []string{fmt.Sprintf("Expected before the first run: a tie between estimators, as the paper reports. "+
		"LSTMs of 2 layers and width %d read %d words of the Penn Treebank (%d different ones) once, in batches of %d streams, and "+
		"learn to tell the next word from 40 drawn ones. Draws are by features of outputs and embeddings of norm 1 (appendix "+
		"I.1); %d features, hybrids of equal cost. The paper has width 200, 10,000 words, 80 epochs with dropout, 1024 features "+
		"and 25 runs. Perplexities are exp of the loss of the full softmax at 1000 held-out places; seeds share "+
		"parameters and text, so that differences are paired.", c.Width, c.Words, c.Vocab, c.Batch, c.Features)}}
	last := make([][]float64, len(negatives)) // log perplexities at the end
	fig := figure.Figure{Title: "Held-out perplexity during training", X: figure.Axis{Label: "words read"},
		Y: figure.Axis{Label: "perplexity", Log: true}}
	for s, name := range negatives {
		series := figure.Series{Name: name}
		for point := range c.Points {
			var at []float64
			for i, k := range keys {
				if k.Sampler == s {
					at = append(at, math.Log(curves[i][point]))
				}
			}
			mean, sd := meanSD(at)
			series.X = append(series.X, float64(c.Words*(point+1)/c.Points))
			series.Y = append(series.Y, math.Exp(mean))
			series.Low, series.High = append(series.Low, math.Exp(mean-sd)), append(series.High, math.Exp(mean+sd))
			last[s] = at
		}
		if s > 0 { // uniform draws lie far above, and a figure has room for six
			fig.Series = append(fig.Series, series)
		}
		mean, sd := meanSD(last[s])
		p.Add(lab.Check{What: "perplexity at the end, " + name, Source: lab.Source{Kind: lab.Unsaid}, Reference: "—",
			Ours: fmt.Sprintf("%.4g", math.Exp(mean)), Interval: fmt.Sprintf("× e^±%.2g over seeds", sd),
			Verdict: lab.Shown})
	}
	fig10Claims(p, last)
	return p, p.Draw("curves", "Means and deviations over seeds; uniform draws lie above.", &fig)
}

// fig10Claims judges the paper's tie: log perplexities within 5 % of FAVOR+.
func fig10Claims(p *lab.Page, last [][]float64) {
	const tie = 0.05
	difference := func(a, b int) (mean, half float64) {
		var d []float64
		for i := range last[a] {
			d = append(d, last[a][i]-last[b][i])
		}
		mean, sd := meanSD(d)
		return mean, 3 * sd / math.Sqrt(float64(len(d)))
	}
	for _, s := range []int{3, 4, 5} {
		mean, half := difference(s, 2)
		verdict := lab.TooNoisy
		switch {
		case math.Abs(mean)+half < tie:
			verdict = lab.Holds
		case math.Abs(mean)-half > tie:
			verdict = lab.Misses
		}
		p.Claim(negatives[s]+" ties with FAVOR+", lab.StatedIn("appendix I.1, Fig 10"),
			"not very significant (here: within 5 %)",
			fmt.Sprintf("log perplexity %+.3f ± %.3f", mean, half), verdict,
			"the runs are short; the paper trains for 80 epochs, after which samplers differ less")
	}
	mean, half := difference(0, 2)
	p.Claim("FAVOR+ is better than uniform draws", lab.Source{Kind: lab.Unsaid}, "—",
		fmt.Sprintf("log perplexity %+.3f ± %.3f", mean, half), lab.Shown, "")
}

// curve returns the perplexities of a run at equal distances.
func (c fig10) curve(l *lab.Lab) ([]float64, error) {
	n, err := readNumbered(l, ptb, c.Vocab, c.Words)
	if err != nil {
		return nil, err
	}
	sample, err := c.sampler(n.counts)
	if err != nil {
		return nil, err
	}
	m, err := lstm.New[float32](lstm.Config{Vocab: len(n.counts), Width: c.Width, Layers: 2, Batch: c.Batch, Length: 20,
		Rate: 0.1, Clip: 5, Seed: uint64(c.Seed) + 1})
	if err != nil {
		return nil, err
	}
	var out []float64
	part := len(n.learn) / c.Points
	for i := range c.Points {
		err := m.Epoch(n.learn[i*part:(i+1)*part], i, sample, func(int, float64) error { return l.Context.Err() })
		if err != nil {
			return nil, err
		}
		out = append(out, m.Perplexity(n.held, 1000))
	}
	return out, nil
}
