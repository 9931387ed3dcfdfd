package main

import (
	"bytes"
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

const (
	dim   = 16
	pairs = 22  // rows per side; the figure has pairs² points per panel
	fit   = 500 // other rows per side, to which families are fitted
	m     = 64  // features of every panel
)

// panel is one estimator of exp(q·k).
type panel struct {
	title, subtitle string
	family          family.Family
	coupling        coupling.Coupling
}

var panels = []panel{
	{"Performer (FAVOR+)", "positive features, independent", family.Positive{}, coupling.IID{}},
	{"FAVOR++", "oprf features, orthogonal", family.OPRF{}, coupling.Orthogonal{}},
	{"What advise recommends", "adaptive features, simplex", family.Adaptive{}, coupling.Simplex{}},
}

// rows draws anisotropic rows: column l has the given mean and the standard deviation spread(l).
func rows(n int, stream uint64, mean float64, spread func(l int) float64) dense.Matrix[float64] {
	x := dense.New[float64](n, dim)
	rng.Normals(x.Data, rng.Stream(20220531, stream))
	for i := range n {
		for l := range dim {
			x.Row(i)[l] = mean + spread(l)*x.Row(i)[l]
		}
	}
	return x
}

// estimates draws estimates of exp(q·k) against the exact values, one panel per estimator, 64 features each.
func estimates() ([]byte, error) {
	// The distribution of advise --demo, up to a rotation: where queries vary most, keys vary least.
	falling := func(l int) float64 { return 0.7 / float64(l+1) }
	rising := func(l int) float64 { return falling(dim - 1 - l) }
	q, k := rows(pairs, 1, 0.08, falling), rows(pairs, 2, 0.05, rising)
	fitQ, fitK := rows(fit, 3, 0.08, falling), rows(fit, 4, 0.05, rising)

	softmax := kernel.Kernel{Kind: kernel.Softmax}
	exact := dense.New[float64](pairs, pairs)
	if err := kernel.Gram(softmax, exact, q, k); err != nil {
		return nil, err
	}
	const (
		side, gap, left, top = 236.0, 32.0, 58.0, 78.0
		low, high            = 0.5, 2.0 // of both logarithmic axes
	)
	width, height := left+3*side+2*gap+12, top+side+50
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img" `+
		"aria-labelledby=\"title desc\">\n", width, height, width, height)
	b.WriteString("<title id=\"title\">Three estimators of exp(q·k), 64 features each</title>\n")
	describe := bytes.NewBufferString("Estimates against exact values; relative errors (root mean square): ")
	var body bytes.Buffer
	at := func(v float64) float64 { return math.Log(v/low) / math.Log(high/low) }
	for i, p := range panels {
		spec, err := randfeat.Fit(randfeat.Spec{Kernel: softmax, Family: p.family, Coupling: p.coupling, Dim: dim, M: m,
			Seed: 1}, fitQ, fitK)
		if err != nil {
			return nil, err
		}
		fm, err := randfeat.New[float64](spec)
		if err != nil {
			return nil, err
		}
		if fm.OutDim() != m {
			return nil, fmt.Errorf("%s has %d features, want %d", p.title, fm.OutDim(), m)
		}
		got := dense.New[float64](pairs, pairs)
		if err := fm.Gram(got, q, k, nil); err != nil {
			return nil, err
		}
		sum := 0.0
		for j, v := range exact.Data {
			sum += (got.Data[j]/v - 1) * (got.Data[j]/v - 1)
		}
		rms := math.Sqrt(sum / float64(len(exact.Data)))
		x0 := left + float64(i)*(side+gap)
		fmt.Fprintf(describe, "%s %.2g; ", p.title, rms)
		fmt.Fprintf(&body, "<text class=\"title\" x=\"%g\" y=\"30\">%s</text>\n", x0, p.title)
		fmt.Fprintf(&body, "<text class=\"minor\" x=\"%g\" y=\"48\">%s</text>\n", x0, p.subtitle)
		fmt.Fprintf(&body, "<text class=\"error c%d\" x=\"%g\" y=\"68\">error %.2g</text>\n", i, x0, rms)
		fmt.Fprintf(&body, "<rect class=\"back\" x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\"/>\n", x0, top, side, side)
		for _, tick := range []float64{0.5, 1, 2} {
			t := at(tick)
			if 0 < t && t < 1 {
				fmt.Fprintf(&body, "<path class=\"grid\" d=\"M%g %gv%gM%g %gh%g\"/>\n", x0+t*side, top, side, x0,
					top+side-t*side, side)
			}
			fmt.Fprintf(&body, "<text class=\"x minor\" x=\"%g\" y=\"%g\">%g</text>\n", x0+t*side, top+side+18, tick)
			if i == 0 {
				fmt.Fprintf(&body, "<text class=\"y minor\" x=\"%g\" y=\"%g\">%g</text>\n", x0-8, top+side-t*side+4,
					tick)
			}
		}
		fmt.Fprintf(&body, "<path class=\"line\" d=\"M%g %gL%g %g\"/>\n<path class=\"c%d\" d=\"", x0, top+side,
			x0+side, top, i)
		for j, v := range exact.Data {
			// Estimates outside of the axes lie on their border; negative ones cannot occur, all families are positive.
			u, w := at(v), min(max(at(got.Data[j]), 0), 1)
			if u < 0 || u > 1 {
				continue
			}
			fmt.Fprintf(&body, "M%.1f %.1fh.01", x0+u*side, top+side-w*side)
		}
		body.WriteString("\"/>\n")
		fmt.Fprintf(&body, "<text class=\"x minor\" x=\"%g\" y=\"%g\">exact exp(q·k)</text>\n", x0+side/2, height-12)
	}
	fmt.Fprintf(&body, "<text class=\"x minor\" transform=\"translate(18 %g) rotate(-90)\">estimate</text>\n",
		top+side/2)
	fmt.Fprintf(&b, "<desc id=\"desc\">%s%d pairs of queries and keys in %d dimensions.</desc>\n", describe,
		pairs*pairs, dim)
	b.WriteString(style)
	b.Write(body.Bytes())
	b.WriteString("</svg>\n")
	return b.Bytes(), nil
}

const style = `<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #24292f }
.title { font-size: 16px; font-weight: 600 } .minor { fill: #57606a } .x { text-anchor: middle } .y { text-anchor: end }
.error { font-size: 15px; font-weight: 600 } text.error { stroke: none }
.back { fill: #f6f8fa } .grid { stroke: #d8dee4 } .line { stroke: #57606a; stroke-dasharray: 4 4; fill: none }
path.c0, path.c1, path.c2 { fill: none; stroke-width: 4; stroke-linecap: round; stroke-opacity: .45 }
path.c0 { stroke: #d55e00 } path.c1 { stroke: #0072b2 } path.c2 { stroke: #009e73 }
text.c0 { fill: #c05000 } text.c1 { fill: #0072b2 } text.c2 { fill: #007a59 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .minor { fill: #9da7b1 } .back { fill: #161b22 } .grid { stroke: #30363d } .line { stroke: #9da7b1 }
path.c0 { stroke: #ff8c42 } path.c1 { stroke: #58a6ff } path.c2 { stroke: #3fc79a }
text.c0 { fill: #ff8c42 } text.c1 { fill: #58a6ff } text.c2 { fill: #3fc79a }
}
</style>
`
