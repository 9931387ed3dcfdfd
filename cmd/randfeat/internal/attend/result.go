package attend

import (
	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention/choose"
)

// AttendResult is the object of attend --json.
type AttendResult struct {
	Out       string  `json:"out,omitempty"`
	Shape     []int   `json:"shape"` // shape of the output
	DType     string  `json:"dtype"`
	Method    string  `json:"method"` // auto, spec, exact, features or centroid
	Causal    bool    `json:"causal,omitempty"`
	Window    int     `json:"window,omitempty"` // neighbouring keys with exact weights
	Sinks     int     `json:"sinks,omitempty"`  // first keys with exact weights
	Heads     int     `json:"heads"`
	KVHeads   int     `json:"kv_heads"`           // heads of keys and values
	Features  int     `json:"features,omitempty"` // features of one head
	Cost      float64 `json:"cost"`               // mean work per token and head, in units of one random feature
	ExactCost float64 `json:"exact_cost"`         // cost of exact attention, L/2, in the same units
	Seconds   float64 `json:"seconds"`            // time of the attention itself
	// ChoiceSeconds is the time for choosing methods, or for fitting what is saved.
	ChoiceSeconds float64 `json:"choice_seconds,omitempty"`
	// Choice is the method of each key/value head.
	Choice []AttendChoice `json:"choice,omitempty"`
	Rows   int64          `json:"rows"`
	Empty  int64          `json:"empty,omitempty"` // rows that saw no key; they are zeros
	// Negative denominators (signed features only), used unchanged.
	Negative int64 `json:"negative,omitempty"`
	// Denominators that were zero or nearly so; their rows are zeros.
	Zero int64 `json:"zero,omitempty"`
	// Compare holds the errors against exact attention, with --compare.
	Compare *AttendCompare `json:"compare,omitempty"`
	Warning string         `json:"warning,omitempty"` // why the combination or the fit is a bad choice
	Seed    *uint64        `json:"seed,omitempty"`
	// Specs are the maps of --method features: one for all heads, or one per key/value head.
	Specs []randfeat.Spec `json:"specs,omitempty"`
}

// AttendChoice is the method of one key/value head.
type AttendChoice struct {
	Method string  `json:"method"`
	Plan   string  `json:"plan"`             // the method with its parameters
	Reason string  `json:"reason,omitempty"` // why a head stays exact
	Cost   float64 `json:"cost"`
	// Seconds is the predicted time per token on this machine; absent unless methods were ranked by time.
	Seconds float64 `json:"seconds,omitempty"`
	// Expected is the expected relative error of the output; Low and High enclose it in nine of ten cases. It
	// is measured on a sample of Rows query rows and absent if nothing was measured.
	Expected *float64 `json:"expected,omitempty"`
	Low      *float64 `json:"low,omitempty"`
	High     *float64 `json:"high,omitempty"`
	Rows     int      `json:"rows,omitempty"`
}

// AttendCompare is the error against exact attention, in the object of attend --compare --json.
type AttendCompare struct {
	AttendErrors                // all heads together
	Heads        []AttendErrors `json:"heads"` // each query head
	// AttentionSeconds and ExactSeconds are the times of both methods for the whole input. ExactEstimated says
	// that exact attention would have taken long, so its time was extrapolated from a part.
	AttentionSeconds float64 `json:"attention_seconds"`
	ExactSeconds     float64 `json:"exact_seconds"`
	ExactEstimated   bool    `json:"exact_estimated,omitempty"`
}

// AttendErrors are the errors of one head on a sample of its query rows.
type AttendErrors struct {
	Rows int `json:"rows"` // rows compared; rows that see no key are left out
	// Predicted is the error of the output by theory, to first order. If it is absent, Reason says why. Method
	// says how it was computed: covariances, scaled covariances, independent rows, upper bound.
	Predicted *float64 `json:"predicted,omitempty"`
	Method    string   `json:"method,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	// Denominator is the predicted relative error of the denominators. If it is not small, the prediction for
	// positive features is too large; above 1 there is none. With signed features there is no prediction once
	// the error of one row exceeds ¼.
	Denominator *float64 `json:"denominator,omitempty"`
	Output      float64  `json:"output"` // |ô-o|/|o| over all rows
	// Low and High are the 90 % interval of the error over all rows, from the sample; absent with features.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
	// Row is the root mean square of |â-a|/|a| over attention rows. Variation is the mean share of the
	// attention that lies on wrong keys. Both with features only.
	Row       float64      `json:"row,omitempty"`
	Variation float64      `json:"variation,omitempty"`
	basis     choose.Basis // of Predicted, if there is a Method
}
