package tabular

import (
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
)

// decision holds the choices made on the sample, as plain data with a JSON form. A checkpoint stores it. JSON keeps
// every bit of a float64, so a resumed fit has the same map and λ. Projections are not stored: they are drawn again
// from Spec.Seed.
type decision struct {
	Spec    randfeat.Spec `json:"spec"`
	Lambda  float64       `json:"lambda"`
	Open    bool          `json:"open,omitempty"` // all rows will decide on λ, near Lambda
	Choices []Choice      `json:"choices"`
	Notes   []string      `json:"notes,omitempty"`
	Rows    int64         `json:"rows"` // of the table
	Sampled int           `json:"sampled"`
	Last    uint64        `json:"last,omitempty"`    // largest priority of the sampled rows
	Exact   bool          `json:"exact,omitempty"`   // the kernel of all rows, no random features
	Large   bool          `json:"large,omitempty"`   // by conjugate gradients
	Tried   bool          `json:"tried,omitempty"`   // some choice was between alternatives tried on the sample
	Margins bool          `json:"margins,omitempty"` // the loss of an exact kernel: squared hinge
	// Missed is the out-of-fold error of the choice, the root of the mean square of standardised targets; 0: unknown.
	Missed float64 `json:"missed,omitempty"`
	// Metric describes the metric of the kernel.
	Metric *machine.Metric `json:"metric,omitempty"`
	// Apart says that the choices were made without the first fold that is scored.
	Apart bool `json:"apart,omitempty"`
	// Codes are those of columns of levels.
	Codes map[string]string `json:"codes,omitempty"`

	fields []float64        // weights of the fields, which the columns get; nil: they keep theirs
	marks  []coupling.Omega // landmarks, if the map has some
	// faultless says that the search of an exact kernel ended without errors of classes.
	faultless bool
}

// prior are choices that were made for other rows of the table.
type prior struct {
	schema *data.Schema
	task   machine.Task
	d      *decision
	last   int // the last fold without which they were made
}

// follow takes the choices for the n rows of a sample. The columns of these rows need not be those of the choices;
// widths go by name. It returns nil where the choices cannot be taken.
func (p *prior) follow(f *job, s *sample, n int64) *decision {
	d := *p.d
	if !(d.Exact || d.Large) || p.task != f.task {
		return nil
	}
	d.Spec.Kernel.M = carried(d.Spec.Kernel.M, p.schema, f.schema)
	if d.Spec.Dim = s.x.Cols; d.Exact {
		d.Spec.M = s.len()
	}
	d.Rows, d.Sampled, d.Last, d.Apart = n, s.len(), s.last, false
	d.Choices, d.Notes = slices.Clone(d.Choices), slices.Clone(d.Notes)
	if d.fields = nil; f.weighs {
		d.fields = make([]float64, len(f.schema.Fields))
		for i := range d.fields {
			d.fields[i] = weightOf(p.schema, &f.schema.Fields[i])
		}
		weigh(s.x, f.columnWeights(d.fields))
	}
	return &d
}

// weightOf is the weight of a field in another schema; 1 if it is not there.
func weightOf(s *data.Schema, field *data.Field) float64 {
	for i := range s.Fields {
		if o := &s.Fields[i]; o.Name == field.Name && o.Kind == field.Kind && o.Weight > 0 {
			return o.Weight
		}
	}
	return 1
}
