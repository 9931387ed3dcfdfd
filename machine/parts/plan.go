package parts

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/tensorfile"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/tabular"
)

// Plan holds the choices of a run and the held-out rows. Its file is all that workers and Finish need besides the run.
type Plan struct {
	*tabular.Plan
	run    *Run
	state  planState
	held   *rowSample // the held-out rows
	digest string     // SHA-256 of the file form; parts of Sum carry it
	// contents has the hash of every unit as Learn has read it, contentSize bytes each.
	contents []byte
}

// planState is the part of the file that tabular.Plan does not have.
type planState struct {
	Run  string  `json:"run"`
	Held int     `json:"held"`           // number of rows held out
	Last *rowKey `json:"last,omitempty"` // the largest key of a held-out row: rows with keys up to it are held out
	// Kernels are the kernels of the machines that ran Learn, and of the machine that ran Choose.
	Kernels []string `json:"kernels"`
}

// Held is the number of rows that are held out.
func (p *Plan) Held() int { return p.state.Held }

// holds reports whether the row with key k is held out. Keys are a random order of the rows, so workers decide row by
// row, without a list.
func (p *Plan) holds(k rowKey) bool { return p.state.Last != nil && k.compare(*p.state.Last) <= 0 }

// Choose makes all choices from the sample in the merged part of Learn. The rows with the smallest keys are held out;
// the following ones are tried. The sample is already in the order of keys, so both are random samples of the table.
func (r *Run) Choose(ctx context.Context, whole *Part) (*Plan, error) {
	l, ok := whole.body.(*learned)
	if !ok || whole.step.run.id != r.id || whole.span != (Span{0, r.Leaves()}) {
		return nil, fmt.Errorf("choices need the merged part of all leaves of the step learn of this run: %w",
			machine.ErrMismatch)
	}
	if len(l.contents) != contentSize*len(r.units) {
		return nil, fmt.Errorf("hashes of %d bytes for %d units: %w", len(l.contents), len(r.units), machine.ErrCorrupt)
	}
	kernels, err := kernelsHere()
	if err != nil {
		return nil, err
	}
	schema, summary := r.o.Schema, (*data.Summary)(nil)
	if schema == nil {
		if schema, summary, err = l.learner.Schema(); err != nil {
			return nil, err
		}
		summary.Notes = append(summary.Notes, r.table.Notes()...)
	}
	n := l.learner.Rows()
	held := int(min(int64(r.mostHeld()), n/heldShare, int64(l.sample.Len()/2)))
	name := r.Name() + ", a sample"
	tried := l.sample.part(held, min(l.sample.Len(), held+r.tried(schema.Width())))
	rows, err := machine.TableRows(tried.Source(name), schema, len(schema.Targets) > 0)
	if err != nil {
		return nil, err
	}
	t := tabular.Table{Name: r.Name(), Schema: schema, Summary: summary, Rows: n - int64(held),
		X: dense.New[float64](tried.Len(), rows.Dim()), Y: dense.New[float64](tried.Len(), rows.Outputs())}
	at := 0
	err = rows.Each(1024, func(x, y dense.Matrix[float64]) error {
		for i := range x.Rows {
			copy(t.X.Row(at), x.Row(i))
			if y.Cols > 0 {
				copy(t.Y.Row(at), y.Row(i))
			}
			at++
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	p := &Plan{run: r, held: l.sample.part(0, held), contents: l.contents,
		state: planState{Run: r.id, Held: held, Kernels: union(whole.kernels, []string{kernels})}}
	if p.Plan, err = tabular.Choose(ctx, t, r.o.Options); err != nil {
		return nil, err
	}
	if held > 0 {
		p.state.Last = &p.held.rows[0].key
	}
	b, err := p.MarshalBinary()
	if err != nil {
		return nil, err
	}
	p.sign(b)
	return p, nil
}

// tried is the number of rows to try choices on, given the number of encoded columns.
func (r *Run) tried(width int) int {
	n := r.o.Sample
	n = cmp.Or(n, defaultSample)
	return max(min(n, sampleCells/max(width, 1)), leastSample)
}

// sign sets the digest of the plan from its file form.
func (p *Plan) sign(b []byte) {
	sum := sha256.Sum256(b)
	p.digest = hex.EncodeToString(sum[:])
}

const (
	planFormat  = "randfeat plan of a run"
	planVersion = 2
)

// AppendBinary appends the file form of the plan to b: a safetensors container with checksums.
func (p *Plan) AppendBinary(b []byte) ([]byte, error) {
	plan, err := p.Plan.MarshalBinary()
	if err != nil {
		return b, err
	}
	held, err := p.held.AppendBinary(nil)
	if err != nil {
		return b, err
	}
	state, err := json.Marshal(p.state)
	if err != nil {
		return b, err
	}
	c := &tensorfile.File{Metadata: map[string]string{"format": planFormat, "version": strconv.Itoa(planVersion),
		"state": string(state)},
		Tensors: []tensorfile.Tensor{{Name: "plan", DType: "U8", Shape: []int{len(plan)}, Data: plan},
			{Name: "held", DType: "U8", Shape: []int{len(held)}, Data: held},
			{Name: "contents", DType: "U8", Shape: []int{len(p.contents)}, Data: p.contents}}}
	c.Seal()
	w := bytes.NewBuffer(b)
	_, err = c.WriteTo(w)
	return w.Bytes(), err
}

// MarshalBinary implements encoding.BinaryMarshaler; see AppendBinary.
func (p *Plan) MarshalBinary() ([]byte, error) { return p.AppendBinary(nil) }

// ReadPlan reads the output of AppendBinary. A plan of another run is machine.ErrMismatch, any other damage
// machine.ErrCorrupt.
func (r *Run) ReadPlan(b []byte) (*Plan, error) {
	corrupt := func(err error) (*Plan, error) {
		return nil, fmt.Errorf("the plan: %w: %w", machine.ErrCorrupt, err)
	}
	c, err := tensorfile.Parse(b)
	if err != nil {
		return corrupt(err)
	}
	if v := c.Metadata["format"]; v != planFormat {
		return corrupt(fmt.Errorf("format %q, want %q", v, planFormat))
	}
	if v := c.Metadata["version"]; v != strconv.Itoa(planVersion) {
		return corrupt(fmt.Errorf("version %q of the format, this program reads %d", v, planVersion))
	}
	if err := c.Verify(); err != nil {
		return corrupt(err)
	}
	p := &Plan{run: r}
	dec := json.NewDecoder(bytes.NewReader([]byte(c.Metadata["state"])))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p.state); err != nil {
		return corrupt(err)
	}
	if p.state.Run != r.id {
		return nil, fmt.Errorf("the plan is of another run, of other files or options: %.16s, this one is %.16s: %w",
			p.state.Run, r.id, machine.ErrMismatch)
	}
	plan, ok := c.Tensor("plan")
	held, ok2 := c.Tensor("held")
	if !ok || !ok2 || p.state.Held < 0 || p.state.Held > r.mostHeld() || (p.state.Held > 0) != (p.state.Last != nil) {
		return corrupt(fmt.Errorf("%d rows held out", p.state.Held))
	}
	contents, ok := c.Tensor("contents")
	if !ok || len(contents.Data) != contentSize*len(r.units) {
		return corrupt(fmt.Errorf("no hashes of %d units", len(r.units)))
	}
	p.contents = contents.Data
	if p.Plan, err = tabular.UnmarshalPlan(plan.Data); err != nil {
		return nil, err
	}
	p.held = newRowSample(r.columns(), r.o.Seed, p.state.Held)
	if err := p.held.UnmarshalBinary(held.Data); err != nil {
		return nil, err
	}
	if p.held.Len() != p.state.Held || p.state.Held > 0 && p.held.rows[0].key != *p.state.Last {
		return corrupt(fmt.Errorf("%d rows held out, want %d", p.held.Len(), p.state.Held))
	}
	p.sign(b)
	return p, nil
}
