package choose

import "fmt"

// Basis says how a [Prediction] was obtained, from the most to the least precise.
type Basis int

// The bases. All of them replace the mean of a quotient by the quotient of means. This holds while denominators vary
// little (Prediction.Denominator up to about 0.1). Beyond that, positive maps have heavy tails that few draws show: the
// prediction exceeds most measurements, and above a Denominator of 1 there is no prediction. Denominators of signed
// maps can come near zero, where errors exceed any prediction: there is none if the denominator of some row varies by
// more than 1/4.
const (
	// Covariances: the covariance of the weights of every pair of keys is known in closed form (independent
	// projections).
	Covariances Basis = iota
	// ScaledCovariances: the covariances of independent projections, multiplied by the closed-form ratio of the
	// variances (coupled to independent) averaged over keys. The ratio for a pair of different keys has no closed form.
	ScaledCovariances
	// IndependentRows: the coupling has no closed form for this family. The value is for independent projections. Err
	// says what is missing.
	IndependentRows
	// UpperBound: only variances of single weights are known (for independent projections if the coupling has no closed
	// form). The Cauchy–Schwarz inequality bounds the covariances. Err says what is missing.
	UpperBound
	// NoPrediction: the map has no closed form at all, or its denominators vary too much. Err says which.
	NoPrediction
)

// String returns the name of the basis.
func (m Basis) String() string {
	switch m {
	case Covariances:
		return "covariances"
	case ScaledCovariances:
		return "scaled covariances"
	case IndependentRows:
		return "independent rows"
	case UpperBound:
		return "upper bound"
	case NoPrediction:
		return "no prediction"
	}
	return fmt.Sprintf("Basis(%d)", int(m))
}
