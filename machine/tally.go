package machine

// tally counts rows with weights: the sum of the weights and of their squares, which are equal without weights.
type tally struct{ w, w2 float64 }

// counted is a tally of n rows of weight 1.
func counted(n int64) tally { return tally{float64(n), float64(n)} }

func (t *tally) add(weight float64) { t.merge(tally{weight, weight * weight}) }

func (t *tally) merge(o tally) {
	t.w += o.w
	t.w2 += o.w2
}

// effective is the effective sample size (Σw)²/Σw² (Kish 1965, "Survey sampling", §11.7).
func (t tally) effective() float64 {
	if t.w2 == t.w { // without weights: exact to the last bit
		return t.w
	}
	return t.w * t.w / t.w2
}

// shareOf returns the share of right among all with its interval. With weights the interval uses the number of rows
// that has the variance Σw²(x−p)²/(Σw)² of the weighted share (Korn & Graubard 1998, "Confidence intervals for
// proportions with small expected number of positive counts estimated from survey data", Survey Methodology 24).
func shareOf(right, all tally) (p, low, high float64) {
	p = right.w / all.w
	n := all.effective()
	if variance := (right.w2*(1-p)*(1-p) + (all.w2-right.w2)*p*p) / (all.w * all.w); all.w2 != all.w && variance > 0 {
		n = min(n, p*(1-p)/variance)
	}
	low, high = proportion(p, n)
	return p, low, high
}
