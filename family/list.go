package family

// Info describes a family for lists and help texts.
type Info struct {
	Name      string `json:"name"`
	Summary   string `json:"summary"`
	Reference string `json:"reference"`
	// Positive says when all features are nonnegative: "yes", "no", or a condition.
	Positive string `json:"positive"`
	Size     string `json:"size"` // number of output features F
	Cost     string `json:"cost"` // per row
	Fits     bool   `json:"fits"` // parameters can be fitted to data
	Unbiased bool   `json:"unbiased"`
	decode   func([]byte) (Family, error)
}

// List describes every family, in the order of docs/theory.md §2.
func List() []Info {
	const dense = "O(md)"
	info := func(name, summary, reference, positive, size, cost string, unbiased bool, decode func([]byte) (Family, error)) Info {
		f, err := decode([]byte("{}"))
		if err != nil {
			panic("family: zero value of " + name + ": " + err.Error())
		}
		_, fits := f.(Fitter)
		return Info{name, summary, reference, positive, size, cost, fits, unbiased, decode}
	}
	return []Info{
		info("trig", "random Fourier features: sin and cos", "CRT 2.2, HRF eq 2, ORF eq 3", "no", "2m", dense, true, decodeAs[Trig]),
		info("positive", "positive random features (FAVOR+)", "CRT 2.2, SimRF eq 7, DARK eq 1", "yes", "m", dense, true, decodeAs[Positive]),
		info("hyperbolic", "hyperbolic positive features, exp(±ω·x)", "HRF eq 3", "yes", "2m", dense, true, decodeAs[Hyperbolic]),
		info("gerf", "generalised exponential features, complex A", "CRT Thm 3.1", "if A is real and s = +1", "2m (m if positive)", dense, true, decodeAs[GERF]),
		info("oprf", "optimal positive features (FAVOR++)", "CRT Thm 3.3", "yes", "m", dense, true, decodeAs[OPRF]),
		info("poisson", "monomials with Poisson exponents", "CRT 3.2.1", "no", "m", dense, true, decodeAs[Poisson]),
		info("geometric", "monomials with geometric exponents", "CRT 3.2.2", "no", "m", dense, true, decodeAs[Geometric]),
		info("poisson+", "Poisson on inputs shifted to be positive", "CRT 3.2.3", "yes", "m", dense, true, decodeAs[PoissonPlus]),
		info("geometric+", "geometric on inputs shifted to be positive", "CRT 3.2.3", "yes", "m", dense, true, decodeAs[GeometricPlus]),
		info("complex-exp", "complex exponential features, any invertible A", "HRF Lemma 2.4", "if A is real", "2m (m if A is real)", "O(md + d²)", true, decodeAs[ComplexExp]),
		info("hybrid", "general hybrid of bases and coefficients", "HRF eqs 8-11", "no", "Σ N_k(1+L_k) + N(1+ΣL_k)", "O((n+m)d + F)", true, decodeAs[Hybrid]),
		info("angular", "angular hybrid of hyperbolic and trig", "HRF eqs 12, 19", "no", "4m(n+1)", "O((n+m)d + F)", true, decodeAs[Angular]),
		info("gaussian-lambda", "hybrid with Gaussian coefficients", "HRF eq 20", "no", "as hybrid", "O((n+m)d + F)", true, decodeAs[GaussianLambda]),
		info("bipolar-gaussian", "normalised bipolar Gaussian hybrid", "HRF eqs 67-70", "no", "4m(2n+1)", "O((n+m)d + F)", true, decodeAs[BipolarGaussian]),
		info("zero-one", "clustered hybrid, nearest centres", "HRF Def H.2", "if A is real", "q·k·m (2q·k·m if complex)", "O(kmd + F)", true, decodeAs[ZeroOne]),
		info("mixture", "clustered hybrid, Gaussian mixture", "HRF Def H.1", "no", "as hybrid", "O((n+m)qkd + F)", true, decodeAs[Mixture]),
		info("dark", "data-aware features of exp(xᵀΣy), Σ = MᵀM", "DARK 4.1, eq 3", "as its base", "as its base", "O(md + d²)", true, decodeAs[DARK]),
		info("importance", "positive features under a Gaussian proposal", "DARK eq 2, Thm 3.2", "yes", "m", dense, true, decodeAs[Importance]),
		info("lfk", "learned feature kernel (baseline)", "DARK 6", "yes", "rows of W", dense, false, decodeAs[LFK]),
		info("relu", "ReLU features (baseline)", "Performer-ReLU", "yes", "m", dense, false, decodeAs[ReLU]),
		info("elu", "elu(x)+1 (baseline)", "linear transformer", "yes", "d", "O(d)", false, decodeAs[ELU]),
		info("adaptive", "re-embedding, key centring and OPRF per direction, fitted to the data", "docs/theory.md §2.18", "yes", "m", "O(md + d²)", true, decodeAs[Adaptive]),
		info("residual", "exact to first order, random remainder", "docs/theory.md §2.19", "no", "1+d+m", dense, true, decodeAs[Residual]),
	}
}
