package advise

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/randfeat/randfeat/kernel"
)

// explain writes the reasons, each from a measurement.
func (r *Report) explain() {
	say := func(format string, args ...any) { r.Reasons = append(r.Reasons, fmt.Sprintf(format, args...)) }
	best := r.Ranking[r.Best]
	if first := r.Ranking[0]; first.Heavy {
		tail := ""
		if t := first.Tail; t != nil {
			tail = fmt.Sprintf(" (tail index %.1f)", *t)
		}
		r.MeasureWhy = fmt.Sprintf("Rare pairs and draws make up much of the mean squared error of %s%s. Its root mean square, %.2g over all draws of the pilot, is therefore uncertain and has no interval. Half of its errors are below %.2g, 95 %% below %.2g.",
			first.Name, tail, first.RMS, first.Median, first.P95)
		if p := first.Predicted; p != nil && *p > rare*first.RMS {
			r.MeasureWhy += fmt.Sprintf(" Theory expects %.2g.", *p)
		}
		if r.Best > 0 && !best.Heavy {
			r.MeasureWhy += fmt.Sprintf(" The tail of %s can be measured, so that map is recommended instead.", best.Name)
		}
		say("%s", r.MeasureWhy)
	}
	r.explainBias(say, best)
	r.explainData(say)
	r.explainChoice(say, best)
	r.explainError(say, best)
	exact := "the exact kernel"
	if r.Kernel.Kind == kernel.Softmax && !r.OneSet {
		exact = "exact attention"
	}
	if r.Useless = best.Error >= uselessError; r.Useless {
		r.Verdict = fmt.Sprintf("Use %s: no random features are useful here. The best of %d have an error of %.2g.", exact, r.Features,
			best.Error)
		return
	}
	r.Verdict = fmt.Sprintf("Use %s with %d features: its error is %.2g.", best.label(), best.Features, best.Error)
	if t := r.Target; t != nil && !t.Reached {
		r.Verdict = fmt.Sprintf("Use %s for an error of %g: %s, the best here, has %.2g with %d features.", exact, t.Error, best.label(),
			best.Error, best.Features)
	} else if c := r.Crossover; c != nil {
		r.Verdict += fmt.Sprintf(" Below %d keys use exact attention.", c.Length)
	}
}

// uselessError is the error of a map that is no better than the answer zero.
const uselessError = 0.9

func (r *Report) explainData(say func(string, ...any)) {
	sides := []struct {
		name string
		s    Side
	}{{"queries", r.Facts.Query}, {"keys", r.Facts.Key}}
	if r.OneSet {
		sides = sides[:1]
		sides[0].name = "rows"
	}
	d := len(r.Facts.Query.Spectrum)
	adaptive := strings.HasPrefix(r.Ranking[r.Best].Name, "adaptive")
	var flat []string
	for _, side := range sides {
		if 4*side.s.In80 <= d && side.s.Rows > d {
			flat = append(flat, fmt.Sprintf("%d of %d directions carry 80 %% of the variance of your %s", side.s.In80,
				d, side.name))
		}
	}
	if len(flat) > 0 {
		end := ""
		if adaptive {
			end = ". Adaptive features suit such data: each direction has its own proposal variance"
		}
		say("Anisotropic data: %s%s.", strings.Join(flat, " and "), end)
	}
	for _, side := range sides {
		if side.s.Mean > 0.25 {
			end := ""
			if adaptive {
				end = " adaptive features subtract it"
				if d > 1 {
					end += ", others pay for it with every projection"
				}
				end = ":" + end
			}
			say("Your %s lie away from the origin: their mean holds %.0f %% of their squared length%s.", side.name,
				100*side.s.Mean, end)
		}
		if side.s.Far > 12 {
			say("Some of your %s are far longer than others: the longest has %.3g times the squared length of the median.",
				side.name, side.s.Far)
		}
		if side.s.Rows < 2*d {
			say("There are only %d %s of %d columns: too few to estimate a covariance, so fits stay close to the isotropic parameters.",
				side.s.Rows, side.name, d)
		}
	}
	if f := r.Facts; r.Kernel.Kind == kernel.Softmax {
		say("exp(x·y) lies between e^%.1f and e^%.1f for 90 %% of the pairs. The mean of |x+y|² is %.3g, that of |x−y|² is %.3g; the variance of %s.",
			f.LogKernel[0], f.LogKernel[2], f.Sum2, f.Diff2,
			map[bool]string{true: "positive features grows with the first",
				false: "trigonometric features grows with the second"}[f.Sum2 > f.Diff2])
	} else {
		say("The kernel lies between %.2g and %.2g for 90 %% of the pairs.", math.Exp(f.LogKernel[0]),
			math.Exp(f.LogKernel[2]))
	}
}

// find returns the candidate of a name, nil if there is none.
func (r *Report) find(name string) *Candidate {
	for i := range r.Ranking {
		if r.Ranking[i].Name == name {
			return &r.Ranking[i]
		}
	}
	return nil
}

// explainBias explains Nyström features and names the best unbiased map.
func (r *Report) explainBias(say func(string, ...any), best Candidate) {
	at := slices.IndexFunc(r.Ranking, func(c Candidate) bool { return c.Biased })
	if at < 0 {
		return
	}
	n := r.Ranking[at]
	if !best.Biased {
		if n.Error < best.Error {
			say("Nyström features have an error of %.2g with %d landmarks. They are biased and fitted to your rows.", n.Error,
				n.Features)
		}
		return
	}
	text := fmt.Sprintf("Nyström features are biased and fitted to your rows: %d of these serve as landmarks. The error was measured on rows that no landmark was drawn from; it may be larger on rows of another source.",
		n.Features)
	if other := slices.IndexFunc(r.Ranking, func(c Candidate) bool { return !c.Biased }); other >= 0 {
		o := r.Ranking[other]
		text += fmt.Sprintf(" The best unbiased map is %s with an error of %.2g.", o.Name, o.Error)
	}
	say("%s", text)
}

// largestRatio is the largest error ratio worth printing. Beyond it one of the errors is rounding or overflow.
const largestRatio = 1e6

// times returns how many times larger a is than b; ok is false if the ratio means nothing.
func times(a, b float64) (float64, bool) {
	f := a / b
	return f, b > 0 && f < largestRatio
}

// ratio formats a ratio below largestRatio with two significant digits and no exponent.
func ratio(f float64) string {
	text := strconv.FormatFloat(f, 'g', 2, 64)
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return text
}

func (r *Report) explainChoice(say func(string, ...any), best Candidate) {
	family := strings.TrimSuffix(best.Name, ", "+best.Coupling)
	if plain := r.find(family + ", iid"); plain != nil && best.Coupling != "iid" {
		if f, ok := times(plain.Error, best.Error); ok && f > 1.03 {
			say("%s projections instead of independent ones make the error of %s %s times smaller.", capital(best.Coupling),
				family, ratio(f))
		}
	}
	for _, base := range []string{"positive", "trig"} {
		plain := r.find(base + ", iid")
		if plain == nil || base == family {
			continue
		}
		if f, ok := times(plain.Error, best.Error); ok && f > 1.1 {
			say("With the same number of features, %s has %s times the error.", base, ratio(f))
			break
		}
	}
	if first := r.Ranking[0]; r.Best > 0 && !(first.Heavy && !best.Heavy) {
		if f, ok := times(best.Error, first.Error); ok {
			why := "the difference is within the noise of the draws"
			if best.Cost < 0.95*first.Cost {
				why = fmt.Sprintf("the recommended map is cheaper, %.0f instead of %.0f ns per row", best.Cost, first.Cost)
			}
			say("The measured error of %s is %.1f %% smaller; %s.", first.Name, 100*(f-1), why)
		}
	}
	r.explainTime(say, best)
	var close []string
	for i, c := range r.Ranking {
		if i != r.Best && c.Error <= 1.1*best.Error && c.Draws >= best.Draws && len(close) < 4 {
			close = append(close, c.Name)
		}
	}
	if len(close) > 0 {
		say("Within 10 %% of the recommended map: %s.", strings.Join(close, "; "))
	}
}

// explainTime names the map with the smallest error at the time of the recommended one, if it is another.
func (r *Report) explainTime(say func(string, ...any), best Candidate) {
	var least *Candidate
	for i := range r.Ranking {
		c := &r.Ranking[i]
		if c.EqualTime != nil && (least == nil || c.EqualTime.Error < least.EqualTime.Error) {
			least = c
		}
	}
	if least == nil || least.Name == best.Name || least.EqualTime.Error > 0.9*best.Error {
		return
	}
	say("At equal time, %.0f ns per row, %s has %d features and an error of %.2g instead of %.2g: choose it if time matters more than the number of features.",
		best.Cost, least.Name, least.EqualTime.Features, least.EqualTime.Error, best.Error)
}

func (r *Report) explainError(say func(string, ...any), best Candidate) {
	kind := "relative to the kernel"
	if r.Loss == lossAbsolute {
		kind = "relative to the root mean square of the kernel"
	}
	if p := best.Predicted; p != nil && r.Measure == measureRMS && r.Best > 0 && *p > rare*best.RMS {
		say("Theory expects an error of %.2g for the recommended map, the pilot measured %.2g: rare pairs or draws make up most of the error.", *p, best.RMS)
	}
	switch t := r.Target; {
	case t == nil:
	case t.Reached:
		say("%d features reach your target of %g.", t.Features, t.Error)
	case t.Expected:
		say("No estimator here reaches your target of %g with up to %d features: the best has an error of %.2g with %d, and would take about %d.",
			t.Error, maxFeatures, best.Error, r.Features, t.Features)
	default:
		say("No estimator here reaches your target of %g: the best has an error of %.2g with %d features.", t.Error,
			best.Error, r.Features)
	}
	switch {
	case best.Error >= uselessError:
		text := fmt.Sprintf("No estimator is useful here with %d features: the best error, %.2g %s, is as large as the error of always answering zero. Compute the kernel exactly, or make the inputs smaller (a larger bandwidth).",
			r.Features, best.Error, kind)
		least := slices.MinFunc(r.Ranking, func(a, b Candidate) int { return cmp.Compare(a.Typical, b.Typical) })
		if r.Measure == measureRMS && least.Typical < 0.5 {
			text += fmt.Sprintf(" In a typical draw %s has an error of only %.2g; rank by typical errors if rare large errors are acceptable.", least.Name, least.Typical)
		}
		say("%s", text)
	case best.Error >= 0.3:
		say("Even the best estimate is rough: %.0f %% %s. The error falls with the square root of the number of features at best.",
			100*best.Error, kind)
	}
	if c := r.Crossover; c != nil {
		say("Below L = %d use exact attention: it is faster than attention with these %d features and has no error.",
			c.Length, r.Features)
	}
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// explainAttention writes the reasons of advice on attention.
func (r *Report) explainAttention() {
	say := func(format string, args ...any) { r.Reasons = append(r.Reasons, fmt.Sprintf(format, args...)) }
	a, best := r.Attention, r.Ranking[r.Best]
	exact, mean, features, chosen := a.Rows[0], a.Rows[1], a.Rows[2], a.Rows[len(a.Rows)-1]
	say("The best of the feature maps, %s with %d features, has a median error of the output of %.2g over the heads; the mean of the values has %.2g.",
		best.Name, r.Features, features.Median, mean.Median)
	r.Useless = features.Median > 0.9*mean.Median
	switch {
	case r.Useless:
		say("Random features are of no use here: they are hardly better than the mean of the values.")
	case features.Median > a.Tol:
		say("No random features here reach your target of %g with %d features.", a.Tol, r.Features)
	}
	kept, exactHeads := 0, 0
	for i, h := range a.Heads {
		if h.Error <= a.Tol {
			kept++
		}
		if a.Choice.Heads[i].Method == "exact" {
			exactHeads++
		}
	}
	r.Verdict = fmt.Sprintf("Choose the method of each head: %d of %d keep an error of %g, at %.0f %% of the cost of exact attention.",
		kept, len(a.Heads), a.Tol, 100*chosen.Cost/exact.Cost)
	if exactHeads == len(a.Heads) {
		r.Verdict = fmt.Sprintf("Use exact attention: nothing keeps an error of %g over %d keys at less cost.", a.Tol, a.Length)
	}
	if exactHeads == len(a.Heads) && a.Choice.Rates != nil {
		say("No estimator here reaches your target of %g in less time than exact attention over %d keys takes on this machine: use exact attention.",
			a.Tol, a.Length)
	} else if exactHeads == len(a.Heads) {
		say("No estimator here reaches your target of %g at less than the cost of exact attention over %d keys: use exact attention.",
			a.Tol, a.Length)
	} else {
		say("Chosen head by head, %d of %d keep %g at a mean cost of %.0f features per token, where exact attention over %d keys costs %.0f.",
			kept, len(a.Heads), a.Tol, chosen.Cost, a.Length, exact.Cost)
		if exactHeads > 0 {
			say("Exact attention is the answer for %d of them.", exactHeads)
		}
		if a.Choice.Rates != nil {
			say("Use exact attention below L = %d or so: it is predicted to be as fast there on this machine.", a.ExactBelow)
		} else {
			say("Use exact attention below L = %d or so: it costs no more there.", a.ExactBelow)
		}
	}
	if c := r.Crossover; c != nil {
		say("Attention with the features alone is faster than exact attention from L = %d on.", c.Length)
	}
	r.explainData(say)
}
