package choose

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// judged is one judgement of a candidate in a search.
type judged struct {
	Plan
	Estimate
	Texts int
	Fresh bool // on rows that have not guided the search
}

// Trace is the search of one head: every candidate in the order of its price, with its judgements and why it was taken
// or left.
type Trace []candidate

// candidate is a plan in a Trace. Price is what plans are ranked by: predicted seconds of a token, its cost in
// features, or the keys that a decoding step reads.
type candidate struct {
	Plan
	Cost, Price float64
	Judged      []judged
	Verdict     string
}

// trace says what became of the candidates of a head.
func (j *judge) trace(taken Plan) (out Trace) {
	for _, list := range [...][]Plan{j.Plans, j.left, {{Method: Exact}}} {
		for _, p := range list {
			c := candidate{Plan: p, Cost: j.cost(p)}
			if p.Method != Exact || !j.Decode { // exact attention is no plan for decoding
				c.Price = j.price(p)
			}
			for _, t := range j.tried {
				if t.Plan == p {
					c.Judged = append(c.Judged, t)
				}
			}
			c.Verdict = j.verdict(&c, taken)
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b candidate) int {
		switch {
		case a.Price < b.Price:
			return -1
		case a.Price > b.Price:
			return 1
		}
		return 0
	})
	return out
}

func (j *judge) verdict(c *candidate, taken Plan) string {
	n := len(c.Judged)
	switch {
	case c.Plan == taken:
		return "taken"
	case c.Method == Exact:
		return "left: the plan taken is cheaper"
	case slices.Contains(j.left, c.Plan):
		return "left: not cheaper than exact attention"
	case n == 0 && j.Budget > 0:
		return "left: not tried"
	case n == 0 && taken.Method != Exact && c.Price >= j.price(taken):
		return "not tried: it costs no less than the plan taken"
	case n == 0:
		return "not tried: the judgements of others left no hope, or no time"
	case c.Judged[n-1].Error == math.MaxFloat64:
		return "left: it cannot be fitted, or its outputs are not finite"
	case j.Budget > 0:
		return "left: the budget is better spent otherwise"
	case c.Judged[n-1].Error > j.Tol:
		return "left: the error is above the tolerance"
	case c.Judged[n-1].High > j.Tol:
		return "left: the upper end of the error is above the tolerance"
	}
	return "left: good enough, but another is cheaper or was tried first"
}

// String is the trace as text, one line for each candidate and judgement.
func (t Trace) String() string {
	var b strings.Builder
	for _, c := range t {
		fmt.Fprintf(&b, "%s: cost %.4g, price %.4g: %s\n", c.Plan, c.Cost, c.Price, c.Verdict)
		for _, j := range c.Judged {
			rows := "first rows"
			if j.Fresh {
				rows = "fresh rows"
			}
			fmt.Fprintf(&b, "\t%d texts, %d %s: error %.3g", j.Texts, j.Rows, rows, j.Error)
			if j.Low > 0 {
				fmt.Fprintf(&b, " (%.3g to %.3g)", j.Low, j.High)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}
