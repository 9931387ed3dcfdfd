package choose

import "fmt"

// Basis says how a prediction was obtained, from the most to the least precise.
type Basis int

// The bases. All of them replace the mean of a quotient by the quotient of means. This holds while denominators vary
// little (Prediction.Denominator up to about 0.1). Beyond that, positive maps have heavy tails that few draws show: the
// prediction exceeds most measurements, and above a Denominator of 1 there is no prediction. Denominators of signed
// maps can come near zero, where errors exceed any prediction: there is none if the denominator of some row varies by
// more than 1/4.
const (
	// covariances: the covariance of the weights of every pair of keys is known in closed form (independent
	// projections).
	covariances Basis = iota
	// scaledCovariances: the covariances of independent projections, multiplied by the closed-form ratio of the
	// variances (coupled to independent) averaged over keys. The ratio for a pair of different keys has no closed form.
	scaledCovariances
	// independentRows: the coupling has no closed form for this family. The value is for independent projections. Err
	// says what is missing.
	independentRows
	// upperBound: only variances of single weights are known (for independent projections if the coupling has no closed
	// form). The Cauchy–Schwarz inequality bounds the covariances. Err says what is missing.
	upperBound
	// noPrediction: the map has no closed form at all, or its denominators vary too much. Err says which.
	noPrediction
)

// Note says in a few words what the basis leaves out, with a mark for numbers: ~ where it is an approximation, ≤ where
// it is a bound.
func (m Basis) Note() (mark, note string) {
	switch m {
	case covariances:
		return "", "closed form, to first order"
	case scaledCovariances:
		return "~", "that of independent projections, scaled by the gain of the coupling"
	case independentRows:
		return "~", "that of independent projections"
	case upperBound:
		return "≤", "an upper bound"
	}
	return "", ""
}

// String returns the name of the basis.
func (m Basis) String() string {
	switch m {
	case covariances:
		return "covariances"
	case scaledCovariances:
		return "scaled covariances"
	case independentRows:
		return "independent rows"
	case upperBound:
		return "upper bound"
	case noPrediction:
		return "no prediction"
	}
	return fmt.Sprintf("Basis(%d)", int(m))
}
