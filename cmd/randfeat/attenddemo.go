package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/compare"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

// AttendDemoRow is one estimator on the synthetic data: what attend --demo --json prints.
type AttendDemoRow struct {
	Estimator string `json:"estimator"`
	Coupling  string `json:"coupling,omitempty"`
	Fitted    bool   `json:"fitted,omitempty"`
	Window    int    `json:"window,omitempty"`
	Features  int    `json:"features,omitempty"`
	// Predicted and Output are relative errors of the output, |ô-o|/|o|; see AttendErrors.
	Predicted *float64 `json:"predicted,omitempty"`
	Method    string   `json:"method,omitempty"`
	Output    float64  `json:"output"`
	Negative  int64    `json:"negative,omitempty"` // denominators below zero
	Seconds   float64  `json:"seconds"`
	Seed      uint64   `json:"seed"`
	Length    int      `json:"length"`
	Causal    bool     `json:"causal,omitempty"`
}

const (
	attendDemoLen = 4096
	attendDemoDim = 64
	// attendDemoKeys of a row enter its prediction: the work is their square, and the mean over rows needs no more.
	attendDemoKeys = 128
)

// attendDemoRows are the estimators of the demo, from the first papers to what is recommended.
var attendDemoRows = []struct {
	family, coupling string
	fit              bool
	window           int
}{
	{family: "elu", coupling: "iid"},
	{family: "relu", coupling: "orthogonal"},
	{family: "trig", coupling: "orthogonal"},
	{family: "positive", coupling: "iid"},
	{family: "positive", coupling: "orthogonal"},
	{family: "oprf", coupling: "orthogonal", fit: true},
	{family: "adaptive", coupling: "orthogonal", fit: true},
	{family: "adaptive", coupling: "simplex", fit: true},
	{family: "adaptive", coupling: "orthogonal", fit: true, window: 32},
	{family: "adaptive", coupling: "orthogonal", fit: true, window: 128},
	{family: "adaptive", coupling: "orthogonal", fit: true, window: 512},
}

func (a *app) attendDemo(cmd *cobra.Command, f *attendFlags) error {
	err := conflict(cmd, "demo", "out", "exact", "heads", "kv-heads", "mask", "segments", "key-segments", "window",
		"scale", "dtype", "family", "coupling", "fit", "compare")
	if err != nil {
		return err
	}
	if f.m < 1 || f.sample < 1 {
		return misused("--features (-m) is %d and --sample is %d, want at least 1", f.m, f.sample)
	}
	if f.m > maxElements/attendDemoDim {
		return misused("--features (-m) is %d, want at most %d", f.m, maxElements/attendDemoDim)
	}
	in := attendInput[float32]{vis: attention.Visibility{Causal: f.causal}}
	if in.q, in.k, in.v, err = attendDemoData(attendDemoLen, attendDemoDim); err != nil {
		return err
	}
	rows, err := a.attendBaselines(f, &in)
	if err != nil {
		return err
	}
	bar := a.progress("estimators", len(attendDemoRows))
	defer bar.end()
	for i, c := range attendDemoRows {
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		own := *f
		own.family, own.coupling, own.fit, own.window = c.family, c.coupling, c.fit, c.window
		row, err := a.attendDemoRow(cmd.Context(), &own, &in)
		if err != nil {
			return err
		}
		rows = append(rows, row)
		bar.at(i + 1)
	}
	bar.end()
	if a.json {
		for _, r := range rows {
			if err := a.object(r); err != nil {
				return err
			}
		}
		return nil
	}
	return a.printAttendDemo(f, rows)
}

func (a *app) attendDemoRow(ctx context.Context, f *attendFlags, in *attendInput[float32]) (AttendDemoRow, error) {
	row := demoRow(f, f.family)
	row.Coupling, row.Fitted, row.Window = f.coupling, f.fit, f.window
	maps, _, err := attendMaps[float32](a, f, in)
	if err != nil {
		return row, err
	}
	row.Features = maps[0].OutDim()
	lin := &attention.Linear[float32]{Visibility: in.vis, Window: f.window, Maps: maps}
	c, err := compare.Run(lin, in.q, in.k, in.v, compare.Options{Rows: f.sample, Keys: attendDemoKeys, Seed: f.seed})
	if err != nil {
		return row, err
	}
	e := attendErrors(c.Errors)
	if maps[0].Target().Kind == kernel.Softmax { // theory knows nothing of baselines
		row.Predicted, row.Method = e.Predicted, e.Method
	}
	row.Output, row.Negative = e.Output, c.Report.Negative
	out := likeQueries(*in)
	row.Seconds, err = bestOf(lin, out, in)
	if err == nil {
		err = ctx.Err()
	}
	return row, err
}

func demoRow(f *attendFlags, name string) AttendDemoRow {
	return AttendDemoRow{Estimator: name, Seed: f.seed, Length: attendDemoLen, Causal: f.causal}
}

// attendBaselines are exact attention, for its time, and attention that looks at no query and no key.
func (a *app) attendBaselines(f *attendFlags, in *attendInput[float32]) ([]AttendDemoRow, error) {
	exact, out := likeQueries(*in), likeQueries(*in)
	e := attention.Exact[float32]{Visibility: in.vis}
	row := demoRow(f, "exact")
	var err error
	if row.Seconds, err = bestOf(&e, exact, in); err != nil {
		return nil, err
	}
	mean := attention.Constant[float32]{Visibility: in.vis}
	constant := demoRow(f, "mean of the values")
	if constant.Seconds, err = bestOf(&mean, out, in); err != nil {
		return nil, err
	}
	constant.Output = relativeDistance(out.Data, exact.Data)
	return []AttendDemoRow{row, constant}, nil
}

// bestOf times an attention, the best of three.
func bestOf(f attention.Attention[attention.Seq[float32]], out attention.Seq[float32],
	in *attendInput[float32]) (seconds float64, err error) {
	seconds = math.Inf(1)
	for range 3 {
		start := time.Now()
		if _, err := f.Forward(out, in.q, in.k, in.v); err != nil {
			return 0, err
		}
		seconds = min(seconds, time.Since(start).Seconds())
	}
	return seconds, nil
}

func relativeDistance[T dense.Float](got, want []T) float64 {
	var diff, norm float64
	for i, w := range want {
		d := float64(got[i]) - float64(w)
		diff += d * d
		norm += float64(w) * float64(w)
	}
	return math.Sqrt(diff / norm)
}

func (a *app) printAttendDemo(f *attendFlags, rows []AttendDemoRow) error {
	direction := "bidirectional"
	if f.causal {
		direction = "causal"
	}
	fmt.Fprintf(a.stdout, "Error of the output relative to exact attention, %s, L = %d, d = %d, one head, float32; -m %d, seed %d.\n\n",
		direction, attendDemoLen, attendDemoDim, f.m, f.seed)
	err := table(a.stdout, func(w io.Writer) {
		fmt.Fprintln(w, "ESTIMATOR\tCOUPLING\tWINDOW\tFEATURES\tPREDICTED\tERROR\tms\tSPEED-UP")
		for _, r := range rows {
			name, features := r.Estimator, "-"
			if r.Fitted {
				name += ", fitted"
			}
			if r.Features > 0 {
				features = fmt.Sprint(r.Features)
			}
			window := "-"
			if r.Window > 0 {
				window = fmt.Sprint(r.Window)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%.2g\t%.2f\t%.1f\n", name, dash(r.Coupling), window, features,
				predictedText(AttendErrors{Predicted: r.Predicted, Method: r.Method}), r.Output, r.Seconds*1e3,
				rows[0].Seconds/r.Seconds)
		}
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(a.stdout, "\nWINDOW: so many keys around the query are exact, features see the rest. PREDICTED: by theory to first order, over all\n"+
		"draws; ~ from independent projections, ≤ a bound, - none: no closed form, or denominators that vary too much.\n")
	return err
}
