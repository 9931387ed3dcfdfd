// Package crossover finds the length from which linear attention is faster than exact attention, from times measured at
// several lengths. A caller fills Points with times at the lengths of [Lengths], calls [CrossoverPoint.Sum] for each
// and [CrossoverResult.Find] once; then Verdict, Draw and WriteSVG show the result. The types have the names that the
// published schemas use.
package crossover

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
)

// CrossoverResult is the object of crossover --json: the length from which linear attention is faster than
// exact attention on this machine.
type CrossoverResult struct {
	Dim      int    `json:"dim"` // dimension of a head
	Features int    `json:"features"`
	Heads    int    `json:"heads"`
	Causal   bool   `json:"causal,omitempty"`
	Family   string `json:"family"`
	Threads  int    `json:"threads"` // threads used
	Seed     uint64 `json:"seed"`
	// Length where the two times cross, interpolated; absent if they do not cross.
	Length *float64 `json:"length,omitempty"`
	Low    *float64 `json:"low,omitempty"`   // 5 % quantile of the length over resampled measurements
	High   *float64 `json:"high,omitempty"`  // 95 % quantile of the length
	Below  bool     `json:"below,omitempty"` // linear attention is faster at every measured length
	// Linear attention is faster at none; Length is where extrapolated times meet.
	Extrapolated bool `json:"extrapolated,omitempty"`
	// Stopped says that --budget ended the series before --max-len.
	Stopped bool             `json:"stopped,omitempty"`
	Points  []CrossoverPoint `json:"points"`         // the measured times
	Plot    string           `json:"plot,omitempty"` // the file written
}

// CrossoverPoint is one length.
type CrossoverPoint struct {
	Length int       `json:"length"`
	Runs   int       `json:"runs"`
	Linear Quartiles `json:"linear"`
	Exact  Quartiles `json:"exact"`

	LinearRuns []float64 `json:"-"` // seconds of a call, run by run
	ExactRuns  []float64 `json:"-"`
}

// Quartiles are seconds per call.
type Quartiles struct {
	Low    float64 `json:"low"`
	Median float64 `json:"median"`
	High   float64 `json:"high"`
}

// Sum sets the number of runs and the quartiles from the times of the runs.
func (p *CrossoverPoint) Sum() {
	p.Runs, p.Linear, p.Exact = len(p.LinearRuns), quartiles(p.LinearRuns), quartiles(p.ExactRuns)
}

// growth is the ratio of one length to the one before.
const growth = math.Sqrt2

// Lengths grow by √2, in multiples of 16 where that leaves them apart.
func Lengths(lo, hi int) []int {
	var out []int
	for x := float64(lo); ; x *= growth {
		l := int(math.Round(x))
		if l > 64 {
			l = (l + 8) / 16 * 16
		}
		if l >= hi {
			return append(out, hi)
		}
		if len(out) == 0 || l > out[len(out)-1] {
			out = append(out, l)
		}
	}
}

// Verdict says the result in a sentence.
func (r *CrossoverResult) Verdict() string {
	longest := r.Points[len(r.Points)-1]
	switch {
	case r.Below:
		return fmt.Sprintf("Linear attention is faster at every length measured, from %d on.", r.Points[0].Length)
	case r.Extrapolated:
		return fmt.Sprintf("Exact attention is faster up to %d, the longest length measured; at the usual growth linear attention wins from about %.0f on.", longest.Length, *r.Length)
	}
	return fmt.Sprintf("Linear attention is faster from length %.0f on (90 %% of resampled runs: %.0f to %.0f); %s at %d.",
		*r.Length, *r.Low, *r.High, cli.Speed(longest.Exact.Median/longest.Linear.Median), longest.Length)
}
