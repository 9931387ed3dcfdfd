package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// errorLaw draws errors. mean, abs and square are their mean, mean absolute value and mean square.
type errorLaw struct {
	name              string
	draw              func(r *rand.Rand) float64
	mean, abs, square float64
	// weighted gives a quarter of the rows, at random, the weight 3. The true values stay the same.
	weighted bool
}

// outliers are normal errors, a share of which has the standard deviation sd.
func outliers(share, sd float64) errorLaw {
	scale := 1 - share + share*sd
	return errorLaw{name: fmt.Sprintf("normal, %g %% of them %g times as large", 100*share, sd),
		draw: func(r *rand.Rand) float64 {
			if r.Float64() < share {
				return sd * r.NormFloat64()
			}
			return r.NormFloat64()
		}, abs: scale * math.Sqrt(2/math.Pi), square: 1 - share + share*sd*sd}
}

func errorLaws() []errorLaw {
	gauss := errorLaw{name: "normal", draw: normal, abs: math.Sqrt(2 / math.Pi), square: 1}
	// E|X − EX| of a lognormal X is 2e^{σ²/2}(2Φ(σ/2) − 1).
	lognormal := func(sigma float64) errorLaw {
		m := math.Exp(sigma * sigma / 2)
		return errorLaw{name: fmt.Sprintf("lognormal, σ = %g, centred", sigma),
			draw: func(r *rand.Rand) float64 { return math.Exp(sigma*r.NormFloat64()) - m },
			abs:  2 * m * math.Erf(sigma/2/math.Sqrt2), square: m * m * (m*m - 1)}
	}
	weighted := gauss
	weighted.name, weighted.weighted = "normal, every fourth row of weight 3", true
	heavy := lognormal(1)
	heavy.name, heavy.weighted = heavy.name+", every fourth row of weight 3", true
	plain := errorLaw{name: "lognormal, σ = 1, not centred",
		draw: func(r *rand.Rand) float64 { return math.Exp(r.NormFloat64()) },
		mean: math.Exp(0.5), abs: math.Exp(0.5), square: math.Exp(2)}
	return []errorLaw{gauss,
		{name: "uniform", draw: func(r *rand.Rand) float64 { return 2*r.Float64() - 1 }, abs: 0.5, square: 1. / 3},
		{name: "exponential, centred", draw: func(r *rand.Rand) float64 { return r.ExpFloat64() - 1 }, abs: 2 / math.E,
			square: 1},
		{name: "Student t₃", draw: t3, abs: 2 * math.Sqrt(3) / math.Pi, square: 3},
		lognormal(0.5), lognormal(1), plain, outliers(0.1, 3), outliers(0.05, 5), outliers(0.02, 10), weighted, heavy}
}

// groupSizes are numbers of groups with groupRows rows each.
var groupSizes = []int{3, 5, 10}

const groupRows = 40

// errorCoverage prints how often 95 % intervals of RMSE, MAE and R² contain the true value, by distribution of the
// errors and number of rows, and the median of the upper limit relative to the RMSE.
func errorCoverage(w io.Writer, seed uint64, reps int) error {
	sizes := []int{15, 20, 30, 50, 100, 300, 1000}
	names := []string{"RMSE", "MAE", "R²"}
	fmt.Fprintf(w, "| errors | score |%s\n|---|---|%s\n", joined(sizes, " n = %d |"),
		strings.Repeat("---:|", len(sizes)))
	for at, l := range errorLaws() {
		cells, upper := map[string]string{}, ""
		for _, n := range sizes {
			r := rand.New(rand.NewPCG(seed, uint64(1000*n+at)))
			covered, stated, ratio := map[string]int{}, map[string]int{}, []float64{}
			for range reps {
				e, err := l.evaluate(r, n)
				if err != nil {
					return err
				}
				for _, s := range e.Scores() {
					if math.IsNaN(s.Low) || math.IsNaN(s.High) {
						continue
					}
					truth := l.truth()[s.Name]
					if stated[s.Name]++; s.Low <= truth && truth <= s.High {
						covered[s.Name]++
					}
					if s.Name == "RMSE" {
						ratio = append(ratio, s.High/s.Value)
					}
				}
			}
			for _, name := range names {
				cells[name] += fmt.Sprintf(" %.3f |", float64(covered[name])/float64(stated[name]))
			}
			slices.Sort(ratio)
			upper += fmt.Sprintf(" %.2f |", ratio[len(ratio)/2])
		}
		for i, name := range names {
			law := l.name
			if i > 0 {
				law = ""
			}
			fmt.Fprintf(w, "| %s | %s |%s\n", law, name, cells[name])
		}
		fmt.Fprintf(w, "| | upper limit over RMSE, median |%s\n", upper)
	}
	return groupCoverage(w, seed, reps)
}

func joined(v []int, format string) string {
	out := ""
	for _, n := range v {
		out += fmt.Sprintf(format, n)
	}
	return out
}

// truth returns the true scores; predictions have variance 4 besides the errors.
func (l errorLaw) truth() map[string]float64 {
	return map[string]float64{"RMSE": math.Sqrt(l.square), "MAE": l.abs,
		"R²": 1 - l.square/(4+l.square-l.mean*l.mean)}
}

func (l errorLaw) evaluate(r *rand.Rand, n int) (*machine.Evaluation, error) {
	y, p := dense.New[float64](n, 1), dense.New[float64](n, 1)
	var weights []float64
	for i := range n {
		v := 2 * r.NormFloat64()
		p.Set(i, 0, v)
		y.Set(i, 0, v+l.draw(r))
		if l.weighted {
			weights = append(weights, 1)
			if r.IntN(4) == 0 {
				weights[i] = 3
			}
		}
	}
	e := machine.NewEvaluation(machine.KindRidge, machine.Regression, 1)
	return e, e.AddWeighted(y, p, dense.Matrix[float64]{}, weights)
}

// groupCoverage tests ScoresOfGroups: the rows of a group share an error. The true value is the RMSE of many rows of
// one more group.
func groupCoverage(w io.Writer, seed uint64, reps int) error {
	fmt.Fprintf(w, "\n| errors of rows, of parts of %d rows each that share an error: RMSE of one more part |%s\n|---|%s\n",
		groupRows, joined(groupSizes, " %d parts |"), strings.Repeat("---:|", len(groupSizes)))
	shared := 0.5
	for at, l := range errorLaws() {
		if l.weighted {
			continue
		}
		fmt.Fprintf(w, "| %s |", l.name)
		for _, k := range groupSizes {
			r := rand.New(rand.NewPCG(seed, uint64(1e6)+uint64(1000*k+at)))
			covered := 0
			for range reps {
				var parts []*machine.Evaluation
				for range k {
					g := shared * math.Sqrt(l.square) * r.NormFloat64()
					moved := errorLaw{draw: func(r *rand.Rand) float64 { return l.draw(r) + g }}
					e, err := moved.evaluate(r, groupRows)
					if err != nil {
						return err
					}
					parts = append(parts, e)
				}
				_, scores, err := machine.ScoresOfGroups(parts)
				if err != nil {
					return err
				}
				g := shared * math.Sqrt(l.square) * r.NormFloat64()
				truth := math.Sqrt(l.square + 2*g*l.mean + g*g)
				if scores[0].Low <= truth && truth <= scores[0].High {
					covered++
				}
			}
			fmt.Fprintf(w, " %.3f |", float64(covered)/float64(reps))
		}
		fmt.Fprintln(w)
	}
	return nil
}
