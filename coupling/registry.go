package coupling

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/randfeat/randfeat/internal/namedjson"
	"github.com/randfeat/randfeat/internal/suggest/similar"
)

// Info describes a coupling for listings and help texts.
type Info struct {
	Name      string    `json:"name"`
	Summary   string    `json:"summary"`
	Reference string    `json:"reference"`        // paper and equation
	Exact     bool      `json:"exact"`            // each row has exactly the requested law, so estimators stay unbiased
	Replaces  bool      `json:"replaces"`         // rows have another law, uniform in direction: for another kernel
	Cost      string    `json:"cost"`             // operations to draw m rows; a product costs O(md) unless stated
	Laws      []LawKind `json:"laws"`             // marginals it is defined for
	Fields    []Field   `json:"fields,omitempty"` // its parameters
	Blocks    bool      `json:"blocks"`           // rows depend on each other in blocks of the dimension, blocks do not
	Pairs     PairKind  `json:"-"`                // law of two rows of a block, see [Pairs]
	// SameLaw names a coupling with the same law at no more cost, which takes its place among candidates.
	SameLaw string `json:"same_law,omitempty"`
	// Benchmark marks a coupling that takes seconds per draw and serves comparisons only.
	Benchmark bool `json:"benchmark,omitempty"`
	// Plain marks the plainest coupling of a pair law: families are judged under these before all others.
	Plain bool `json:"plain,omitempty"`
	// Fast says that products with many columns take O(n log n).
	Fast bool `json:"fast,omitempty"`

	examples []Coupling
}

// Examples returns values of the coupling for tests and demonstrations, one for each way through its code; the first is
// the zero value. The common tests iterate over the examples of the registry, and a coupling without examples is
// refused, so none goes untested.
func (i Info) Examples() []Coupling { return slices.Clone(i.examples) }

// Field is a parameter of a coupling, as written in JSON.
type Field struct {
	Name string `json:"name"`
	Doc  string `json:"doc"` // meaning and default
}

// entry joins the description with the codec.
type entry struct {
	info   Info
	zero   Coupling
	decode func([]byte) (Coupling, error)
}

// register makes the entry of type C, whose examples are its zero value and more.
func register[C Coupling](info Info, more ...C) entry {
	var zero C
	info.Name, info.examples = zero.Name(), []Coupling{zero}
	for _, c := range more {
		info.examples = append(info.examples, c)
	}
	return entry{info: info, zero: zero, decode: func(data []byte) (Coupling, error) {
		var c C
		if err := namedjson.Decode(data, &c); err != nil {
			return nil, fmt.Errorf("coupling %s: %w: %w", info.Name, err, ErrParam)
		}
		if err := valid(c); err != nil {
			return nil, err
		}
		return c, nil
	}}
}

// entries is the table of all couplings. It is a function rather than a variable, so there is nothing to initialise and
// nothing a caller could change.
func entries() []entry {
	factors := []Field{{"k", "number of HD factors; 0 means 3, and exact blocks up to d = 16"}}
	return []entry{
		register[IID](Info{
			Summary:   "independent rows",
			Reference: "baseline; SimRF Lemma 4.1",
			Exact:     true,
			Plain:     true,
			Pairs:     PairIndependent,
			Cost:      "O(md)",
			Laws:      allLaws(),
		}),
		register[Orthogonal](Info{
			Summary:   "orthogonal blocks: Haar rotation, independent chi norms",
			Reference: "Yu et al. 2016 (arXiv:1610.09072); SimRF Thm 4.3; ORF section 2",
			Exact:     true,
			Blocks:    true,
			Plain:     true,
			Pairs:     PairOrthogonal,
			Cost:      "O(md²), QR per block",
			Laws:      directionalLaws(),
		}),
		register[ORFPrime](Info{
			Summary:   "orthogonal rows of one fixed norm; the target becomes the Bessel kernel, not the Gaussian",
			Reference: "ORF section 2, Thms 2 and 4",
			Exact:     false,
			Replaces:  true,
			Blocks:    true,
			Pairs:     PairOrthogonal,
			Cost:      "O(md²), QR per block",
			Laws:      directionalLaws(),
			Fields:    []Field{{"sqrtDim", "norm √d instead of 1, default false"}},
		}, ORFPrime{SqrtDim: true}),
		register[Hadamard](Info{
			Summary:   "nearly Haar blocks from sign flips and Hadamard transforms, fast products; exact up to d = 16",
			Reference: "SimRF B.2.2, eqs 89-90",
			Exact:     false,
			Blocks:    true,
			Fast:      true,
			Pairs:     PairOrthogonal,
			Cost:      "O(md log d); products O(m log d)",
			Laws:      directionalLaws(),
			Fields:    factors,
		}, Hadamard{K: 2}),
		register[Givens](Info{
			Summary:   "nearly Haar orthogonal blocks from random plane rotations",
			Reference: "Choromanski et al. 2019, Unifying Orthogonal Monte Carlo Methods",
			Exact:     false,
			Blocks:    true,
			SameLaw:   Orthogonal{}.Name(),
			Pairs:     PairOrthogonal,
			Cost:      "O(md log d)",
			Laws:      directionalLaws(),
			Fields:    []Field{{"rotations", "rotations per block, 0 means 4 d ⌈log2 d⌉"}},
		}, Givens{Rotations: 60}),
		register[Simplex](Info{
			Summary:   "rows to the corners of a simplex: least variance for positive features",
			Reference: "SimRF eqs 8-9, Alg 1",
			Exact:     true,
			Blocks:    true,
			Plain:     true,
			Pairs:     PairSimplex,
			Cost:      "O(md²), QR per block",
			Laws:      directionalLaws(),
		}),
		register[FastSimplex](Info{
			Summary:   "simplex rotated by HD products, fast products; exact up to d = 16",
			Reference: "SimRF Alg 1 with B.2.2, eqs 89-90",
			Exact:     false,
			Blocks:    true,
			Fast:      true,
			Pairs:     PairSimplex,
			Cost:      "O(md log d); products O(m log d)",
			Laws:      directionalLaws(),
			Fields:    factors,
		}, FastSimplex{K: 2}),
		register[CoupledOrthogonal](Info{
			Summary:   "orthogonal blocks, norms in pairs of a long and a short row: less variance at no cost",
			Reference: "Reid et al. 2025 (arXiv:2405.16541) section 3",
			Exact:     true,
			Blocks:    true,
			Plain:     true,
			Pairs:     PairCoupled,
			Cost:      "O(md²), QR per block",
			Laws:      directionalLaws(),
		}),
		register[CoupledHadamard](Info{
			Summary:   "hadamard blocks, norms in pairs of a long and a short row, fast products",
			Reference: "Reid et al. 2025 (arXiv:2405.16541) section 3; SimRF eqs 89-90",
			Exact:     false,
			Blocks:    true,
			Fast:      true,
			Pairs:     PairCoupled,
			Cost:      "O(md log d); products O(m log d)",
			Laws:      directionalLaws(),
			Fields:    factors,
		}, CoupledHadamard{K: 2}),
		register[SimplexPlus](Info{
			Summary:   "simplex turned until the rows of a block sum to zero",
			Reference: "SimRF eqs 15-17",
			Exact:     true,
			Blocks:    true,
			Pairs:     PairZeroSum,
			Cost:      "O(md²), QR and product per block",
			Laws:      directionalLaws(),
			Fields:    []Field{{"sweeps", "largest number of sweeps, 0 means 20"}},
		}, SimplexPlus{Sweeps: 3}),
		register[Optimised](Info{
			Summary:   "numerically optimal directions for one |x+y|; benchmark only",
			Reference: "SimRF eqs 10 and 12",
			Exact:     true,
			Blocks:    true,
			Benchmark: true,
			Pairs:     PairZeroSum,
			Cost:      "O(md²) times hundreds of iterations",
			Laws:      directionalLaws(),
			Fields:    []Field{{"v", "|x+y| to optimise for, 0 means 1"}},
		}, Optimised{V: 2}),
		register[Halton](Info{
			Summary:   "shifted Halton points with digit permutations above dimension 8",
			Reference: "HRF Table 1 (baseline); Halton 1960",
			Exact:     true,
			Cost:      "O(md log m)",
			Laws:      quantileLaws(),
		}),
		register[Sobol](Info{
			Summary:   "scrambled Sobol points",
			Reference: "Sobol 1967; Matoušek 1998",
			Exact:     true,
			Cost:      "O(md)",
			Laws:      quantileLaws(),
		}),
	}
}

// List describes all couplings, in the order of the documentation.
func List() []Info {
	var infos []Info
	for _, e := range entries() {
		infos = append(infos, e.info)
	}
	return infos
}

// InfoOf returns the entry of a coupling, nil meaning IID, or the zero Info if it has none.
func InfoOf(c Coupling) Info {
	i := infoOf(c)
	i.Laws, i.Fields = slices.Clone(i.Laws), slices.Clone(i.Fields)
	return i
}

// registered is the table, made once: closed forms look couplings up for every pair of points.
var registered = sync.OnceValue(entries)

// infoOf is InfoOf with slices that must not change.
func infoOf(c Coupling) Info {
	if c == nil {
		c = IID{}
	}
	for _, e := range registered() {
		if reflect.TypeOf(e.zero) == reflect.TypeOf(c) {
			return e.info
		}
	}
	return Info{}
}

// names is the list of valid names, for messages.
func names() []string {
	var ns []string
	for _, e := range entries() {
		ns = append(ns, e.info.Name)
	}
	return ns
}

// lookup finds the entry of a name.
func lookup(name string) (entry, error) {
	for _, e := range entries() {
		if e.info.Name == name {
			return e, nil
		}
	}
	if name == "" {
		return entry{}, fmt.Errorf("coupling: no name; want one of %s: %w", strings.Join(names(), ", "), errName)
	}
	return entry{}, fmt.Errorf("%w %q%s; want one of %s", errName, name, similar.Hint(name, names()),
		strings.Join(names(), ", "))
}

// Parse reads a coupling from a command line or a spec: a name such as "simplex", which gives the zero value, or a
// JSON object such as {"name":"hadamard","k":2}.
func Parse(text string) (Coupling, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "{") {
		return decode([]byte(text))
	}
	e, err := lookup(text)
	if err != nil {
		return nil, err
	}
	return e.zero, nil
}

// decode reads the JSON object written by [Encode]. The error of a missing or unknown name lists the valid ones.
// Anything else that is wrong (not a JSON object; fields that are unknown, repeated, unreadable or out of range) is an
// ErrParam. Names of fields are case-sensitive.
func decode(data []byte) (Coupling, error) {
	name, body, err := namedjson.Split(data)
	if err != nil {
		return nil, fmt.Errorf("coupling: want a JSON object with a \"name\": %w: %w", err, ErrParam)
	}
	e, err := lookup(name)
	if err != nil {
		return nil, err
	}
	return e.decode(body)
}

// Encode writes a coupling as a JSON object with its name and its non-zero fields, for instance
// {"name":"hadamard","k":2}. A nil coupling is written as iid. Types of other packages are errors.
func Encode(c Coupling) ([]byte, error) {
	if c == nil {
		c = IID{}
	}
	if InfoOf(c).Name == "" {
		return nil, fmt.Errorf("cannot encode coupling of type %T; valid names: %s: %w", c, strings.Join(names(), ", "),
			errName)
	}
	if err := valid(c); err != nil {
		return nil, err
	}
	b, err := namedjson.Encode(c.Name(), c)
	if err != nil {
		return nil, fmt.Errorf("coupling %s: %w", c.Name(), err)
	}
	return b, nil
}
