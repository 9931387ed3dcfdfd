package choose

import "fmt"

// Basis says how a [Prediction] was obtained, from the best to none.
type Basis int

// The methods. All take the mean of a quotient for the quotient of means, which holds while denominators vary little
// (Prediction.Denominator up to about 0.1). Beyond that the means of positive maps are those of heavy tails, which few
// draws show: the prediction exceeds most measurements, and above 1 there is none. The denominators of signed maps come
// near zero, where errors exceed any prediction: there is none once those of some row vary by more than 1/4.
const (
	// Covariances of the weights of every two keys, in closed form: independent projections.
	Covariances Basis = iota
	// ScaledCovariances are those of independent projections times the closed-form ratio of variances, coupled to
	// independent, averaged over the keys: the ratio for two different keys has no closed form.
	ScaledCovariances
	// IndependentRows: nothing is known of the coupling for this family; the value is that of independent projections.
	// Err says what is missing.
	IndependentRows
	// UpperBound: only variances of single weights are known (of independent projections where the coupling has no
	// form); covariances are bounded by Cauchy and Schwarz. Err says what is missing.
	UpperBound
	// NoPrediction: the map has no closed form at all, or denominators vary too much; Err says which.
	NoPrediction
)

// String names the method.
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
