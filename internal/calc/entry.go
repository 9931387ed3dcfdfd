package calc

import (
	"encoding/json"
	"fmt"
	"math"
)

// Entry is one formula of the calculator.
type Entry struct {
	Name      string
	Reference string  // paper and place, and what the value is
	Inputs    []Input // all of them are required

	eval func(in values) (any, error)
}

// Eval decodes the inputs strictly and evaluates the formula. The result is a float64, an int, or nested []any and
// [Object] values of these.
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
