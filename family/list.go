package family

import "strings"

// Info describes a family: one entry of the registry.
type Info struct {
	Name      string `json:"name"`
	Summary   string `json:"summary"`
	Reference string `json:"reference"`
	// Positive says when all features are nonnegative: "yes", "no", or a condition.
	Positive string `json:"positive"`
	Size     string `json:"size"`     // number of output features F
	Cost     string `json:"cost"`     // per row
	Fits     bool   `json:"fits"`     // parameters can be fitted to data
	Unbiased bool   `json:"unbiased"` // the estimate has the kernel as its mean
	// Replaces says that the family estimates a kernel of its own instead of the one that is asked for.
	Replaces bool `json:"replaces,omitempty"`
	// KernelColumns says that features are columns of the kernel: kernels of a row with landmarks, which are rows of
	// the data and take the place of drawn projections. Their products do not estimate the kernel; a machine whitens
	// them first (Nyström).
	KernelColumns bool `json:"-"`

	decode   func([]byte) (Family, error)
	examples func(dim int) []Example
}

// register completes the entry of type F: name, decoder, examples and whether it can be fitted.
func register[F Family](i Info, examples func(dim int) []Example) Info {
	var zero F
	i.Name, i.decode, i.examples = zero.Name(), decodeAs[F], examples
	_, i.Fits = Family(zero).(Fitter)
	return i
}

// InfoOf returns the entry of a family, or the zero Info if it has none.
func InfoOf(f Family) Info {
	for _, i := range List() {
		if f != nil && i.Name == f.Name() {
			return i
		}
	}
	return Info{}
}

// List describes every family, in the order of docs/theory.md §2. A family exists by its entry here: the command line,
// the docs and the common tests read this list.
func List() []Info {
	const (
		dense     = "O(md)"
		reembeds  = "O(md + d²)"
		hybrid    = "O((n+m)d + F)"
		ifReal    = "if A is real"
		yes       = "yes"
		no        = "no"
		baseline  = false
		estimates = true
	)
	info := func(summary, reference, positive, size, cost string, unbiased bool) Info {
		return Info{Summary: summary, Reference: reference, Positive: positive, Size: size, Cost: cost,
			Unbiased: unbiased}
	}
	kernelColumns := func(i Info) Info {
		i.KernelColumns = true
		return i
	}
	replaces := func(i Info) Info {
		i.Replaces = true
		return i
	}
	return []Info{
		register[Trig](info("random Fourier features: sin and cos",
			"CRT 2.2, HRF eq 2, ORF eq 3", no, "2m", dense, estimates), only(Trig{})),
		register[Positive](info("positive random features (FAVOR+)",
			"CRT 2.2, SimRF eq 7, DARK eq 1", yes, "m", dense, estimates), only(Positive{})),
		register[Hyperbolic](info("hyperbolic positive features, exp(±ω·x)",
			"HRF eq 3", yes, "2m", dense, estimates), only(Hyperbolic{})),
		register[GERF](info("generalised exponential features, complex A",
			"CRT Thm 3.1", "if A is real and s = +1", "2m (m if positive)", dense, estimates), gerfExamples),
		register[OPRF](info("optimal positive features (FAVOR++)",
			"CRT Thm 3.3", yes, "m", dense, estimates), fitted(OPRF{})),
		register[Poisson](info("monomials with Poisson exponents",
			"CRT 3.2.1", no, "m", dense, estimates), poissonExamples),
		register[Geometric](info("monomials with geometric exponents",
			"CRT 3.2.2", no, "m", dense, estimates), geometricExamples),
		register[PoissonPlus](info("Poisson on inputs shifted to be positive",
			"CRT 3.2.3", yes, "m", dense, estimates), fitted(PoissonPlus{})),
		register[GeometricPlus](info("geometric on inputs shifted to be positive",
			"CRT 3.2.3", yes, "m", dense, estimates), fitted(GeometricPlus{})),
		register[ComplexExp](info("complex exponential features, any invertible A",
			"HRF Lemma 2.4", ifReal, "2m (m if A is real)", reembeds, estimates), complexExpExamples),
		register[Hybrid](info("general hybrid of bases and coefficients",
			"HRF eqs 8-11", no, "Σ N_k(1+L_k) + N(1+ΣL_k)", hybrid, estimates), hybridExamples),
		register[Angular](info("angular hybrid of hyperbolic and trig",
			"HRF eqs 12, 19", no, "4m(n+1)", hybrid, estimates), angularExamples),
		register[GaussianLambda](info("hybrid with Gaussian coefficients",
			"HRF eq 20", no, "as hybrid", hybrid, estimates), gaussianLambdaExamples),
		register[BipolarGaussian](info("normalised bipolar Gaussian hybrid",
			"HRF eqs 67-70", no, "4m(2n+1)", hybrid, estimates), bipolarExamples),
		register[ZeroOne](info("clustered hybrid, nearest centres",
			"HRF Def H.2", ifReal+", without pairs", "q·k·m, or (1+2h)m with h pairs (twice if complex)",
			"O(kmd + F)", estimates), zeroOneExamples),
		register[Mixture](info("clustered hybrid, Gaussian mixture",
			"HRF Def H.1", no, "as hybrid", "O((n+m)qkd + F)", estimates), mixtureExamples),
		register[DARK](replaces(info("data-aware features of exp(xᵀΣy), Σ = MᵀM",
			"DARK 4.1, eq 3", "as its base", "as its base", reembeds, estimates)), darkExamples),
		register[Importance](info("positive features under a Gaussian proposal",
			"DARK eq 2, Thm 3.2", yes, "m", dense, estimates), importanceExamples),
		register[LFK](info("learned feature kernel (baseline)",
			"DARK 6", yes, "rows of W", dense, baseline), lfkExamples),
		register[ReLU](info("ReLU features (baseline)",
			"Performer-ReLU", yes, "m", dense, baseline), reluExamples),
		register[ELU](info("elu(x)+1 (baseline)",
			"linear transformer", yes, "d", "O(d)", baseline), only(ELU{})),
		register[Landmarks](kernelColumns(info("columns of the kernel at landmarks (for exact and Nyström machines)",
			"Williams & Seeger 2001", yes, "m per kernel", dense, baseline)), landmarkExamples),
		register[Nystrom](info("kernels at landmarks of the data, whitened: fitted to data, no unbiasedness",
			"Williams & Seeger 2001", no, "landmarks n", "O(nd + n²)", baseline), nystromExamples),
		register[Adaptive](info("re-embedding, key centring and OPRF per direction, fitted to the data",
			"docs/theory.md §2.18", yes, "m", reembeds, estimates), adaptiveExamples),
		register[Residual](info("exact to first order, random remainder",
			"docs/theory.md §2.19", no, "1+d+m", dense, estimates), residualExamples),
	}
}

// Names lists the names of all families.
func Names() []string {
	var out []string
	for _, i := range List() {
		out = append(out, i.Name)
	}
	return out
}

// names lists all families, for messages.
func names() string { return strings.Join(Names(), ", ") }
