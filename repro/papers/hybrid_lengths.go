package papers

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/repro/lab"
)

var hybridFig7 = &lab.Item{
	ID: "hybrid-fig7", Paper: hybrid, Title: "Fig 7: lengths of keys and queries, Penn Treebank",
	Data: []string{ptb.learn, ptb.held}, Version: 1,
	Run: func(l *lab.Lab) (*lab.Page, error) { return runHybridLengths(l, ptb) },
}

var hybridFig9 = &lab.Item{
	ID: "hybrid-fig9", Paper: hybrid, Title: "Fig 9: lengths of keys and queries with a regulariser (eq 105), WikiText-2",
	Data: []string{wikiText2.learn, wikiText2.held}, Version: 1,
	Run: func(l *lab.Lab) (*lab.Page, error) { return runHybridLengths(l, wikiText2) },
}

func runHybridLengths(l *lab.Lab, text wordText) (*lab.Page, error) {
	type value struct {
		Lengths [2][]float64 // quantiles of queries and of keys
		Mean    [2]float64
		SD      [2]float64
		What    string
	}
	values, err := lab.Cells(l, "lengths", []string{modelOf(l, text)}, func(string, uint64) (v value, err error) {
		m, err := wordsOf(l, text)
		if err != nil {
			return v, err
		}
		for i, x := range []dense.Matrix[float64]{m.queries, m.keys} {
			var all []float64
			for r := range x.Rows {
				all = append(all, math.Sqrt(dense.Norm2(x.Row(r))))
			}
			v.Mean[i], v.SD[i] = meanSD(all)
			v.Lengths[i] = histogram(all)
		}
		v.What = m.what + m.told()
		return v, nil
	})
	if err != nil {
		return nil, err
	}
	v := values[0]
	p := &lab.Page{Setting: []string{fmt.Sprintf("Keys are the embeddings of all words, queries the outputs at held-out places, "+
		"of %s. The paper shows histograms and prints no numbers; its model has %s.%s", v.What, text.paperModel,
		text.textDifferent)}}
	fig := figure.Figure{Title: "Lengths of keys and queries", X: figure.Axis{Label: "length"},
		Y: figure.Axis{Label: "share of rows per bin of 0.1"}}
	for i, name := range []string{"queries", "keys"} {
		series := figure.Series{Name: name}
		for b, share := range v.Lengths[i] {
			series.X, series.Y = append(series.X, (float64(b)+.5)*lengthBin), append(series.Y, share)
		}
		fig.Series = append(fig.Series, series)
		p.Add(lab.Check{What: "mean length of " + name, Source: lab.Source{Kind: lab.Unsaid}, Reference: "—",
			Ours: fmt.Sprintf("%.3g", v.Mean[i]), Interval: fmt.Sprintf("sd %.2g", v.SD[i]), Verdict: lab.Shown})
		if text.unit > 0 {
			verdict := lab.Misses
			if math.Abs(v.Mean[i]-1) < .25 {
				verdict = lab.Holds
			}
			p.Claim("the regulariser keeps lengths of "+name+" close to 1", lab.StatedIn("appendix I, Fig 9"),
				"close to 1", fmt.Sprintf("mean %.3g, sd %.2g", v.Mean[i], v.SD[i]), verdict,
				"within 0.25 counts as close; few words of a short training are far from where they began")
		}
	}
	return p, p.Draw("lengths", "Shares of rows by length.", &fig)
}

const lengthBin = 0.1

// histogram returns the share of values per bin, up to the last bin that is not empty. The last of 100 bins has
// everything above.
func histogram(x []float64) []float64 {
	var bins []float64
	for _, v := range x {
		b := min(int(v/lengthBin), 99)
		for len(bins) <= b {
			bins = append(bins, 0)
		}
		bins[b] += 1 / float64(len(x))
	}
	return bins
}
