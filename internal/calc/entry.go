package calc

import (
	"encoding/json"
	"fmt"
	"math"
)

// Entry is one formula of the calculator.
type Entry struct {
	Name      string
	Reference string  // paper and place, and a few words about the value
	Inputs    []Input // all are required

	eval func(in values) (any, error)
}

// Eval decodes the inputs strictly and evaluates the formula. The result is a float64, or nested []any and [Object]
// values of float64. Errors wrap [ErrInput] if the inputs are malformed or outside the domain of the formula; a formula
// whose single value is NaN counts as the latter.
func (e Entry) Eval(inputs json.RawMessage) (any, error) {
	in, err := decode(e.Inputs, inputs)
	if err != nil {
		return nil, err
	}
	v, err := e.eval(in)
	if err != nil {
		return nil, err
	}
	if f, ok := v.(float64); ok && math.IsNaN(f) {
		return nil, fmt.Errorf("the inputs are outside the domain of %s: %w", e.Name, ErrInput)
	}
	return generic(v), nil
}
