package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/compare"
	"github.com/randfeat/randfeat/dense"
	forecast "github.com/randfeat/randfeat/predict"
)

// AttendCompare is the error of linear attention against exact attention: part of what attend --compare --json prints.
type AttendCompare struct {
	AttendErrors                // of all heads together
	Heads        []AttendErrors `json:"heads"` // of each query head
	// LinearSeconds and ExactSeconds are the times of both over the whole input. ExactEstimated says that exact
	// attention would have taken long: its time is then that of a part, multiplied.
	LinearSeconds  float64 `json:"linear_seconds"`
	ExactSeconds   float64 `json:"exact_seconds"`
	ExactEstimated bool    `json:"exact_estimated,omitempty"`
}

// AttendErrors are the errors of one head over a sample of its query rows.
type AttendErrors struct {
	Rows int `json:"rows"` // compared; rows that see no key are left out
	// Predicted is the error of the output by theory, to first order; absent where it is not known, and Reason says
	// why. Method says how it was found: covariances, scaled covariances, independent rows, upper bound.
	Predicted *float64 `json:"predicted,omitempty"`
	Method    string   `json:"method,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	// Denominator is the predicted relative error of the denominators. Where it is not small the prediction for
	// positive features is too large, and above 1 there is none; with signed features there is none once that of a row
	// is above ¼.
	Denominator *float64 `json:"denominator,omitempty"`
	Output      float64  `json:"output"`    // |ô-o|/|o| over all rows
	Row         float64  `json:"row"`       // root mean square of |â-a|/|a| of the attention rows
	Variation   float64  `json:"variation"` // mean share of the attention that is on the wrong keys
}

func attendErrors(e compare.Errors) AttendErrors {
	r := AttendErrors{Rows: e.Rows, Output: e.Output, Row: e.Row, Variation: e.Variation}
	if e.Predicted.Err != nil {
		r.Reason = e.Predicted.Err.Error()
	}
	switch p := e.Predicted; {
	case r.Rows == 0:
		r.Reason = "no query row sees a key"
		return r
	case p.Method != forecast.NoPrediction:
		r.Predicted = number(p.Output)
	}
	r.Denominator = number(e.Predicted.Denominator)
	if r.Predicted != nil {
		r.Method = e.Predicted.Method.String()
	} else if r.Reason == "" {
		r.Reason = "the prediction to first order is not finite"
	}
	return r
}

// exactLimit is the work up to which exact attention is run for its time, some ten seconds.
const exactLimit = 1e12

// compareHeads measures the errors. It also fills in the time and counts of r if the linear output was not computed
// yet.
func compareHeads[T dense.Float](ctx context.Context, a *app, f *attendFlags, in *attendInput[T],
	maps []randfeat.FeatureMap[T], r *AttendResult) error {
	lin := &attention.Linear[T]{Visibility: in.vis, Window: f.window, Maps: maps}
	work := exactWork(in)
	bar := a.progress("comparing with exact attention", 1)
	defer bar.end()
	bar.last = time.Time{}
	bar.at(0)
	c, err := compare.Run(lin, in.q, in.k, in.v, compare.Options{Rows: f.sample, Seed: f.seed,
		Exact: work <= exactLimit})
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	out := &AttendCompare{AttendErrors: attendErrors(c.Errors), LinearSeconds: c.Linear.Seconds(),
		ExactSeconds: c.Exact.Seconds()}
	for _, h := range c.Heads {
		out.Heads = append(out.Heads, attendErrors(h))
	}
	if work > exactLimit {
		rate, err := exactRate(f, in)
		if err != nil {
			return err
		}
		out.ExactSeconds, out.ExactEstimated = work/rate, true
	}
	r.Compare = out
	if f.out == "" {
		r.Seconds, r.Empty, r.Negative, r.Zero = out.LinearSeconds, c.Report.Empty, c.Report.Negative, c.Report.Zero
	}
	return nil
}

// exactWork counts the operations of exact attention over what is visible.
func exactWork[T dense.Float](in *attendInput[T]) float64 {
	pairs := float64(in.q.Batch) * float64(in.q.Len) * float64(in.k.Len)
	if in.vis.Segments != nil {
		pairs = 0
		keys := in.vis.KeySegments
		if keys == nil {
			keys = in.vis.Segments
		}
		for b := range in.q.Batch {
			count := map[int32]float64{}
			for _, id := range keys[b*in.k.Len : (b+1)*in.k.Len] {
				count[id]++
			}
			for _, id := range in.vis.Segments[b*in.q.Len : (b+1)*in.q.Len] {
				pairs += count[id]
			}
		}
	}
	if in.vis.Causal {
		pairs /= 2
	}
	return 2 * pairs * float64(in.q.Heads) * float64(in.q.Dim+in.v.Dim)
}

// exactRate is the operations per second of exact attention over the first rows of all heads.
func exactRate[T dense.Float](f *attendFlags, in *attendInput[T]) (float64, error) {
	const rows = 2048
	part := attendInput[T]{q: firstRows(headRange(in.q, 0, in.q.Heads/in.k.Heads), rows),
		k: firstRows(headRange(in.k, 0, 1), rows), v: firstRows(headRange(in.v, 0, 1), rows)}
	part.vis.Causal = f.causal
	e := attention.Exact[T]{Visibility: part.vis, Scale: f.scale, Unchecked: true}
	out := attention.NewSeq[T](part.q.Batch, part.q.Heads, part.q.Len, part.v.Dim)
	best := time.Duration(0)
	for range 3 {
		start := time.Now()
		if _, err := e.Forward(out, part.q, part.k, part.v); err != nil {
			return 0, err
		}
		if t := time.Since(start); best == 0 || t < best {
			best = t
		}
	}
	return exactWork(&part) / best.Seconds(), nil
}

// firstRows is the view of the first n positions.
func firstRows[T dense.Float](s attention.Seq[T], n int) attention.Seq[T] {
	s.Len = min(s.Len, n)
	return s
}

func (a *app) printCompare(r AttendResult) error {
	c := r.Compare
	if c.Rows == 0 {
		a.note("nothing to compare: %s", c.Reason)
		return nil
	}
	err := table(a.stdout, func(w io.Writer) {
		fmt.Fprintln(w, "HEAD\tPREDICTED\tOUTPUT\tROWS\tMISPLACED")
		for h, e := range c.Heads {
			fmt.Fprintf(w, "%d\t%s\t%.3g\t%.3g\t%s\n", h, predictedText(e), e.Output, e.Row, percent(e.Variation))
		}
		if len(c.Heads) > 1 {
			fmt.Fprintf(w, "all\t%s\t%.3g\t%.3g\t%s\n", predictedText(c.AttendErrors), c.Output, c.Row,
				percent(c.Variation))
		}
	})
	if err != nil {
		return err
	}
	approximately, exact := "", ""
	if c.ExactEstimated {
		approximately, exact = "about ", " (estimated from a part)"
	}
	_, err = fmt.Fprintf(a.stdout, "\nlinear %.3g s, exact %s%.3g s%s: %s%.3g times as fast\n", c.LinearSeconds,
		approximately, c.ExactSeconds, exact, approximately, c.ExactSeconds/c.LinearSeconds)
	a.note("%d query row%s of each head, relative errors; OUTPUT of the output, ROWS of the attention rows, MISPLACED the share of attention on wrong keys", c.Heads[0].Rows, plural(c.Heads[0].Rows))
	if predicted, ok := c.predicted(); ok {
		a.note("PREDICTED by theory for OUTPUT, over all draws of the projections: %s", methodText(predicted))
	}
	if without, reason := c.unpredicted(); len(without) > 0 {
		a.note("PREDICTED is - for head%s %s: %s", plural(len(without)), strings.Join(without, ", "), reason)
	}
	return err
}

// predicted are errors that come with a prediction: those of all heads, or of the first head that has one.
func (c *AttendCompare) predicted() (AttendErrors, bool) {
	for _, e := range append([]AttendErrors{c.AttendErrors}, c.Heads...) {
		if e.Predicted != nil {
			return e, true
		}
	}
	return AttendErrors{}, false
}

// unpredicted are the heads without a prediction, and why the first of them has none.
func (c *AttendCompare) unpredicted() (heads []string, reason string) {
	for h, e := range c.Heads {
		if e.Predicted == nil {
			if heads == nil {
				reason = e.Reason
			}
			heads = append(heads, strconv.Itoa(h))
		}
	}
	return heads, reason
}

// percent shows a share with two digits, but 100 % not as 1e+02 %.
func percent(share float64) string {
	if p := 100 * share; p >= 99.5 && p < 1e4 {
		return fmt.Sprintf("%.0f %%", p)
	}
	return fmt.Sprintf("%.2g %%", 100*share)
}

// predictedText marks predictions that are not closed forms of this very map.
func predictedText(e AttendErrors) string {
	if e.Predicted == nil {
		return "-"
	}
	mark := ""
	switch e.Method {
	case forecast.ScaledCovariances.String(), forecast.IndependentRows.String():
		mark = "~"
	case forecast.UpperBound.String():
		mark = "≤"
	}
	return fmt.Sprintf("%s%.3g", mark, *e.Predicted)
}

func methodText(e AttendErrors) string {
	text := ""
	switch e.Method {
	case forecast.Covariances.String():
		text = "closed form, to first order"
	case forecast.ScaledCovariances.String():
		text = "~ that of independent projections, scaled by the gain of the coupling"
	case forecast.IndependentRows.String():
		text = "~ that of independent projections"
	case forecast.UpperBound.String():
		text = "≤ an upper bound"
	}
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	if e.Denominator != nil && *e.Denominator > wildDenominator {
		text += fmt.Sprintf("; denominators vary by %s, where the first order says too much", percent(*e.Denominator))
	}
	return text
}

// wildDenominator is a relative error of denominators at which first-order predictions begin to fail.
const wildDenominator = 0.5
