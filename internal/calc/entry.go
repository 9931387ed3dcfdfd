package calc

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
)

// Entry is one formula of the calculator.
type Entry struct {
	Name      string
	Reference string  // paper and place, and a few words about the value
	Inputs    []Input // all are required

	eval func(in values) (any, error)
}

// formula is the entry of a function whose parameters are the inputs in their order, and which returns a value, or a
// value and an error. Its signature is checked by the cases of the tests, which evaluate every entry.
func formula(name, reference string, f any, inputs ...Input) Entry {
	call := reflect.ValueOf(f)
	return Entry{Name: name, Reference: reference, Inputs: inputs, eval: func(in values) (any, error) {
		var args []reflect.Value
		for _, i := range inputs {
			args = append(args, reflect.ValueOf(in[i.Key]))
		}
		out := call.Call(args)
		if len(out) == 2 && !out[1].IsNil() {
			return nil, out[1].Interface().(error)
		}
		return out[0].Interface(), nil
	}}
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
