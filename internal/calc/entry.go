package calc

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/randfeat/randfeat/internal/similar"
)

// ErrUnknown marks a name that the calculator does not have.
var ErrUnknown = errors.New("unknown formula")

// ErrInput marks inputs that are missing, unknown, of the wrong type or out of range.
var ErrInput = errors.New("bad input")

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

// Entries lists every formula in the order of the specification. The slice is the caller's.
func Entries() []Entry {
	var all []Entry
	for _, group := range [][]Entry{
		kernelEntries(), varianceEntries(), parameterEntries(), coupledEntries(), concentrationEntries(),
		hybridEntries(), orfEntries(), darkEntries(), featureEntries(), couplingEntries(), attentionEntries(),
	} {
		all = append(all, group...)
	}
	return all
}

// Table finds entries by name.
type Table map[string]Entry

// NewTable indexes [Entries].
func NewTable() Table {
	t := Table{}
	for _, e := range Entries() {
		t[e.Name] = e
	}
	return t
}

// Find returns the entry of a name. The error for an unknown name suggests the closest known one.
func (t Table) Find(name string) (Entry, error) {
	if e, ok := t[name]; ok {
		return e, nil
	}
	best, distance := "", len(name)/2+1
	names := make([]string, 0, len(t))
	for n := range t {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		if d := similar.Distance(name, n); d < distance {
			best, distance = n, d
		}
	}
	if best == "" {
		return Entry{}, fmt.Errorf("%w %q: randfeat theory list shows all names", ErrUnknown, name)
	}
	return Entry{}, fmt.Errorf("%w %q: did you mean %s?", ErrUnknown, name, best)
}
