package advise

import (
	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/kernel"
)

// rare is the factor by which theory may expect more than was measured before the rest must lie in rare draws.
const rare = 1.5

// Facts describe the rows after the embedding of the kernel (bandwidth, matrix).
type Facts struct {
	Query Side `json:"query"`
	Key   Side `json:"key"`
	// Log kernel values over pairs: 5 %, 50 % and 95 % quantiles.
	LogKernel [3]float64 `json:"log_kernel"`
	Sum2      float64    `json:"sum2"`  // mean of |x+y|²: the variance of positive features grows with it
	Diff2     float64    `json:"diff2"` // mean of |x−y|²: the variance of trigonometric features grows with it
}

// Side describes queries or keys.
type Side struct {
	Rows  int     `json:"rows"`
	Norm  float64 `json:"norm"`   // root mean square length
	Far   float64 `json:"far"`    // largest squared length over the median
	Mean  float64 `json:"mean"`   // share of the mean in the squared lengths
	In80  int     `json:"in80"`   // number of directions with 80 % of the variance
	Rank  float64 `json:"rank"`   // effective rank, (Σλ)²/Σλ²
	NoNeg bool    `json:"no_neg"` // no entry is negative
	// Spectrum has the eigenvalues of the covariance, largest first.
	Spectrum []float64 `json:"spectrum"`
}

// Measure names the error that candidates are ranked by.
type Measure string

// The measures.
const (
	// the root mean square of the error over pairs and draws
	measureRMS Measure = "rms"
	// the median over draws of the median error over pairs; of the root mean square over pairs if errors are
	// absolute.
	measureTypical Measure = "typical"
	// the error of attention outputs, |ô−o|/|o|
	measureOutput Measure = "output"
)

// Report is the answer: plain data with a JSON form.
type Report struct {
	Kernel  kernel.Kernel `json:"kernel"`            // kernel that the features estimate
	Dim     int           `json:"dim"`               // columns of the rows
	Queries int           `json:"queries"`           // rows
	Keys    int           `json:"keys,omitempty"`    // rows; 0 for one set
	OneSet  bool          `json:"one_set,omitempty"` // one set of rows, as in kernel machines
	Seed    uint64        `json:"seed"`
	Loss    Loss          `json:"loss"`    // error measure: relative or absolute
	Measure Measure       `json:"measure"` // error that candidates are ranked by
	// MeasureWhy warns if the root mean square of the leader is uncertain, because its tail is heavy.
	MeasureWhy string `json:"measure_why,omitempty"`
	Facts      Facts  `json:"facts"`                // norms and kernel values of the rows
	FactsHead  *int   `json:"facts_head,omitempty"` // attention: index of the head that Facts and Spec describe
	// Features is the output size of the candidates: as requested, or found for a target error. With a time per
	// token sizes differ; then it is that of the best.
	Features int         `json:"features"`
	Ranking  []Candidate `json:"ranking"`           // best first
	Refused  []Candidate `json:"refused,omitempty"` // candidates that could not take part, with reasons
	// Index of the recommended map in Ranking: the cheapest that hardly differs from the first.
	Best int `json:"best"`
	// Verdict says in a sentence what to use: the recommended map, a choice per head, or the exact computation.
	Verdict string         `json:"verdict,omitempty"`
	Useless bool           `json:"useless,omitempty"` // even the best map is: Spec and Code are of no use
	Spec    *randfeat.Spec `json:"spec,omitempty"`    // the recommended map, fitted to all rows
	Code    string         `json:"code,omitempty"`    // the recommended map in Go
	Target  *Target        `json:"target,omitempty"`  // features that the requested error takes
	Reasons []string       `json:"reasons"`           // sentences that explain the recommendation
	Costs   Costs          `json:"costs"`             // measured on this machine, or model
	// Crossover is the length from which attention with the recommended map is faster than exact attention.
	Crossover *Crossover `json:"crossover,omitempty"`
	Curves    []Curve    `json:"curves,omitempty"`    // error against features
	ByKernel  []Curve    `json:"by_kernel,omitempty"` // error by log kernel value of the pairs
	ByAngle   []Curve    `json:"by_angle,omitempty"`  // error by angle of the pairs
	// Attention is set for queries, keys and values.
	Attention *AttentionAdvice `json:"attention,omitempty"`
}

// Candidate is a family with a coupling, and its measurements.
type Candidate struct {
	Name     string `json:"name"` // family, coupling
	Family   string `json:"family"`
	Coupling string `json:"coupling"`
	Features int    `json:"features,omitempty"`
	M        int    `json:"m,omitempty"`
	// Error is the error that the report ranks by. Low and High are the 90 % interval of the root mean square error
	// over pairs of fresh rows of the same source and fresh draws. They are absent if Heavy is set, if candidates are
	// ranked by another error, and if the interval would reach beyond twice the error.
	Error float64 `json:"error,omitempty"`
	Low   float64 `json:"low,omitempty"`
	High  float64 `json:"high,omitempty"`
	// RMS and Typical are the two measures, as measured. Error is larger than RMS if theory expects at least
	// 1.5 times more: then rare draws, which the pilot has not seen, make up the rest.
	RMS     float64 `json:"rms,omitempty"`
	Typical float64 `json:"typical,omitempty"`
	// Median and P95 bound half and 95 % of the errors of the pilot, over pairs and draws.
	Median float64 `json:"median,omitempty"`
	P95    float64 `json:"p95,omitempty"`
	Draws  int     `json:"draws,omitempty"`
	// Predicted is the root mean square that theory expects on pairs of the same rows. It is absent if there is
	// no closed form, or if the candidate is too far from the best to evaluate it.
	Predicted *float64 `json:"predicted,omitempty"`
	// Tail is the tail index of the squared errors: at 2 and below their variance does not exist, at 1 and
	// below their mean.
	Tail *float64 `json:"tail,omitempty"`
	// Heavy says that rare pairs or draws make up much of the mean squared error: RMS is uncertain and has no interval.
	Heavy    bool `json:"heavy,omitempty"`
	Positive bool `json:"positive,omitempty"`
	// Biased marks Nyström features. They are fitted to rows; their error is measured on rows that no landmark
	// was drawn from.
	Biased bool    `json:"biased,omitempty"`
	Cost   float64 `json:"cost,omitempty"` // nanoseconds per row, on one core
	// EqualTime is the error with as many features as take the time of the recommended map. The best coupling
	// of every family has one.
	EqualTime *EqualTime `json:"equal_time,omitempty"`
	Refused   string     `json:"refused,omitempty"` // why it did not take part
}

// EqualTime compares a candidate with the recommended one at equal time instead of an equal number of features.
type EqualTime struct {
	Features int     `json:"features"`
	Error    float64 `json:"error"`
	Low      float64 `json:"low,omitempty"`  // as for Candidate
	High     float64 `json:"high,omitempty"` // as for Candidate
}

// Target says how many features a target error takes.
type Target struct {
	Error    float64 `json:"error"` // requested error
	Reached  bool    `json:"reached"`
	Features int     `json:"features"` // number that reaches the error; if Expected, an extrapolation
	// Expected says that Features was extrapolated by the law of large numbers.
	Expected bool `json:"expected,omitempty"`
}

// Crossover compares attention with the recommended map and exact attention.
type Crossover struct {
	Length int     `json:"length"` // length from which features are faster
	Linear float64 `json:"linear"` // nanoseconds per token
	Exact  float64 `json:"exact"`  // nanoseconds per token and key
}

// Curve is a line of points for a candidate.
type Curve struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`
}

// Point is an error at X: a number of features, the logarithm of a kernel value, or an angle in degrees.
type Point struct {
	X         float64  `json:"x"`
	Error     float64  `json:"error"`
	Low       float64  `json:"low,omitempty"`
	High      float64  `json:"high,omitempty"`
	Predicted *float64 `json:"predicted,omitempty"`
}

// AttentionAdvice is the advice on the heads of a model.
type AttentionAdvice struct {
	Length int     `json:"length"`
	Tol    float64 `json:"tol"` // error that the choice keeps
	// Choice has the method of every head; it can be saved and run (attention/choose).
	Choice *choose.Choice `json:"choice"`
	Heads  []HeadAdvice   `json:"heads"`
	// Rows are attention methods with their cost: the ends of the scale, the recommended features, and the
	// choice.
	Rows []MethodRow `json:"methods"`
	// ExactBelow is the length below which exact attention is the cheapest method that keeps Tol; 0 means
	// never.
	ExactBelow int `json:"exact_below,omitempty"`
}

// HeadAdvice is the advice on one head.
type HeadAdvice struct {
	Head   int     `json:"head"`
	Method string  `json:"method"`
	Cost   float64 `json:"cost"` // in features
	Error  float64 `json:"error"`
	// Features is the error of the recommended feature map on this head.
	Features float64 `json:"features"`
	Why      string  `json:"why"`
}

// MethodRow is a method over all heads.
type MethodRow struct {
	Method string  `json:"method"`
	Cost   float64 `json:"cost"` // in features per token and head
	Median float64 `json:"median"`
	Most   float64 `json:"most"` // 90 % of the heads have a smaller error
}
