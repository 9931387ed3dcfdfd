package calc

import (
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/forms"
)

// couplingName is the input that names a joint law of the projections.
func couplingName() Input { return choice("coupling", "iid", "orthogonal", "simplex") }

func (v values) law() coupling.PairKind {
	switch v.s("coupling") {
	case "orthogonal":
		return coupling.PairOrthogonal
	case "simplex":
		return coupling.PairSimplex
	}
	return coupling.PairIndependent
}

// shapeName is the input that names the dependence of an estimator on a projection.
func shapeName() Input { return choice("shape", "exponential", "trigonometric", "hyperbolic") }

func (v values) shape() forms.Shape {
	switch v.s("shape") {
	case "trigonometric":
		return forms.Trigonometric
	case "hyperbolic":
		return forms.Hyperbolic
	}
	return forms.Exponential
}

// coupledEntries are conformities, gaps and errors of coupled projections: docs/theory.md §5.2.
func coupledEntries() []Entry {
	return []Entry{
		formula("conformity.orthogonal_log", "SimRF Thm 4.3 eq 23: log 1F1(d; d/2; v2/2)",
			forms.LogConformityOrthogonal, dimension("d"), nonnegative("v2")),
		formula("conformity.simplex_log", "SimRF Thm 4.3 eq 24",
			forms.LogConformitySimplex, dimension("d"), nonnegative("v2")),
		formula("conformity.rff_orthogonal", "SimRF Thm 4.5: 1F1(d; d/2; -z2/2)",
			forms.ConformityRFFOrthogonal, dimension("d"), nonnegative("z2")),
		formula("conformity.rff_simplex", "docs/theory.md §5.2: rho′",
			forms.ConformityRFFSimplex, dimension("d"), nonnegative("z2")),
		formula("conformity.cosh_simplex_log", "docs/theory.md §5.2: rho″",
			forms.LogConformityCoshSimplex, dimension("d"), nonnegative("v2")),
		formula("conformity.angle_log", "SimRF Lemma 4.2 eq 21: log conformity of pairs at a fixed angle, "+
			"positive features",
			forms.LogConformityAngle, dimension("d"), nonnegative("v2"), bounded("cos", "number in [-1, 1]",
				func(v float64) bool { return math.Abs(v) <= 1 })),
		formula("gap.prf_orthogonal_log", "SimRF Cor 4.4 corrected: log(e^{v2} - rho_ORF)",
			forms.LogGapPRFOrthogonal, dimension("d"), nonnegative("v2")),
		formula("gap.prf_simplex_log", "log(e^{v2} - rho_SimRF)",
			forms.LogGapPRFSimplex, dimension("d"), nonnegative("v2")),
		{
			Name: "coupled.kappa", Reference: "docs/theory.md §5.2: relative covariance of two projections of a block; t is " +
				"z² if trigonometric, else v²",
			Inputs: []Input{shapeName(), couplingName(), dimension("d"), nonnegative("t")},
			eval: func(in values) (any, error) {
				sign, logAbs, err := forms.Kappa(in.shape(), in.law(), in.i("d"), in.f("t"))
				return Object{{"sign", sign}, {"log_abs", logAbs}}, err
			},
		},
		{
			Name: "mse.rel_log", Reference: "docs/theory.md §5.2: log(rv/m + pf·kappa), rv the relative variance of one " +
				"projection; t as in coupled.kappa",
			Inputs: []Input{shapeName(), couplingName(), dimension("d"), natural("m"), number("log_rv"),
				nonnegative("t")},
			eval: func(in values) (any, error) {
				return result(forms.LogRelMSE(in.shape(), in.law(), in.i("d"), in.i("m"), in.f("log_rv"), in.f("t")))
			},
		},
		{
			Name: "mse.prf_log", Reference: "SimRF Thm 3.2 for any number of blocks, Gaussian kernel",
			Inputs: []Input{couplingName(), dimension("d"), natural("m"), nonnegative("xx"), nonnegative("yy"),
				nonnegative("v2")},
			eval: func(in values) (any, error) {
				v2 := in.f("v2")
				rel, err := forms.LogRelMSE(forms.Exponential, in.law(), in.i("d"), in.i("m"), forms.LogRVPositive(v2),
					v2)
				z2 := 2*in.f("xx") + 2*in.f("yy") - v2 // parallelogram law
				return rel - z2, err
			},
		},
		{
			Name: "mse.ratio_prf", Reference: "SimRF Fig 6: MSE(coupling)/MSE(iid)",
			Inputs: []Input{couplingName(), dimension("d"), natural("m"), positive("v")},
			eval: func(in values) (any, error) {
				v2 := in.f("v") * in.f("v")
				rv := forms.LogRVPositive(v2)
				rel, err := forms.LogRelMSE(forms.Exponential, in.law(), in.i("d"), in.i("m"), rv, v2)
				return math.Exp(rel - rv + math.Log(float64(in.i("m")))), err
			},
		},
		{
			Name: "mse.rff", Reference: "SimRF Thm 4.5, Gaussian kernel, trigonometric features",
			Inputs: []Input{couplingName(), dimension("d"), natural("m"), nonnegative("z2")},
			eval: func(in values) (any, error) {
				z2 := in.f("z2")
				rel, err := forms.LogRelMSE(forms.Trigonometric, in.law(), in.i("d"), in.i("m"), forms.LogRVTrig(z2),
					z2)
				return math.Exp(rel - z2), err
			},
		},
		{
			Name: "mse.oprf_coupled_logrel", Reference: "docs/theory.md §5.2: log relative MSE of OPRF at its optimal rho",
			Inputs: []Input{couplingName(), dimension("d"), natural("m"), nonnegative("v2")},
			eval: func(in values) (any, error) {
				d, v2 := in.i("d"), in.f("v2")
				rv := forms.LogRVOPRF(d, forms.RhoStar(d, v2), v2)
				return result(forms.LogRelMSE(forms.Exponential, in.law(), d, in.i("m"), rv, v2))
			},
		},
		{
			Name: "simrf.pdf_iid", Reference: "SimRF Lemma 4.1: density of |ω_i + ω_j|, independent rows",
			Inputs: []Input{dimension("d"), positive("w")},
			eval:   func(in values) (any, error) { return math.Exp(forms.LogPairNormIID(in.i("d"), in.f("w"))), nil },
		},
		{
			Name: "simrf.pdf_theta", Reference: "SimRF Lemma 4.2 eq 20: density of |ω_i + ω_j|, fixed angle",
			Inputs: []Input{dimension("d"), positive("w"), bounded("cos", "number in (-1, 1)",
				func(v float64) bool { return v > -1 && v < 1 })},
			eval: func(in values) (any, error) {
				return math.Exp(forms.LogPairNormAngle(in.i("d"), in.f("w"), in.f("cos"))), nil
			},
		},
		formula("simrf.taylor_v2", "SimRF 5.1 corrected: coefficient of v² in m·MSE·e^{2xx+2yy}, simplex",
			forms.SimplexSmallV, dimension("d"), natural("m")),
		formula("simrf.cor46_ratio", "SimRF Cor 4.6: MSE(orthogonal)/MSE(iid) of trigonometric features without "+
			"the O(1/d²)",
			forms.RFFOrthogonalRatio, dimension("d"), natural("m"), positive("z2")),
	}
}
