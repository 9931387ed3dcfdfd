package model

import (
	"encoding/json"
	"math"
)

// Number is a float64 that JSON can hold: null for one that is not finite or not known.
type Number float64

// Row is one estimator at the pair of the state. The logarithms are to base 10 and relative to the kernel, so that no
// choice overflows.
type Row struct {
	Family   string `json:"family"`
	Coupling string `json:"coupling"`
	Features int    `json:"features"` // output features
	M        int    `json:"m"`        // projections
	Known    bool   `json:"known"`    // there are closed forms; Reason says why not
	LogMSE   Number `json:"logMSE"`   // mean squared error; null where it is zero or not known
	LogVar   Number `json:"logVar"`   // variance
	LogBias  Number `json:"logBias"`  // bias; null: none
	// Exact says that the error is zero.
	Exact       bool   `json:"exact,omitempty"`
	Approximate bool   `json:"approximate,omitempty"` // the rows follow the law of the closed form only nearly
	Fitted      bool   `json:"fitted,omitempty"`
	Pending     bool   `json:"pending,omitempty"` // left out, being slow
	Warning     string `json:"warning,omitempty"`
	// it estimates a kernel of its own, relative to which its error is
	Own    bool            `json:"own,omitempty"`
	Reason string          `json:"reason,omitempty"`
	Value  json.RawMessage `json:"value,omitempty"` // the family with its parameters
}

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// group puts what is comparable first.
func (r Row) group() int {
	switch {
	case !r.Known:
		return 2
	case r.Own:
		return 1
	}
	return 0
}

// key orders rows by their error.
func (r Row) key() float64 {
	switch {
	case r.Exact:
		return math.Inf(-1)
	case math.IsNaN(float64(r.LogMSE)):
		return math.Inf(1)
	}
	return float64(r.LogMSE)
}

// unknown is a row without numbers.
func (r Row) unknown() Row {
	nan := Number(math.NaN())
	r.LogMSE, r.LogVar, r.LogBias = nan, nan, nan
	return r
}
