package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/internal/figure"
)

// tally collects the records of one method over all passages.
type tally struct {
	name, series string
	records      []record
}

// tally returns the records of a method at exactly these lengths, in the order of passages.
func (s *results) tally(model, name, series string, lengths []int) tally {
	t := tally{name: name, series: series}
	for _, r := range s.all {
		if r.Model == model && r.Method == name && slices.Equal(r.Lengths, lengths) {
			t.records = append(t.records, r)
		}
	}
	slices.SortFunc(t.records, func(a, b record) int { return a.Passage - b.Passage })
	return t
}

// errors returns the errors of all heads and passages.
func (t *tally) errors() (e []float64) {
	for _, r := range t.records {
		e = append(e, r.Errors...)
	}
	return e
}

// cost returns the cost at length i, averaged over passages.
func (t *tally) cost(i int) float64 {
	sum := 0.0
	for _, r := range t.records {
		sum += r.Cost[i]
	}
	return sum / float64(len(t.records))
}

// ratios returns, for length i, the perplexity of each passage divided by that of exact attention, and the geometric
// mean. Passages without a record of exact attention are skipped.
func (t *tally) ratios(exact *tally, i int) (mean float64, all []float64) {
	sum := 0.0
	for _, r := range t.records {
		for _, e := range exact.records {
			if e.Passage == r.Passage {
				sum += r.Loss[i] - e.Loss[i]
				all = append(all, math.Exp(r.Loss[i]-e.Loss[i]))
			}
		}
	}
	return math.Exp(sum / float64(len(all))), all
}

// report writes the tables of all results in the file, and the figures to the same folder. It overwrites c.out,
// including sentences that were added there by hand.
func report(c *config, res *results) error {
	var b bytes.Buffer
	fmt.Fprintln(&b, `# Attention on the heads of real models

Run `+"`go run ./heads -weights DIR`"+` in this folder to write this page. First run heads/weights.py, which downloads
the weights and texts. All passages are held out: neither the methods nor their calibration has seen them.
Encoder methods with fitted features or centroids fit them to the passage itself.

Costs are per token, that is, per query and key. The unit is one random feature, 2(d + d_v) multiply-adds. Exact
attention over n keys costs n/2. The cost counts the exact keys that were actually used. It does not include the
training of centroids.`)
	if err := reportEncoder(c, res, &b); err != nil {
		return err
	}
	if err := reportDecoder(c, res, &b); err != nil {
		return err
	}
	return os.WriteFile(c.out, b.Bytes(), 0o644)
}

// draw writes a figure to the folder of the report and a link to it to w.
func (c *config) draw(w io.Writer, name, alt string, f figure.Figure) error {
	var svg bytes.Buffer
	f.Width, f.Height = 440, 440 // read on phones too
	if err := f.WriteSVG(&svg); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n![%s](%s)\n", alt, name)
	return os.WriteFile(filepath.Join(filepath.Dir(c.out), name), svg.Bytes(), 0o644)
}

// encoderLength is the length of the encoder's passages, in tokens: the longest that the model has positions for.
const encoderLength = 512

func reportEncoder(c *config, res *results, b *bytes.Buffer) error {
	var list []tally
	for _, m := range encoderMethods() {
		if t := res.tally("minilm", m.name, m.series, []int{encoderLength}); len(t.records) > 0 {
			list = append(list, t)
		}
	}
	if len(list) == 0 {
		return nil
	}
	heads := len(list[0].records[0].Errors)
	fmt.Fprintf(b, `
## Encoder: all-MiniLM-L6-v2, %d heads, d = 32, %d tokens, %d passages

The error of a head on a passage is |ô−o|/|o|, where o is the output of exact attention and ô the output of the method.
Both get the inputs that the head has in the exact model. The error columns summarise all heads and passages. The cosine
compares the embedding of a passage with exact attention to its embedding with all heads replaced. The table shows the
mean and the lowest cosine over the passages.

| attention | cost | median error | 90 %% | heads ≤ 0.1 | cosine | lowest |
|---|---|---|---|---|---|---|
`, heads, encoderLength, len(list[0].records))
	for _, t := range list {
		e, within := t.errors(), 0
		for _, v := range e {
			if v <= 0.1 {
				within++
			}
		}
		sum, lowest := 0.0, 1.0
		for _, r := range t.records {
			sum += r.Cosine
			lowest = min(lowest, r.Cosine)
		}
		fmt.Fprintf(b, "| %s | %.0f | %.3f | %.3f | %.0f %% | %.4f | %.4f |\n", t.name, t.cost(0), quantile(e, 0.5),
			quantile(e, 0.9), 100*float64(within)/float64(len(e)), sum/float64(len(t.records)), lowest)
	}
	f := figure.Figure{Title: "Error against cost on the heads of MiniLM",
		Subtitle: "median over heads and passages, 512 tokens; exact attention costs 256",
		X:        figure.Axis{Label: "cost of a token, in random features", Log: true},
		Y:        figure.Axis{Label: "median error of a head", Log: true}}
	for _, t := range list {
		if !strings.Contains(t.series, "features") && !strings.Contains(t.series, "centroids") && t.series != "window" {
			continue
		}
		i := slices.IndexFunc(f.Series, func(s figure.Series) bool { return s.Name == t.series })
		if i < 0 {
			i, f.Series = len(f.Series), append(f.Series, figure.Series{Name: t.series})
		}
		f.Series[i].X = append(f.Series[i].X, t.cost(0))
		f.Series[i].Y = append(f.Series[i].Y, quantile(t.errors(), 0.5))
	}
	for i := range f.Series {
		sortByX(&f.Series[i])
	}
	if err := c.draw(b, "heads-cost.svg", "median error of a head against cost", f); err != nil {
		return err
	}
	return c.draw(b, "heads-heads.svg", "error of every head", headFigure(list, heads))
}

// headFigure plots the error of every head for some methods, as the median over passages.
func headFigure(list []tally, heads int) figure.Figure {
	f := figure.Figure{Title: "Error of every head of MiniLM",
		Subtitle: "median over passages; layers have 12 heads each",
		X:        figure.Axis{Label: "head, layer by layer", Ticks: []float64{0, 12, 24, 36, 48, 60, 72}},
		Y:        figure.Axis{Label: "error", Log: true}}
	for _, name := range []string{"256 features, adaptive",
		specName(spec{Clusters: 16, Queries: 64, Keys: 64}),
		specName(spec{Clusters: 32, Queries: 64, Keys: 128}),
		specName(spec{Clusters: 16, Queries: 64, Keys: 192})} {
		i := slices.IndexFunc(list, func(t tally) bool { return t.name == name })
		if i < 0 {
			continue
		}
		s := figure.Series{Name: name}
		for h := range heads {
			var e []float64
			for _, r := range list[i].records {
				e = append(e, r.Errors[h])
			}
			s.X, s.Y = append(s.X, float64(h)), append(s.Y, quantile(e, 0.5))
		}
		f.Series = append(f.Series, s)
	}
	return f
}

func sortByX(s *figure.Series) {
	order := make([]int, len(s.X))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case s.X[a] < s.X[b]:
			return -1
		case s.X[a] > s.X[b]:
			return 1
		}
		return a - b
	})
	x, y := slices.Clone(s.X), slices.Clone(s.Y)
	for i, j := range order {
		s.X[i], s.Y[i] = x[j], y[j]
	}
}

func reportDecoder(c *config, res *results, b *bytes.Buffer) error {
	lengths := prefixes(c.length)
	exact := res.tally("smollm2", "exact", "", lengths)
	if len(exact.records) == 0 {
		return nil
	}
	fmt.Fprintf(b, `
## Decoder: SmolLM2-135M, 270 heads, d = 64, strictly causal, %d passages

The tables show the perplexity with all heads replaced, divided by the perplexity of exact attention at the same length.
The columns named by a length are geometric means over the passages. The last column is the range over the passages at
the longest length.

- **Chosen by seconds:** choose.Choose picks a plan for each key/value head on calibration texts, with the given
  error as tolerance. The plans depend on the machine. They cluster the keys of the passage itself. Their cost is
  the predicted cost.
- **Constant memory:** methods with the same budget hold the same number of keys and values, including sinks and window.
- **Heavy hitters, decayed:** the decay and window are the best of several on calibration texts.

Exact perplexity:`, len(exact.records))
	for i, n := range lengths {
		fmt.Fprintf(b, " %d tokens", n)
		for _, r := range exact.records {
			fmt.Fprintf(b, " %.2f", math.Exp(r.Loss[i]))
		}
		fmt.Fprint(b, map[bool]string{true: ".\n", false: ","}[i == len(lengths)-1])
	}
	growth := figure.Figure{Title: "Perplexity of SmolLM2 by length", Subtitle: "all heads replaced, all keys kept",
		X: figure.Axis{Label: "tokens", Log: true, Ticks: floats(lengths)},
		Y: figure.Axis{Label: "perplexity / exact's"}}
	memory := figure.Figure{Title: "Perplexity of SmolLM2 in constant memory",
		Subtitle: fmt.Sprintf("all heads replaced, %d tokens", lengths[len(lengths)-1]),
		X:        figure.Axis{Label: "memory of a key/value head, in keys", Log: true, Ticks: floats(budgets)},
		Y:        figure.Axis{Label: "perplexity / exact's"}}
	for _, constant := range []bool{false, true} {
		fmt.Fprintf(b, "\n### %s\n\n| attention |",
			map[bool]string{true: "Constant memory", false: "All keys kept"}[constant])
		for _, n := range lengths {
			fmt.Fprintf(b, " cost at %d | %d |", n, n)
		}
		fmt.Fprintf(b, " passages |\n|---|%s---|\n", strings.Repeat("---|---|", len(lengths)))
		for _, m := range decoderMethods() {
			t := res.tally("smollm2", m.name, "", lengths)
			if len(t.records) == 0 || m.name == "exact" || (m.budget > 0) != constant {
				continue
			}
			fmt.Fprintf(b, "| %s |", t.name)
			var s figure.Series
			for i, n := range lengths {
				mean, all := t.ratios(&exact, i)
				fmt.Fprintf(b, " %.0f | %.4f |", t.cost(i), mean)
				if s.X, s.Y = append(s.X, float64(n)), append(s.Y, mean); i == len(lengths)-1 {
					fmt.Fprintf(b, " %.4f–%.4f |\n", slices.Min(all), slices.Max(all))
				}
			}
			if !constant {
				if s.Name = t.name; m.tol > 0 && len(growth.Series) < figure.MaxSeries {
					growth.Series = append(growth.Series, s)
				}
				continue
			}
			i := slices.IndexFunc(memory.Series, func(s figure.Series) bool { return s.Name == m.policy })
			if i < 0 {
				i, memory.Series = len(memory.Series), append(memory.Series, figure.Series{Name: m.policy})
			}
			memory.Series[i].X = append(memory.Series[i].X, float64(m.budget))
			memory.Series[i].Y = append(memory.Series[i].Y, s.Y[len(s.Y)-1])
		}
		f, name := growth, "heads-length.svg"
		if constant {
			f, name = memory, "heads-memory.svg"
		}
		if len(f.Series) > 0 && len(lengths) > 1 {
			if err := c.draw(b, name, f.Title, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func floats(n []int) []float64 {
	out := make([]float64, len(n))
	for i, v := range n {
		out[i] = float64(v)
	}
	return out
}
