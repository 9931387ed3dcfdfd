package attend

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/qkv"
)

func attendErrors(e choose.LinearErrors) AttendErrors {
	r := AttendErrors{Rows: e.Rows, Output: e.Output, Row: e.Row, Variation: e.Variation}
	if e.Predicted.Err != nil {
		r.Reason = e.Predicted.Err.Error()
	}
	if r.Rows == 0 {
		r.Reason = "no query row sees a key"
		return r
	}
	r.Predicted, r.Denominator = cli.Number(e.Predicted.Output), cli.Number(e.Predicted.Denominator)
	if r.Predicted != nil {
		r.basis, r.Method = e.Predicted.Basis, e.Predicted.Basis.String()
	} else if r.Reason == "" {
		r.Reason = "the prediction to first order is not finite"
	}
	return r
}

// exactLimit is the work, in operations, up to which exact attention is timed as a whole, a few hundredths of a
// second. Beyond it, measuring would take longer than the command itself.
const exactLimit = 2e9

// rows is the number of query rows per head to compare. 128 exact rows cost 128/L of exact attention; for long
// sequences that would be more than the method under test, so fewer are used.
func (f *attendFlags) rows(length int) int {
	if f.sampled || length <= longSequence {
		return f.sample
	}
	return max(minCompareRows, f.sample*longSequence/length)
}

const (
	longSequence   = 2048
	minCompareRows = 16
	longKeys       = 64 // keys of a row that the prediction samples
)

// compareHeads measures the errors of out. With --method features it makes a call of its own, and fills in the
// time and counts of r if the output has not been computed.
func compareHeads(ctx context.Context, env *cli.Env, f *attendFlags, in *qkv.Input,
	out attention.Seq[float32],
	choice *choose.Choice, r *AttendResult) error {
	bar := env.Progress("comparing with exact attention", 1)
	defer bar.End()
	bar.Last = time.Time{}
	bar.At(0)
	c := new(AttendCompare)
	compared := compareOutput
	if f.method == "features" {
		compared = compareFeatures
	}
	if err := compared(f, in, out, choice, c, r); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r.Compare = c
	return timeExact(f, in, c)
}

// compareOutput compares rows of out with exact rows.
func compareOutput(f *attendFlags, in *qkv.Input, out attention.Seq[float32], choice *choose.Choice,
	c *AttendCompare, r *AttendResult) error {
	rows := (f.rows(in.K.Len) + in.Q.Batch - 1) / in.Q.Batch
	check, err := choose.NewCheck(in.Vis, choice.Scale, in.Q, in.K, in.V, rows, f.seed)
	if err != nil {
		return err
	}
	errs, all, err := check.ErrorsOf(out)
	if err != nil {
		return err
	}
	c.AttendErrors, c.AttentionSeconds = outputErrors(all), r.Seconds
	for _, e := range errs {
		c.Heads = append(c.Heads, outputErrors(e))
	}
	return nil
}

func outputErrors(e choose.Estimate) AttendErrors {
	r := AttendErrors{Rows: e.Rows, Output: e.Error, Low: cli.Number(e.Low), High: cli.Number(e.High)}
	if e.Rows == 0 {
		r.Reason = "no query row sees a key"
	}
	return r
}

// compareFeatures also compares attention weights, and predicts the error.
func compareFeatures(f *attendFlags, in *qkv.Input, _ attention.Seq[float32], _ *choose.Choice,
	c *AttendCompare, r *AttendResult) error {
	maps, err := linear.NewMaps[float32](r.Specs)
	if err != nil {
		return err
	}
	lin := &linear.Attention[float32]{Visibility: in.Vis, Window: f.window, Sinks: f.sinks, Maps: maps}
	o := choose.CompareOptions{Rows: f.rows(in.K.Len), Seed: f.seed}
	if in.K.Len > longSequence {
		o.Keys = longKeys
	}
	res, err := choose.Compare(lin, in.Q, in.K, in.V, o)
	if err != nil {
		return err
	}
	c.AttendErrors, c.AttentionSeconds = attendErrors(res.LinearErrors), res.Linear.Seconds()
	for _, h := range res.Heads {
		c.Heads = append(c.Heads, attendErrors(h))
	}
	if f.out == "" {
		r.Seconds, r.Empty, r.Negative, r.Zero = c.AttentionSeconds, res.Report.Empty, res.Report.Negative,
			res.Report.Zero
	}
	return nil
}

// timeExact times exact attention, or a part of it.
func timeExact(f *attendFlags, in *qkv.Input, c *AttendCompare) error {
	work := exactWork(in)
	if work > exactLimit {
		rate, err := exactRate(f, in)
		if err != nil {
			return err
		}
		c.ExactSeconds, c.ExactEstimated = work/rate, true
		return nil
	}
	e := attention.Exact[float32]{Visibility: in.Vis, Scale: f.scale}
	out := likeQueries(*in)
	start := time.Now()
	if _, err := e.Forward(out, in.Q, in.K, in.V); err != nil {
		return err
	}
	c.ExactSeconds = time.Since(start).Seconds()
	return nil
}

// exactWork counts the operations of exact attention over visible pairs.
func exactWork(in *qkv.Input) float64 {
	pairs := float64(in.Q.Batch) * float64(in.Q.Len) * float64(in.K.Len)
	if in.Vis.Segments != nil {
		pairs = 0
		keys := in.Vis.KeySegments
		if keys == nil {
			keys = in.Vis.Segments
		}
		for b := range in.Q.Batch {
			count := map[int32]float64{}
			for _, id := range keys[b*in.K.Len : (b+1)*in.K.Len] {
				count[id]++
			}
			for _, id := range in.Vis.Segments[b*in.Q.Len : (b+1)*in.Q.Len] {
				pairs += count[id]
			}
		}
	}
	if in.Vis.Causal {
		pairs /= 2
	}
	return 2 * pairs * float64(in.Q.Heads) * float64(in.Q.Dim+in.V.Dim)
}

// exactRate measures the operations per second of exact attention on the first rows of one group of heads.
func exactRate(f *attendFlags, in *qkv.Input) (float64, error) {
	const rows = 1024
	part := qkv.Input{Q: firstRows(headRange(in.Q, 0, in.Q.Heads/in.K.Heads), rows),
		K: firstRows(headRange(in.K, 0, 1), rows), V: firstRows(headRange(in.V, 0, 1), rows)}
	part.Vis.Causal = f.causal
	e := attention.Exact[float32]{Visibility: part.Vis, Scale: f.scale, Unchecked: true}
	out := attention.NewSeq[float32](part.Q.Batch, part.Q.Heads, part.Q.Len, part.V.Dim)
	best := time.Duration(0)
	for range 2 { // the first run also faults in memory
		start := time.Now()
		if _, err := e.Forward(out, part.Q, part.K, part.V); err != nil {
			return 0, err
		}
		if t := time.Since(start); best == 0 || t < best {
			best = t
		}
	}
	return exactWork(&part) / best.Seconds(), nil
}

func printCompare(env *cli.Env, r AttendResult) error {
	c := r.Compare
	if c.Rows == 0 {
		env.Note("nothing to compare: %s", c.Reason)
		return nil
	}
	if r.Method != "features" {
		return printOutputErrors(env, r)
	}
	err := cli.Table(env.Stdout, func(w io.Writer) {
		fmt.Fprintln(w, "HEAD\tPREDICTED\tOUTPUT\tROWS\tMISPLACED")
		for h, e := range c.Heads {
			fmt.Fprintf(w, "%d\t%s\t%.3g\t%.3g\t%s\n", h, predictedText(e), e.Output, e.Row, cli.Percent(e.Variation))
		}
		if len(c.Heads) > 1 {
			fmt.Fprintf(w, "all\t%s\t%.3g\t%.3g\t%s\n", predictedText(c.AttendErrors), c.Output, c.Row,
				cli.Percent(c.Variation))
		}
	})
	if err != nil {
		return err
	}
	err = printTimes(env, "linear", c)
	env.Note("%d query row%s of each head, relative errors; OUTPUT of the output, ROWS of the attention rows, MISPLACED the share of attention on wrong keys", c.Heads[0].Rows, cli.Plural(c.Heads[0].Rows))
	if predicted, ok := c.predicted(); ok {
		env.Note("PREDICTED by theory for OUTPUT, over all draws of the projections: %s", methodText(predicted))
	}
	if without, reason := c.unpredicted(); len(without) > 0 {
		env.Note("PREDICTED is - for head%s %s: %s", cli.Plural(len(without)), strings.Join(without, ", "), reason)
	}
	return err
}

// printOutputErrors prints the errors of methods without a theory, beside the error that the choice expected.
func printOutputErrors(env *cli.Env, r AttendResult) error {
	c := r.Compare
	err := cli.Table(env.Stdout, func(w io.Writer) {
		fmt.Fprintln(w, "HEAD\tMETHOD\tCOST\tµs/TOKEN\tEXPECTED\tOUTPUT")
		for h, e := range c.Heads {
			plan := r.Choice[h/(len(c.Heads)/len(r.Choice))]
			expected := "-"
			if plan.Expected != nil {
				expected = fmt.Sprintf("%.2g", *plan.Expected)
			}
			fmt.Fprintf(w, "%d\t%s\t%.0f\t%s\t%s\t%s\n", h, plan.method(), plan.Cost, microseconds(plan.Seconds),
				expected, intervalText(e))
		}
		if len(c.Heads) > 1 {
			fmt.Fprintf(w, "all\t\t%.0f\t\t\t%s\n", r.Cost, intervalText(c.AttendErrors))
		}
	})
	if err != nil {
		return err
	}
	name := "attention"
	if !slices.ContainsFunc(r.Choice, func(c AttendChoice) bool { return c.Method != "exact" }) {
		name = "exact"
	}
	err = printTimes(env, name, c)
	env.Note("OUTPUT is the relative error of the output on %d query row%s of each head, and its interval of 90 %%; COST of a token is in random features, exact attention has %.0f", c.Heads[0].Rows, cli.Plural(c.Heads[0].Rows), r.ExactCost)
	return err
}

func intervalText(e AttendErrors) string {
	if e.Low == nil || e.High == nil || *e.High == 0 {
		return fmt.Sprintf("%.2g", e.Output)
	}
	return fmt.Sprintf("%.2g (%.2g to %.2g)", e.Output, *e.Low, *e.High)
}

func printTimes(env *cli.Env, name string, c *AttendCompare) error {
	approximately, exact := "", ""
	if c.ExactEstimated {
		approximately, exact = "about ", " (estimated from a part)"
	}
	if name == "exact" { // it is no faster than itself
		_, err := fmt.Fprintf(env.Stdout, "\nexact attention on all heads: %.3g s\n", c.AttentionSeconds)
		return err
	}
	_, err := fmt.Fprintf(env.Stdout, "\n%s %.3g s, exact %s%.3g s%s: %s%s\n", name, c.AttentionSeconds, approximately,
		c.ExactSeconds, exact, approximately, cli.Speed(c.ExactSeconds/c.AttentionSeconds))
	return err
}

// predicted returns errors that come with a prediction: all heads together, or the first head that has one.
func (c *AttendCompare) predicted() (AttendErrors, bool) {
	for _, e := range append([]AttendErrors{c.AttendErrors}, c.Heads...) {
		if e.Predicted != nil {
			return e, true
		}
	}
	return AttendErrors{}, false
}

// unpredicted returns the heads without a prediction, and the reason of the first.
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

// predictedText marks predictions that are not closed forms for this map.
func predictedText(e AttendErrors) string {
	if e.Predicted == nil {
		return "-"
	}
	mark := ""
	if e.Method != "" {
		mark, _ = e.basis.Note()
	}
	return fmt.Sprintf("%s%.3g", mark, *e.Predicted)
}

func methodText(e AttendErrors) string {
	text := ""
	if e.Method != "" {
		mark, note := e.basis.Note()
		text = strings.TrimSpace(mark + " " + note)
	}
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	if e.Denominator != nil && *e.Denominator > wildDenominator {
		text += fmt.Sprintf("; denominators vary by %s, where the first order says too much", cli.Percent(*e.Denominator))
	}
	return text
}

// wildDenominator is the relative error of denominators at which first-order predictions begin to fail.
const wildDenominator = 0.5
