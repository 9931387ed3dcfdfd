package calc

import (
	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// featureEntries are the feature maps of docs/theory.md §2 with given projections.
func featureEntries() []Entry {
	kernelName := choice("kernel", "gaussian", "softmax")
	plain := []Input{kernelName, matrix("omega"), vector("x"), vector("y")}
	// simple is a map with one set of projections for a kernel of choice.
	simple := func(name, reference string, build func(in values) (family.Family, error), more ...Input) Entry {
		return Entry{
			Name: name, Reference: reference, Inputs: append(plain[:len(plain):len(plain)], more...),
			eval: func(in values) (any, error) {
				f, err := build(in)
				if err != nil {
					return nil, err
				}
				kind, err := kernel.ParseKind(in.s("kernel"))
				if err != nil {
					return nil, err
				}
				return evalFeatures(kind, f, in, in.mat("omega"))
			},
		}
	}
	fixed := func(f family.Family) func(values) (family.Family, error) {
		return func(values) (family.Family, error) { return f, nil }
	}
	entries := []Entry{
		simple("features.trig", "CRT 2.2, HRF eq 2, ORF eq 3; layout [sin…, cos…]", fixed(family.Trig{})),
		simple("features.positive", "CRT 2.2", fixed(family.Positive{})),
		simple("features.hyperbolic", "HRF eq 3; layout [+, -]", fixed(family.Hyperbolic{})),
		simple("features.gerf", "CRT Thm 3.1; layout [Re…, Im…] and [Re…, -Im…], without Im if A is real and s = +1",
			func(in values) (family.Family, error) {
				return family.GERF{A: family.Complex(complex(in.f("A_re"), in.f("A_im"))), S: in.i("s")}, nil
			}, number("A_re"), number("A_im"), sign("s")),
		simple("features.oprf", "CRT Thm 3.3, A given",
			func(in values) (family.Family, error) { return family.OPRF{A: in.f("A")}, nil }, number("A")),
		simple("features.poisson", "CRT 3.2, signed inputs; param = lambda",
			func(in values) (family.Family, error) { return family.Poisson{Lambda: in.f("param")}, nil },
			positive("param")),
		simple("features.geometric", "CRT 3.2, signed inputs; param = p",
			func(in values) (family.Family, error) { return family.Geometric{P: in.f("param")}, nil },
			probability("param")),
		simple("features.poisson_plus", "CRT 3.2.3 with given shift c; param = lambda",
			func(in values) (family.Family, error) {
				return family.PoissonPlus{Lambda: in.f("param"), Shift: in.vec("c")}, checkLengths(in, "x", "c")
			}, positive("param"), vector("c")),
		simple("features.geometric_plus", "CRT 3.2.3 with given shift c; param = p",
			func(in values) (family.Family, error) {
				return family.GeometricPlus{P: in.f("param"), Shift: in.vec("c")}, checkLengths(in, "x", "c")
			}, probability("param"), vector("c")),
	}
	return append(entries, softmaxFeatureEntries()...)
}

// softmaxFeatureEntries are the maps whose cases are for the softmax kernel.
func softmaxFeatureEntries() []Entry {
	x, y := vector("x"), vector("y")
	return []Entry{
		{
			Name: "features.complex_exponential", Reference: "HRF eqs 14-16, A = diag(a), softmax",
			Inputs: []Input{matrix("omega"), x, y, complexes("a")},
			eval: func(in values) (any, error) {
				if err := checkLengths(in, "x", "a"); err != nil {
					return nil, err
				}
				return evalSoftmax(family.ComplexExp{Diag: diagonal(in.cvec("a"))}, in, in.mat("omega"))
			},
		},
		{
			Name: "features.angular_hybrid", Reference: "HRF eqs 12, 19; layout of docs/theory.md §2.9",
			Inputs: []Input{matrix("omega_pp"), matrix("omega_trig"), matrix("tau"), x, y},
			eval: func(in values) (any, error) {
				return evalSoftmax(family.Angular{N: in.mat("tau").Rows}, in, in.mat("omega_pp"), in.mat("omega_trig"),
					in.mat("tau"))
			},
		},
		{
			Name: "features.gaussian_hybrid_normalised", Reference: "HRF eqs 67-70, docs/theory.md §2.12",
			Inputs: []Input{matrix("omega_pp"), matrix("omega_trig"), matrix("tau"), x, y, positive("sig"),
				positive("r")},
			eval: func(in values) (any, error) {
				f := family.BipolarGaussian{Sigma: in.f("sig"), R: in.f("r"), N: in.mat("tau").Rows}
				return evalSoftmax(f, in, in.mat("omega_pp"), in.mat("omega_trig"), in.mat("tau"))
			},
		},
		{
			Name: "features.gaussian_lambda_hybrid",
			Reference: "HRF eq 20: bases hyperbolic(omega1), positive(omega2), trig(omega2), " +
				"lambda_k = exp(-|x + M_k y|²/(2c_k²)) by features of tau_k",
			Inputs: []Input{
				matrix("omega1"), matrix("omega2"), matrices("tau"), matrices("M_"), vector("c"),
				choice("lambda_features", "positive", "trig"), x, y,
			},
			eval: evalGaussianLambda,
		},
		{
			Name: "features.clustered_zero_one", Reference: "HRF Def H.2 with real A (eq 88), blocks (i,j) row-major, one " +
				"omega for all",
			Inputs: []Input{matrix("omega"), x, y, matrix("query_centres"), matrix("key_centres"), positive("amax")},
			eval: func(in values) (any, error) {
				f := family.ZeroOne{Clusters: family.Clusters{QueryCentres: in.mat("query_centres"),
					KeyCentres: in.mat("key_centres"), AMax: in.f("amax")}}
				return evalSoftmax(f, in, in.mat("omega"))
			},
		},
		{
			Name: "features.clustered_gaussian_mixture",
			Reference: "HRF Def H.1, one pair of centres, complex A (eq 85, no clamp), Hermitian lambda by positive features " +
				"of tau, " +
				"default base trig(omega2)",
			Inputs: []Input{matrix("omega1"), matrix("omega2"), matrix("tau"), x, y, vector("query_centre"),
				vector("key_centre"), positive("tau_bandwidth")},
			eval: evalMixture,
		},
		{
			Name: "features.dark", Reference: "DARK eq 3: omega in R^r, Σ = MᵀM",
			Inputs: []Input{matrix("omega"), matrix("M_"), x, y},
			eval: func(in values) (any, error) {
				return evalSoftmax(family.DARK{M: in.mat("M_")}, in,
					in.mat("omega"))
			},
		},
		{
			Name: "features.importance_prf", Reference: "DARK eq 2: omega = L g, proposal N(0, LLᵀ), softmax",
			Inputs: []Input{matrix("g"), matrix("L"), x, y},
			eval: func(in values) (any, error) {
				return evalSoftmax(family.Importance{L: in.mat("L")}, in,
					in.mat("g"))
			},
		},
		{
			Name: "features.relu", Reference: "m^{-1/2} max(0, ω·x) + eps0",
			Inputs: []Input{matrix("omega"), x, y, nonnegative("eps0")},
			eval: func(in values) (any, error) {
				return evalSoftmax(family.ReLU{Eps: in.f("eps0"), Pure: in.f("eps0") == 0}, in, in.mat("omega"))
			},
		},
		{
			Name: "features.elu1", Reference: "elu(x) + 1",
			Inputs: []Input{x, y},
			eval:   func(in values) (any, error) { return evalSoftmax(family.ELU{}, in) },
		},
		{
			Name: "features.adaptive", Reference: "docs/theory.md §2.18, softmax; A_ re-embedding, c key shift, U directions " +
				"(columns), rho per direction",
			Inputs: []Input{matrix("A_"), vector("c"), matrix("U"), vector("rho"), x, y, matrix("omega")},
			eval: func(in values) (any, error) {
				f, err := adaptive(in)
				if err != nil {
					return nil, err
				}
				return evalSoftmax(f, in, in.mat("omega"))
			},
		},
		{
			Name: "features.residual", Reference: "docs/theory.md §2.19, softmax, isotropic proposal; layout [1, x, g…]",
			Inputs: []Input{matrix("omega"), x, y},
			eval:   func(in values) (any, error) { return evalSoftmax(family.Residual{}, in, in.mat("omega")) },
		},
	}
}

func evalGaussianLambda(in values) (any, error) {
	tau, m := in.mats("tau"), in.mats("M_")
	if len(m) != 2 || len(tau) != 2 || len(in.vec("c")) != 2 {
		return nil, outOfRange("M_", len(m), "two matrices, and two of tau and c: one per coefficient")
	}
	if tau[0].Rows != tau[1].Rows {
		return nil, outOfRange("tau", tau[1].Rows, "as many rows in both matrices")
	}
	f := family.GaussianLambda{
		Bases:     []family.Family{family.Hyperbolic{}, family.Positive{}, family.Trig{}},
		BaseGroup: []int{0, 1, 1},
		M:         m,
		C:         in.vec("c"),
		N:         tau[0].Rows,
		TrigRho:   in.s("lambda_features") == "trig",
	}
	return evalSoftmax(f, in, in.mat("omega1"), in.mat("omega2"), tau[0], tau[1])
}

func evalMixture(in values) (any, error) {
	if err := checkLengths(in, "x", "query_centre", "key_centre"); err != nil {
		return nil, err
	}
	f := family.Mixture{
		Clusters: family.Clusters{
			QueryCentres: dense.MustFromRows([][]float64{in.vec("query_centre")}),
			KeyCentres:   dense.MustFromRows([][]float64{in.vec("key_centre")}),
			Complex:      true,
			AMax:         -1,
		},
		Bandwidth: in.f("tau_bandwidth"),
		N:         in.mat("tau").Rows,
	}
	return evalSoftmax(f, in, in.mat("omega1"), in.mat("omega2"), in.mat("tau"))
}

func evalSoftmax(f family.Family, in values, omega ...dense.Matrix[float64]) (any, error) {
	return evalFeatures(kernel.Softmax, f, in, omega...)
}

// evalFeatures maps x as a query and y as a key, with given projections.
func evalFeatures(kind kernel.Kind, f family.Family, in values, omega ...dense.Matrix[float64]) (any, error) {
	if err := checkLengths(in, "x", "y"); err != nil {
		return nil, err
	}
	spec := randfeat.Spec{Kernel: kernel.Kernel{Kind: kind}, Family: f, Dim: len(in.vec("x"))}
	sets := make([]coupling.Omega, len(omega))
	for i, o := range omega {
		sets[i].Rows = o
	}
	m, err := randfeat.NewWithOmega[float64](spec, sets)
	if err != nil {
		return nil, err
	}
	phi1, phi2 := dense.New[float64](1, m.OutDim()), dense.New[float64](1, m.OutDim())
	if err := m.Queries(phi1, nil, dense.MustFromRows([][]float64{in.vec("x")}), nil); err != nil {
		return nil, err
	}
	if err := m.Keys(phi2, nil, dense.MustFromRows([][]float64{in.vec("y")}), nil); err != nil {
		return nil, err
	}
	return Object{
		{"phi1_x", phi1.Data},
		{"phi2_y", phi2.Data},
		{"dot", dense.Dot(phi1.Data, phi2.Data)},
		{"num_features", m.OutDim()},
	}, nil
}
