package centroid

import (
	"fmt"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/par"
)

// Attention computes centroid attention. It implements attention.Attention[attention.Seq[float32]]. Set Specs before
// the first call.
type Attention struct {
	attention.Visibility
	// Scale multiplies q·k in the logits. 0 means 1/√d.
	Scale float64
	// Specs has one entry for all key/value heads, or one per head. All are of one type, which decides whether the
	// attention is causal: Causal has to agree.
	Specs []Spec
	// Unchecked skips the check for NaN and infinities. Set it only if the values are known to be finite.
	Unchecked bool

	calls    par.Pool[call] // the memory of calls
	prefixes par.Pool[prefixCall]
}

// Forward writes the attention of q over k and v to out. out has the heads and length of q and the dimension of v.
func (a *Attention) Forward(out, q, k, v attention.Seq[float32]) (attention.Report, error) {
	if err := out.Check("out"); err != nil {
		return attention.Report{}, err
	}
	if err := a.checkArguments(out.Shape, q, k, v); err != nil {
		return attention.Report{}, err
	}
	return a.rows(nil, out, q, k, v)
}

// At computes the output rows of Forward at the query positions rows, for every batch and head, with the same bits. out
// has len(rows) positions; rows may be in any order, without repetitions. The cost is that of clustering plus these
// rows.
func (a *Attention) At(out attention.Seq[float32], rows []int, q, k, v attention.Seq[float32]) error {
	if err := a.checkAt(out, rows, q, k, v); err != nil || rows == nil {
		return err
	}
	_, err := a.rows(rows, out, q, k, v)
	return err
}

// rows computes the wanted rows, nil for all; the arguments have been checked.
func (a *Attention) rows(wanted []int, out, q, k, v attention.Seq[float32]) (attention.Report, error) {
	if a.Causal {
		if err := a.checkValues(q, k, v); err != nil {
			return attention.Report{}, err
		}
	}
	switch a.Specs[0].(type) {
	case Prefix:
		c := a.prefixes.Get()
		defer a.prefixes.Put(c)
		defer c.forget()
		if err := c.begin(a, q, k, v); err != nil {
			return attention.Report{}, err
		}
		c.aim(wanted, out)
		return c.run(true, true), nil
	case Sketch:
		all, err := replays(a, q, k, v)
		if err != nil {
			return attention.Report{}, err
		}
		return forwardReplay(a, all, wanted, out)
	}
	c := a.calls.Get()
	defer a.calls.Put(c)
	defer c.forget()
	if err := c.start(a, out, q, k, v); err != nil {
		return attention.Report{}, err
	}
	if !a.Unchecked { // with the list of seen keys, whose memory is reused
		if err := attention.CheckValues(q, k, v, c.seen); err != nil {
			return attention.Report{}, err
		}
	}
	c.wanted = wanted
	return c.run(true, true), nil
}

// checkAt is checkArguments for the rows of At.
func (a *Attention) checkAt(out attention.Seq[float32], rows []int, q, k, v attention.Seq[float32]) error {
	if out.Len != len(rows) {
		return fmt.Errorf("out has %d positions for %d rows: %w", out.Len, len(rows), dense.ErrShape)
	}
	seen := make([]bool, q.Len)
	for _, l := range rows {
		if l < 0 || l >= q.Len {
			return fmt.Errorf("row %d of %d queries: %w", l, q.Len, dense.ErrShape)
		}
		if seen[l] {
			return fmt.Errorf("row %d is wanted twice, give every row once: %w", l, dense.ErrShape)
		}
		seen[l] = true
	}
	if err := out.Check("out"); err != nil {
		return err
	}
	whole := out.Shape
	whole.Len = q.Len
	return a.checkArguments(whole, q, k, v)
}

// checkArguments validates the shapes of Forward and the fields of a.
func (a *Attention) checkArguments(out attention.Shape, q, k, v attention.Seq[float32]) error {
	if err := checkInputs(&a.Visibility, out, q, k, v); err != nil {
		return err
	}
	if err := checkSpecs(a.Specs, k.Heads); err != nil {
		return err
	}
	if s := a.Specs[0]; s.Causal() != a.Causal {
		return fmt.Errorf("%T is for attention with causal %t, Causal is %t: %w", s, s.Causal(), a.Causal, ErrSpec)
	}
	_, err := logitScale(a.Scale, q.Dim)
	return err
}

// checkValues looks for NaN and infinities unless the caller knows better.
func (a *Attention) checkValues(q, k, v attention.Seq[float32]) error {
	if a.Unchecked {
		return nil
	}
	return attention.CheckValues(q, k, v, a.SeenKeys(nil, q.Batch, q.Len, k.Len))
}
