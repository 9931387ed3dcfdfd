package calc

import (
	"errors"
	"fmt"
	"sort"

	"github.com/randfeat/randfeat/internal/suggest/similar"
)

// ErrUnknown is wrapped by the error about a name that the calculator does not have.
var ErrUnknown = errors.New("unknown formula")

// Table maps names to entries.
type Table map[string]Entry

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

// NewTable returns a table of [Entries].
func NewTable() Table {
	t := Table{}
	for _, e := range Entries() {
		t[e.Name] = e
	}
	return t
}

// Find returns the entry with the given name. The error about an unknown name wraps [ErrUnknown] and suggests the
// closest name; the search runs in sorted order, so that ties have the same answer every time.
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
