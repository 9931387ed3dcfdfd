package calc

import (
	"math"

	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// hybridEntries are docs/theory.md §5.4.
func hybridEntries() []Entry {
	norms := []Input{natural("m"), nonnegative("xx"), nonnegative("yy"), number("xy")}
	return []Entry{
		{
			Name: "hrf.mse_trig_log", Reference: "HRF Lemma 2.2, softmax", Inputs: norms,
			eval: func(in values) (any, error) {
				return forms.LogMSETrig(in.i("m"), in.f("xx"), in.f("yy"), in.f("xy")), nil
			},
		},
		{
			Name: "hrf.mse_pp_log", Reference: "HRF Lemma 2.2, softmax", Inputs: norms,
			eval: func(in values) (any, error) {
				return forms.LogMSEHyperbolic(in.i("m"), in.f("xx"), in.f("yy"), in.f("xy")), nil
			},
		},
		{
			Name: "hrf.angular_moments", Reference: "HRF Lemma 3.2",
			Inputs: []Input{angle("theta"), natural("n")},
			eval: func(in values) (any, error) {
				return lambdaMoments(forms.AngularMoments(in.f("theta"), in.i("n"))), nil
			},
		},
		{
			Name: "hrf.gaussian_moments", Reference: "HRF Thm F.1 eqs 72-73; z2 = |x-y|²",
			Inputs: []Input{nonnegative("z2"), positive("sig"), positive("r"), natural("n")},
			eval: func(in values) (any, error) {
				return lambdaMoments(forms.GaussianMoments(in.f("z2"), in.f("sig"), in.f("r"), in.i("n"))), nil
			},
		},
		{
			Name: "hrf.angular_mse_log", Reference: "HRF Thm D.1 (eqs 45, 46 corrected), softmax",
			Inputs: []Input{natural("m"), natural("n"), vector("x"), vector("y"), flag("shared")},
			eval: func(in values) (any, error) {
				return softmaxMSE(family.Angular{N: in.i("n"), Shared: in.b("shared")}, in)
			},
		},
		{
			Name: "hrf.gaussian_mse_log", Reference: "HRF Thm F.1 with eq 23 for shared projections, softmax",
			Inputs: []Input{natural("m"), natural("n"), vector("x"), vector("y"), positive("sig"), positive("r"),
				flag("shared")},
			eval: func(in values) (any, error) {
				return softmaxMSE(family.BipolarGaussian{Sigma: in.f("sig"), R: in.f("r"), N: in.i("n"),
					Shared: in.b("shared")},
					in)
			},
		},
		{
			Name: "hrf.bipolar_mse_log", Reference: "HRF Thm 3.1 for any coefficient, given its second moments; softmax",
			Inputs: []Input{
				nonnegative("E_lam2"), nonnegative("E_1mlam2"), number("E_lam1mlam"),
				natural("m"), nonnegative("xx"), nonnegative("yy"), number("xy"), flag("shared"),
			},
			eval: func(in values) (any, error) {
				mom := forms.LambdaMoments{Lam2: in.f("E_lam2"), Rest2: in.f("E_1mlam2"), Cross: in.f("E_lam1mlam")}
				return forms.LogMSEBipolar(mom, in.i("m"), in.f("xx"), in.f("yy"), in.f("xy"), in.b("shared")), nil
			},
		},
		formula("hrf.eps_pp_log", "HRF Lemma 3.4: log relative error of hyperbolic features on the sphere of radius r",
			forms.LogEpsHyperbolic, angle("theta"), nonnegative("r"), natural("m")),
		formula("hrf.eps_trig_log", "HRF Lemma 3.4 eq 25: log relative error on the sphere of radius r",
			forms.LogEpsTrig, angle("theta"), nonnegative("r"), natural("m")),
		formula("hrf.W_log", "HRF Lemma 3.4: log W(r)", forms.LogW, nonnegative("r")),
		formula("hrf.eps_angular_log", "HRF eqs 48-50",
			forms.LogEpsAngular, angle("theta"), nonnegative("r"), natural("m"), natural("n")),
		formula("hrf.thm35_bound_log", "HRF Thm 3.5 corrected bound, r ≥ 1",
			forms.LogEpsAngularBound, bounded("r", "number ≥ 1", func(v float64) bool { return v >= 1 }), natural("m"),
			natural("n")),
		formula("hrf.limit_log", "HRF Thm 3.5: log of the limit W(r)/√(2π m n)",
			forms.LogEpsAngularLimit, nonnegative("r"), natural("m"), natural("n")),
	}
}

// angle allows the rounding of π upwards.
func angle(key string) Input {
	return bounded(key, "angle in [0, π]", func(v float64) bool { return v >= 0 && v <= math.Nextafter(math.Pi, 4) })
}

func lambdaMoments(m forms.LambdaMoments) Object {
	return Object{{"E_lam2", m.Lam2}, {"E_1mlam2", m.Rest2}, {"E_lam1mlam", m.Cross}}
}

// softmaxMSE is the log MSE of m independent projections at the pair x, y.
func softmaxMSE(f family.Family, in values) (any, error) {
	if err := checkLengths(in, "x", "y"); err != nil {
		return nil, err
	}
	m, err := theory.Of(kernel.Kernel{Kind: kernel.Softmax}, f, nil, in.i("m"), in.vec("x"), in.vec("y"))
	return m.LogMSE, err
}
